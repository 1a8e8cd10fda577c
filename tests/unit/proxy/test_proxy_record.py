"""The layer that tells of own writes: which requests count, and when the ledger hears of them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.proxy.exchange import Caller, Exchange, Handler, Owner
from runner.proxy.record import recording
from runner.proxy.request_info import RequestInfo
from runner.sources.own_writes import OwnerKey, OwnWrites
from runner.sources.store import Change, ChangeKind
from runner.testing.clock import FakeClock
from tests.unit.proxy.proxy_upstream import Answer, Proxied, Received, Upstream, forwarding, reply

DEPLOYMENT = GVK("apps", "v1", "Deployment")
RESOURCES = {
    "deployments": Resource(gvk=DEPLOYMENT, plural="deployments"),
    "namespaces": Resource(gvk=GVK("", "v1", "Namespace"), plural="namespaces", namespaced=False),
    "certificatesigningrequests": Resource(
        gvk=GVK("certificates.k8s.io", "v1", "CertificateSigningRequest"),
        plural="certificatesigningrequests",
        namespaced=False,
    ),
}
CALLER = Caller(owner=Owner(gvk=GVK("example.com", "v1", "WebApp"), namespace="ns", name="shop", uid="u"), run="1")
WEB = "/apis/apps/v1/namespaces/ns/deployments/web"
ANSWER = json.dumps({"metadata": {"name": "web", "namespace": "ns", "uid": "d", "resourceVersion": "5"}}).encode()


class Noted:
    """What the layer told: `runner.proxy.dependents.OwnWrites`."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.begun: list[tuple[str, str, str, str]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.left = 0

    @contextlib.contextmanager
    def writing(self, resource: Resource, *, namespace: str, name: str, verb: str, caller: Caller) -> Iterator[Noted]:
        """Note a write."""
        assert caller is CALLER
        self.begun.append((resource.gvk.kind, namespace, name, verb))
        try:
            yield self
        finally:
            self.left += 1

    def answered(self, *, status: int, body: bytes) -> None:
        """Note an answer: `runner.proxy.dependents.Writing`."""
        self.answers.append((status, body))


