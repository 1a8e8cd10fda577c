"""The layer that says whose the objects are that a run makes: which requests it touches, and which it refuses."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.mapping import Mapper
from runner.kube.objects import GVK
from runner.logs import Logger, RecordingSink
from runner.proxy.exchange import Caller, Exchange, Handler, Owner
from runner.proxy.inject import OwnerInjection
from runner.settings import KubeSettings
from runner.testing.kubeconfig import write_kubeconfig
from tests.unit.proxy.proxy_upstream import Proxied, Received, Upstream, forwarding, reply, status_message

OWNER = Owner(gvk=GVK("bugs.example.com", "v1", "Probe"), namespace="ns1", name="p", uid="u1")
REFERENCE = {"apiVersion": "bugs.example.com/v1", "kind": "Probe", "name": "p", "uid": "u1"}
ANNOTATIONS = {"operator-sdk/primary-resource": "ns1/p", "operator-sdk/primary-resource-type": "Probe.bugs.example.com"}
STORED = ["create", "get", "list", "watch"]
CORE = {
    "resources": [
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": STORED},
        {"name": "namespaces", "kind": "Namespace", "namespaced": False, "verbs": STORED},
        {"name": "events", "kind": "Event", "namespaced": True, "verbs": STORED},
        {"name": "bindings", "kind": "Binding", "namespaced": True, "verbs": ["create"]},
    ]
}
EVENTS = {"resources": [entry for entry in CORE["resources"] if entry["name"] == "events"]}
MAPS = "/api/v1/namespaces/ns1/configmaps"
JSON = "application/json"
APPLY = "application/apply-patch+yaml"


class Ensured:
    """Takes down what was to be watched."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.calls: list[tuple[str, str, str]] = []

    async def ensure(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """Take it down."""
        self.calls.append((resource.label(), namespace, owner.uid))

    def follow(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """Refuse: an object that is made must not be there before its watch."""
        raise AssertionError


@dataclass(kw_only=True)
class Scene:
    """A proxy with the layer alone, before a stand-in for the API server."""

    upstream: Upstream
    session: aiohttp.ClientSession
    ensured: Ensured = field(default_factory=Ensured)
    sink: RecordingSink = field(default_factory=RecordingSink)
    caller: Caller | None = field(default_factory=lambda: Caller(owner=OWNER, run="r1"))
    proxied: Proxied | None = None
    live: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Metadata by path."""
    broken: dict[str, str] = field(default_factory=dict)
    """By path: the status line that a GET is answered with."""
    status: str = "200 OK"
    """Of the answer to writes."""

    async def answer(self, received: Received, writer: asyncio.StreamWriter) -> None:
        """Play the API server."""
        path = received.target.partition("?")[0]
        if received.method != "GET":
            await reply(status=self.status)(received, writer)
        elif path in self.broken:
            await reply(b"{}", status=self.broken[path])(received, writer)
        elif path == "/api/v1":
            await reply(json.dumps(CORE).encode())(received, writer)
        elif path == "/apis/events.k8s.io/v1":
            await reply(json.dumps(EVENTS).encode())(received, writer)
        elif path in self.live:
            await reply(json.dumps({"metadata": self.live[path]}).encode())(received, writer)
        else:
            await reply(b"{}", status="404 Not Found")(received, writer)

    async def send(
        self, method: str, target: str, body: bytes | AsyncIterator[bytes], *, content_type: str = JSON, **headers: str
    ) -> tuple[int, str]:
        """Send one request; return the status, and the sentence of a refusal."""
        assert self.proxied is not None
        names = {"Content-Type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
        url = self.proxied.url + target
        data = io.BytesIO(body) if isinstance(body, bytes) else body
        async with self.session.request(method, url, data=data, headers=names) as answer:
            text = await answer.read()
            return answer.status, status_message(text) if b'"Failure"' in text else ""

    async def sent(self, method: str, target: str, body: bytes, *, content_type: str = JSON, **headers: str) -> bytes:
        """Send one request, and return the body that arrives at the API server."""
        assert await self.send(method, target, body, content_type=content_type, **headers) == (200, "")
        assert (self.upstream.last.method, self.upstream.last.target) == (method, target)
        return self.upstream.last.body

    async def metadata(self, method: str, target: str, metadata: object, *, content_type: str = JSON) -> dict[str, Any]:
        """Send an object with *metadata*, and return the metadata that arrives."""
        body = json.dumps({"metadata": metadata}).encode()
        result: dict[str, Any] = json.loads(await self.sent(method, target, body, content_type=content_type))[
            "metadata"
        ]
        return result

    def asked(self, method: str) -> list[str]:
        """Return the targets of the requests that arrived."""
        return [received.target for received in self.upstream.requests if received.method == method]


@pytest.fixture
async def scene(upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path) -> AsyncIterator[Scene]:
    """Give a proxy whose every request comes from a run."""
    scene = Scene(upstream=upstream, session=client)
    upstream.answer = scene.answer
    kubeconfig = write_kubeconfig(tmp_path / "own", server=upstream.url, user={"token": "own"})
    async with AsyncExitStack() as stack:
        own = await stack.enter_async_context(KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))))
        layer = OwnerInjection(
            mapper=Mapper(client=own), client=own, dependents=scene.ensured, logger=Logger(sink=scene.sink)
        )

        def identified(handler: Handler) -> Handler:
            async def handle(exchange: Exchange) -> web.StreamResponse:
                exchange.caller = scene.caller
                return await layer(handler)(exchange)

            return handle

        scene.proxied = await stack.enter_async_context(forwarding(tmp_path, server=upstream.url, layer=identified))
        yield scene


async def test_what_a_run_creates_gets_its_owner_and_is_watched(scene: Scene) -> None:
    """A POST to a collection carries the reference, with the right length, and the kind is watched before it leaves."""
    body = await scene.sent("POST", f"{MAPS}?fieldManager=x", b'{"metadata":{"generateName":"a-"}}')
    assert json.loads(body) == {"metadata": {"ownerReferences": [REFERENCE], "generateName": "a-"}}
    assert scene.upstream.last.all("Content-Length") == [str(len(body))]
    assert scene.upstream.last.all("Content-Type") == [JSON]
    assert scene.ensured.calls == [("configmaps", "ns1", "u1")]


@pytest.mark.parametrize(
    ("target", "namespace"),
    [("/api/v1/namespaces/ns2/configmaps", "ns2"), ("/api/v1/namespaces", "")],
)
async def test_what_can_not_refer_to_its_owner_is_annotated(scene: Scene, target: str, namespace: str) -> None:
    """In another namespace and in cluster scope the annotations stand for the reference, whatever they were."""
    for before in (None, {}, {"operator-sdk/primary-resource": "x/y"}):
        assert await scene.metadata("POST", target, {"annotations": before}) == {"annotations": ANNOTATIONS}
    assert scene.ensured.calls[0][1:] == (namespace, "u1")


async def test_the_namespace_of_the_body_counts_where_the_url_has_none(scene: Scene) -> None:
    """A POST to the collection of all namespaces is judged, and watched, by the namespace in the body."""
    assert "ownerReferences" in await scene.metadata("POST", "/api/v1/configmaps", {"namespace": "ns1"})
    assert "annotations" in await scene.metadata("POST", "/api/v1/configmaps", {"namespace": "ns2"})
    assert [call[1] for call in scene.ensured.calls] == ["ns1", "ns2"]


async def test_a_dry_run_is_injected_and_starts_no_watch(scene: Scene) -> None:
    """What a dry run answers is what a real create would."""
    assert "ownerReferences" in await scene.metadata("POST", f"{MAPS}?dryRun=All", {})
    assert scene.ensured.calls == []


@pytest.mark.parametrize(
    ("method", "target", "content_type"),
    [
        ("POST", "/api/v1/namespaces/ns1/pods/p/eviction", JSON),
        ("POST", "/api/v1/namespaces/ns1/bindings", JSON),
        ("POST", "/api/v1/namespaces/ns1/events", JSON),
        ("PUT", "/api/v1/namespaces/ns1/events/a", JSON),
        ("PATCH", "/apis/events.k8s.io/v1/namespaces/ns1/events/a", APPLY),
        ("POST", "/apis/events.k8s.io/v1/namespaces/ns1/events", JSON),
        ("POST", f"{MAPS}/name", JSON),
        ("PUT", f"{MAPS}/a/status", JSON),
        ("PUT", MAPS, JSON),
        ("PATCH", f"{MAPS}/a", "application/json-patch+json"),
        ("PATCH", f"{MAPS}/a", "application/merge-patch+json"),
        ("PATCH", f"{MAPS}/a", "application/strategic-merge-patch+json"),
        ("PATCH", MAPS, APPLY),
        ("PATCH", f"{MAPS}/a/status", APPLY),
        ("DELETE", f"{MAPS}/a", JSON),
        ("DELETE", MAPS, JSON),
        ("POST", "/api/v1/proxy/namespaces/ns1/services/s", JSON),
        ("POST", "/somewhere/else", JSON),
    ],
)
async def test_what_creates_nothing_of_the_runs_passes_as_it_is(
    scene: Scene, method: str, target: str, content_type: str
) -> None:
    """Subresources, kinds that only answer questions, Events, patches that can't create, deletions and other paths."""
    body = b'{ "metadata": { "name": "a" } }'
    assert await scene.sent(method, target, body, content_type=content_type) == body
    assert scene.ensured.calls == []
    assert scene.sink.records == []


async def test_who_is_no_run_owns_nothing(scene: Scene) -> None:
    """A request without credentials is passed as it is, and costs no discovery."""
    scene.caller = None
    assert await scene.sent("POST", MAPS, b'{ "metadata": {} }') == b'{ "metadata": {} }'
    assert scene.asked("GET") == []


WRITES = [("PUT", JSON), ("PATCH", APPLY)]


@pytest.mark.parametrize(("method", "content_type"), WRITES)
async def test_put_and_apply_of_what_is_not_there_are_creates(scene: Scene, method: str, content_type: str) -> None:
    """What they create has its owner, and is watched."""
    sent = await scene.metadata(method, f"{MAPS}/a", {"name": "a"}, content_type=content_type)
    assert sent == {"name": "a", "ownerReferences": [REFERENCE]}
    assert scene.ensured.calls == [("configmaps", "ns1", "u1")]


@pytest.mark.parametrize(("method", "content_type"), WRITES)
async def test_put_and_apply_keep_a_reference_of_ours_as_it_is(scene: Scene, method: str, content_type: str) -> None:
    """The live reference is put back with all its fields, as a changed one would need a right, or conflict."""
    live = {**REFERENCE, "controller": True}
    scene.live[f"{MAPS}/a"] = {"ownerReferences": [{"uid": "foreign"}, live]}
    for body in ({"name": "a"}, {"name": "a", "ownerReferences": None}, {"name": "a", "ownerReferences": [live]}):
        sent = await scene.metadata(method, f"{MAPS}/a", body, content_type=content_type)
        assert sent == {"name": "a", "ownerReferences": [live]}
    assert scene.ensured.calls == [("configmaps", "ns1", "u1")] * 3
    reads = [received for received in scene.upstream.requests if received.target == f"{MAPS}/a"]
    assert reads[0].all("Accept")[0].startswith("application/json;as=PartialObjectMetadata;")
    assert reads[0].all("Authorization") == ["Bearer own"]


@pytest.mark.parametrize(("method", "content_type"), WRITES)
async def test_put_and_apply_keep_our_annotations(scene: Scene, method: str, content_type: str) -> None:
    """A dependent in another namespace stays ours."""
    path = "/api/v1/namespaces/ns2/configmaps/a"
    scene.live[path] = {"annotations": {**ANNOTATIONS, "other": "1"}}
    assert await scene.metadata(method, path, {}, content_type=content_type) == {"annotations": ANNOTATIONS}


@pytest.mark.parametrize(("method", "content_type"), WRITES)
async def test_what_exists_and_is_not_ours_is_never_adopted(scene: Scene, method: str, content_type: str) -> None:
    """An object of somebody else, of nobody, or of an earlier owner of our name passes untouched and unwatched."""
    for references in ([], [{**REFERENCE, "uid": "u0"}], None):
        scene.live[f"{MAPS}/a"] = {"ownerReferences": references}
        body = b'{ "metadata": {} }'
        assert await scene.sent(method, f"{MAPS}/a", body, content_type=content_type) == body
    assert scene.ensured.calls == []


async def test_names_are_looked_up_as_they_are(scene: Scene) -> None:
    """A name with characters that mean something in a URL is one name."""
    scene.live[f"{MAPS}/a%3Fb"] = {"ownerReferences": [REFERENCE]}
    assert await scene.metadata("PUT", f"{MAPS}/a%3Fb", {}) == {"ownerReferences": [REFERENCE]}


async def test_what_may_not_be_read_passes_with_one_warning(scene: Scene) -> None:
    """Without the right to get, nobody can tell whose it is: once per kind the log names the right that is missing."""
    scene.broken[f"{MAPS}/a"] = "403 Forbidden"
    for run in ("r1", "r1", "r2"):
        scene.caller = Caller(owner=OWNER, run=run)
        assert await scene.sent("PUT", f"{MAPS}/a", b"{ }") == b"{ }"
    (record,) = scene.sink.records
    assert "Grant the verb get" in record["msg"]
    assert (record["resource"], record["name"], record["owner"]) == ("configmaps", "a", "Probe/ns1/p")


@pytest.mark.parametrize("content_type", ["application/vnd.kubernetes.protobuf", "application/cbor"])
async def test_a_format_that_can_not_be_read_passes_with_one_warning(scene: Scene, content_type: str) -> None:
    """Protobuf and CBOR are passed on to the byte; the log tells it once per kind and run, and what to do."""
    for run in ("r1", "r1", "r2"):
        scene.caller = Caller(owner=OWNER, run=run)
        assert await scene.sent("POST", MAPS, b"k8s\x00\xff", content_type=content_type) == b"k8s\x00\xff"
    assert [record["run"] for record in scene.sink.records] == ["r1", "r2"]
    assert "Let the client send JSON" in scene.sink.records[0]["msg"]
    assert scene.sink.records[0]["contentType"] == content_type


async def test_what_the_api_server_refuses_is_no_warning(scene: Scene) -> None:
    """Nothing was made, so nothing lacks an owner."""
    scene.status = "415 Unsupported Media Type"
    status, _ = await scene.send("PATCH", f"{MAPS}/a", b"x", content_type="application/apply-patch+cbor")
    assert status == 415
    assert scene.sink.records == []


async def test_a_kind_that_is_not_served_passes(scene: Scene) -> None:
    """The API server says so itself; should it take the object all the same, the log tells."""
    scene.status = "404 Not Found"
    assert (await scene.send("POST", "/apis/no.such/v1/things", b"{}"))[0] == 404
    assert scene.sink.records == []
    scene.status = "201 Created"
    assert (await scene.send("POST", "/apis/other.such/v1/things", b"{}"))[0] == 201
    assert "discovery does not list" in scene.sink.records[0]["msg"]


async def test_discovery_that_fails_refuses_the_write(scene: Scene) -> None:
    """While nobody knows what a kind is, an object of it would have no owner: 503, and the other kinds go on."""
    scene.broken["/apis/metrics.k8s.io/v1"] = "503 Service Unavailable"
    status, sentence = await scene.send("POST", "/apis/metrics.k8s.io/v1/namespaces/ns1/things", b"{}")
    assert status == 503
    assert "could not ask the API server what things.metrics.k8s.io is" in sentence
    assert "kubectl get --raw /apis/metrics.k8s.io/v1" in sentence
    assert scene.asked("POST") == []
    assert "ownerReferences" in await scene.metadata("POST", MAPS, {})


async def test_a_look_up_that_fails_refuses_the_write(scene: Scene) -> None:
    """While nobody knows whether an object exists, a PUT could take its owner away."""
    scene.broken[f"{MAPS}/a"] = "500 Internal Server Error"
    status, sentence = await scene.send("PUT", f"{MAPS}/a", b"{}")
    assert status == 503
    assert "could not look whether configmaps a exists" in sentence
    assert scene.asked("PUT") == []


@pytest.mark.parametrize(
    ("content_type", "body", "problem"),
    [
        (JSON, b"[]", "no JSON object"),
        (JSON, b"", "no JSON object"),
        (JSON, b"a: b", "no JSON object"),
        ("application/yaml", b"a: b\n---\nc: d", "several YAML documents"),
        (JSON, gzip.compress(b"{}")[:-2], "ends too early"),
    ],
)
async def test_a_body_without_a_place_for_an_owner_is_refused(
    scene: Scene, content_type: str, body: bytes, problem: str
) -> None:
    """A body that is no object is answered with 400 and what is wrong with it."""
    status, sentence = await scene.send("POST", MAPS, body, content_type=content_type)
    assert status == 400
    assert problem in sentence
    assert scene.asked("POST") == []
    assert scene.ensured.calls == []


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("Application/JSON; charset=utf-8", b'{"metadata":{"name":"a"}}'),
        ("application/yaml", b"metadata:\n  name: a\n"),
        ("application/yaml", b'{"metadata":{"name":"a"}}'),
        ("application/yaml", b"{metadata: {name: a}}"),
    ],
)
async def test_yaml_is_injected_too(scene: Scene, content_type: str, body: bytes) -> None:
    """YAML stays YAML, and keeps its Content-Type."""
    sent = await scene.sent("POST", MAPS, body, content_type=content_type)
    assert yaml.safe_load(sent)["metadata"] == {"name": "a", "ownerReferences": [REFERENCE]}
    assert scene.upstream.last.all("Content-Type") == [content_type]