class Watched:
    """What the layer wants watched: `runner.proxy.dependents.Dependents`."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.followed: list[tuple[str, str, Owner]] = []

    async def ensure(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """Refuse: the layer has nothing to wait for."""
        raise AssertionError

    def follow(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """Note it."""
        self.followed.append((resource.gvk.kind, namespace, owner))


async def look_up(info: RequestInfo) -> Resource | None:
    """Know three kinds."""
    return RESOURCES.get(info.resource)


def known(inner: Handler) -> Handler:
    """Let every request be one of the run."""

    async def handle(exchange: Exchange) -> web.StreamResponse:
        exchange.caller = CALLER if "X-Nobody" not in exchange.request.headers else None
        return await inner(exchange)

    return handle


@contextlib.asynccontextmanager
async def recorded(
    folder: Path, *, upstream: Upstream, own: Any, watched: Watched | None = None
) -> AsyncIterator[Proxied]:
    """Run a proxy with the layer."""
    layer = recording(own, dependents=watched or Watched(), look_up=look_up)
    async with forwarding(folder, server=upstream.url, layer=lambda inner: known(layer(inner))) as proxied:
        yield proxied


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/apis/apps/v1/namespaces/ns/deployments", ("Deployment", "ns", "", "create")),
        ("PUT", WEB, ("Deployment", "ns", "web", "update")),
        ("PATCH", f"{WEB}?fieldManager=me", ("Deployment", "ns", "web", "patch")),
        ("DELETE", WEB, ("Deployment", "ns", "web", "delete")),
        ("DELETE", "/apis/apps/v1/namespaces/ns/deployments", ("Deployment", "ns", "", "deletecollection")),
        ("PATCH", f"{WEB}/status", ("Deployment", "ns", "web", "patch")),
        ("PUT", f"{WEB}/scale", ("Deployment", "ns", "web", "update")),
        ("PATCH", f"{WEB}/ephemeralcontainers", ("Deployment", "ns", "web", "patch")),
        ("PATCH", f"{WEB}/resize", ("Deployment", "ns", "web", "patch")),
        ("PATCH", "/api/v1/namespaces/ns", ("Namespace", "", "ns", "patch")),
        ("PUT", "/api/v1/namespaces/ns/finalize", ("Namespace", "", "ns", "update")),
        (
            "PUT",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr/approval",
            ("CertificateSigningRequest", "", "csr", "update"),
        ),
    ],
)
async def test_a_write_is_told_before_and_after(
    tmp_path: Path,
    upstream: Upstream,
    client: aiohttp.ClientSession,
    *,
    method: str,
    path: str,
    expected: tuple[str, ...],
) -> None:
    """Kind, place and verb before it is sent, the answer before the client has it; the client gets it unchanged."""
    noted = Noted()
    upstream.answer = reply(ANSWER)
    async with (
        recorded(tmp_path, upstream=upstream, own=noted) as proxied,
        client.request(method, proxied.url + path, data=b"{}") as answer,
    ):
        assert (answer.status, await answer.read()) == (200, ANSWER)
    assert noted.begun == [expected]
    assert noted.answers == [(200, ANSWER)]
    assert noted.left == 1


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", WEB, {}),
        ("GET", "/version", {}),
        ("POST", "/version", {}),
        ("DELETE", "/apis/apps/v1/namespaces/ns/deployments?dryRun=All", {}),
        ("POST", f"{WEB}/binding", {}),
        ("DELETE", f"{WEB}/scale", {}),
        ("PUT", f"{WEB}/proxy", {}),
        ("PATCH", f"{WEB}/proxy/a/b", {}),
        ("PATCH", f"{WEB}?dryRun=All", {}),
        ("PATCH", "/apis/x.io/v1/namespaces/ns/unknowns/web", {}),
        ("PATCH", WEB, {"X-Nobody": "1"}),
    ],
)
async def test_other_requests_are_not_told(
    tmp_path: Path,
    upstream: Upstream,
    client: aiohttp.ClientSession,
    *,
    method: str,
    path: str,
    headers: dict[str, str],
) -> None:
    """Reads, other subresources, dry runs, unknown kinds, and what nobody in particular sends."""
    noted = Noted()
    async with (
        recorded(tmp_path, upstream=upstream, own=noted) as proxied,
        client.request(method, proxied.url + path, headers=headers) as answer,
    ):
        assert answer.status == 200
    assert not noted.begun


@pytest.mark.parametrize("path", [WEB, WEB.removesuffix("/web")])
@pytest.mark.parametrize(
    ("body", "counts"),
    [
        (None, True),
        (b"", True),
        (b'{"kind": "DeleteOptions", "propagationPolicy": "Foreground"}', True),
        (b'{"dryRun": []}', True),
        (b'{"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}', False),
        (b'{"dryRun": "All"}', False),
        (b"dryRun: [All]", False),
        (b"k8s\x00\x0a\x13", False),
        (b"[" * 100_000, False),
        (gzip.compress(b'{"dryRun": ["All"]}'), False),
    ],
)
async def test_a_deletion_whose_body_makes_it_a_dry_run_is_not_told(
    tmp_path: Path, upstream: Upstream, client: aiohttp.ClientSession, *, body: bytes | None, counts: bool, path: str
) -> None:
    """Options in the body count as in the query; one that can't be read may hold any, and arrives all the same."""
    noted = Noted()
    async with (
        recorded(tmp_path, upstream=upstream, own=noted) as proxied,
        client.delete(proxied.url + path, data=body) as answer,
    ):
        assert answer.status == 200
    assert bool(noted.begun) is counts
    assert upstream.requests[-1].body == (body or b"")


OWNED = {
    "metadata": {
        "name": "web",
        "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "WebApp", "name": "shop", "uid": "u"}],
    }
}
ANNOTATED = {
    "metadata": {
        "name": "web",
        "annotations": {
            "operator-sdk/primary-resource": "ns/shop",
            "operator-sdk/primary-resource-type": "WebApp.example.com",
        },
    }
}
ANOTHERS = {
    "metadata": {
        "name": "web",
        "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "WebApp", "name": "shop", "uid": "x"}],
    }
}


@pytest.mark.parametrize(
    ("method", "status", "answer", "followed"),
    [
        ("PATCH", 200, OWNED, True),
        ("PATCH", 200, ANNOTATED, True),
        ("PUT", 200, OWNED, True),
        ("PATCH", 200, ANOTHERS, False),
        ("PATCH", 200, [OWNED], False),
        ("PATCH", 409, OWNED, False),
        ("DELETE", 200, OWNED, False),
    ],
    ids=["reference", "annotations", "replaced", "another's", "no object", "refused", "deleted"],
)
async def test_what_a_write_finds_to_be_the_owners_is_watched(
    tmp_path: Path,
    upstream: Upstream,
    client: aiohttp.ClientSession,
    *,
    method: str,
    status: int,
    answer: object,
    followed: bool,
) -> None:
    """The answer carries a reference to the run's owner, or its annotations: who only patches gets its watch back."""
    watched = Watched()
    upstream.answer = reply(json.dumps(answer).encode(), status=f"{status} Whatever")
    async with (
        recorded(tmp_path, upstream=upstream, own=Noted(), watched=watched) as proxied,
        client.request(method, proxied.url + WEB, data=b"{}") as got,
    ):
        assert got.status == status
        await got.read()
    assert watched.followed == ([("Deployment", "ns", CALLER.owner)] if followed else [])


@pytest.mark.parametrize("coding", ["gzip", "br"])
async def test_a_packed_answer_reaches_the_client_and_is_nothing_to_the_ledger(
    tmp_path: Path, upstream: Upstream, client: aiohttp.ClientSession, *, coding: str
) -> None:
    """What the ledger can't read costs a run more, and nothing else."""
    noted, packed = Noted(), gzip.compress(ANSWER)
    upstream.answer = reply(packed, headers=(f"Content-Encoding: {coding}",))
    async with (
        recorded(tmp_path, upstream=upstream, own=noted) as proxied,
        client.patch(proxied.url + WEB, data=b"{}") as answer,
    ):
        assert await answer.read() == packed
    assert noted.answers == [(200, b"")]


@pytest.mark.parametrize("kind", [ChangeKind.MODIFIED, ChangeKind.DELETED])
async def test_an_event_that_comes_before_the_answer_waits(
    tmp_path: Path, upstream: Upstream, client: aiohttp.ClientSession, *, kind: ChangeKind
) -> None:
    """The watch tells of a change while the API server still answers: it is known as own when the answer is here."""
    own, sent, go = OwnWrites(lives=lambda _caller: True, clock=FakeClock()), asyncio.Event(), asyncio.Event()
    told: list[frozenset[OwnerKey] | None] = []

    async def late(received: Received, writer: asyncio.StreamWriter) -> None:
        sent.set()
        await go.wait()
        await answer_now(received, writer)

    answer_now: Answer = reply(ANSWER)
    upstream.answer = late
    change = Change(kind=kind, obj=json.loads(ANSWER), old=json.loads(ANSWER))
    method = "DELETE" if kind is ChangeKind.DELETED else "PATCH"
    async with recorded(tmp_path, upstream=upstream, own=own) as proxied:
        request = asyncio.create_task(client.request(method, proxied.url + WEB, data=b"{}").__aenter__())
        await sent.wait()
        own.settle(gvk=DEPLOYMENT, change=change, then=told.append)
        assert not told
        go.set()
        answer = await request
        assert [{key.name for key in writers or ()} for writers in told] == [{"shop"}]
        answer.close()


async def test_a_write_whose_connection_breaks_leaves_nothing(
    tmp_path: Path, upstream: Upstream, client: aiohttp.ClientSession
) -> None:
    """No answer: whoever waits is told that nobody of ours is known to have made the change."""
    own, sent, go = OwnWrites(lives=lambda _caller: True, clock=FakeClock()), asyncio.Event(), asyncio.Event()
    told: list[frozenset[OwnerKey] | None] = []

    async def broken(_: Received, writer: asyncio.StreamWriter) -> None:
        sent.set()
        await go.wait()
        writer.close()

    upstream.answer = broken
    change = Change(kind=ChangeKind.MODIFIED, obj=json.loads(ANSWER), old=json.loads(ANSWER))
    async with recorded(tmp_path, upstream=upstream, own=own) as proxied:
        request = asyncio.create_task(client.patch(proxied.url + WEB, data=b"{}").__aenter__())
        await sent.wait()
        own.settle(gvk=DEPLOYMENT, change=change, then=told.append)
        go.set()
        answer = await request
        assert answer.status >= 500
        assert told == [frozenset()]
        answer.close()
    assert not len(own)