async def test_a_packed_body_arrives_unpacked(scene: Scene) -> None:
    """The API server reads no gzip; through the proxy such a request works."""
    sent = await scene.sent("POST", MAPS, gzip.compress(b'{"metadata":{}}'), Content_Encoding="gzip")
    assert json.loads(sent)["metadata"] == {"ownerReferences": [REFERENCE]}
    assert scene.upstream.last.all("Content-Encoding") == []


async def test_a_chunked_body_arrives_with_a_length(scene: Scene) -> None:
    """A body of unknown length is read, extended, and sent whole."""

    async def chunks() -> AsyncIterator[bytes]:
        for byte in b'{"metadata":{}}':
            yield bytes([byte])

    assert await scene.send("POST", MAPS, chunks()) == (200, "")
    assert json.loads(scene.upstream.last.body)["metadata"] == {"ownerReferences": [REFERENCE]}
    assert scene.upstream.last.all("Transfer-Encoding") == []


async def test_a_large_body_is_read_in_a_thread(scene: Scene) -> None:
    """Other requests go on while a body of megabytes is read."""
    before = set(threading.enumerate())  # not their names: another event loop's threads may be called the same
    body = json.dumps({"data": {"x": "y" * 2_000_000}, "metadata": {}}).encode()
    assert json.loads(await scene.sent("POST", MAPS, body))["metadata"] == {"ownerReferences": [REFERENCE]}
    assert any(thread.name.startswith("asyncio_") for thread in set(threading.enumerate()) - before)


async def test_a_body_beyond_every_limit_is_refused(scene: Scene) -> None:
    """What the API server wouldn't take either is not read to its end."""
    status, _ = await scene.send("POST", MAPS, b'{"data":"' + b"x" * 5_000_000 + b'"}')
    assert status == 413
    assert scene.asked("POST") == []


async def test_a_cluster_scoped_owner_owns_everything(scene: Scene) -> None:
    """Its reference is valid in each namespace and in cluster scope."""
    scene.caller = Caller(owner=replace(OWNER, namespace=""), run="r1")
    for target in (MAPS, "/api/v1/namespaces"):
        assert await scene.metadata("POST", target, {}) == {"ownerReferences": [REFERENCE]}
