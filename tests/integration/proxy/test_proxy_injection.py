"""Owner references through the whole proxy, as the API server takes them (field cases PX1, PX2, PX5, W7)."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from runner.assembly import Shared
from runner.assembly.run_access import RunAccess
from runner.kube.access import AccessSource
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import Object, metadata, uid_of
from runner.localdev.plane import ControlPlane, PlaneOptions
from runner.logs import RecordingSink
from runner.proxy.exchange import Owner
from runner.proxy.kubeconfig import username_of
from runner.settings import KubeSettings
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, SECRETS, wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator, settings_for
from runner.testing.identities import SERVICE_ACCOUNTS, Identity
from runner.testing.waiting import eventually

JSON = "application/json"
YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PRIMARY = "operator-sdk/primary-resource"


@dataclass(kw_only=True)
class Speaker:
    """Sends requests as one run through the proxy, and as the administrator past it."""

    kube: KubeClient
    namespace: str
    owner: Owner
    access: RunAccess
    direct: AccessSource
    session: aiohttp.ClientSession
    sink: RecordingSink
    secret: str = field(repr=False)

    @property
    def reference(self) -> dict[str, str]:
        """Return the owner reference that is to be expected."""
        owner = self.owner
        return {"apiVersion": owner.gvk.api_version, "kind": owner.gvk.kind, "name": owner.name, "uid": owner.uid}

    @property
    def maps(self) -> str:
        """Return the path of the namespace's ConfigMaps."""
        return CONFIG_MAPS.path(namespace=self.namespace)

    async def through(self, method: str, path: str, body: Any = b"", *, kind: str = JSON, **headers: str) -> Answer:
        """Send a request through the proxy, for the owner."""
        login = aiohttp.encode_basic_auth(username_of(self.owner), self.secret)
        names = {"Content-Type": kind, "Authorization": login, **_names(headers)}
        url = f"http://localhost:{self.access.port}{path}"
        async with self.session.request(method, url, data=_data(body), headers=names) as answer:
            return Answer(status=answer.status, body=json.loads(await answer.read()))

    async def past(self, method: str, path: str, body: Any = b"", *, kind: str = JSON, **headers: str) -> Answer:
        """Send a request to the API server itself."""
        access = await self.direct.current()
        names = {"Content-Type": kind, **access.headers, **_names(headers)}
        url = access.url(path)
        async with self.session.request(method, url, data=_data(body), headers=names, ssl=access.ssl or True) as answer:
            return Answer(status=answer.status, body=json.loads(await answer.read()))

    async def metadata_of(self, name: str, *, resource: Resource = CONFIG_MAPS, namespace: str = "") -> Object:
        """Return an object's metadata as it is stored."""
        return dict(metadata(await self.kube.get(resource, namespace=namespace or self.namespace, name=name)))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer of either."""

    status: int
    body: Any


def _data(body: Any) -> Any:
    return body if isinstance(body, bytes) or hasattr(body, "__aiter__") else json.dumps(body).encode()


def _names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def config_map(name: str, **meta: Any) -> Object:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": {"a": "b"}}


@asynccontextmanager
async def speaking(kube: KubeClient, *, namespace: str, kubeconfig: Path, admin: Path) -> AsyncIterator[Speaker]:
    """Run an operator with *kubeconfig*, and speak for a run of a ConfigMap that owns."""
    made = await kube.create(CONFIG_MAPS, namespace=namespace, body=config_map("owner"))
    owner = Owner(gvk=CONFIG_MAPS.gvk, namespace=namespace, name="owner", uid=uid_of(made))
    taken: list[Shared] = []

    def adjust(shared: Shared) -> Shared:
        taken.append(shared)
        return shared

    sink = RecordingSink()
    settings = replace(settings_for(kubeconfig), namespaces=(namespace,))
    async with running_operator([], settings=settings, executor=ScriptedExecutor(), sink=sink, adjust=adjust):
        await eventually(lambda: taken[0].access.port)
        async with aiohttp.ClientSession() as session:
            with taken[0].access.runs.open(owner=owner, run="r1") as secret:
                yield Speaker(
                    kube=kube,
                    namespace=namespace,
                    owner=owner,
                    access=taken[0].access,
                    direct=AccessSource(settings=KubeSettings(kubeconfig=str(admin))),
                    session=session,
                    sink=sink,
                    secret=secret,
                )


@pytest.fixture
async def speaker(kube: KubeClient, plane: ControlPlane, namespace: str) -> AsyncIterator[Speaker]:
    """Give a run of an operator with all rights."""
    async with speaking(kube, namespace=namespace, kubeconfig=plane.kubeconfig, admin=plane.kubeconfig) as speaker:
        yield speaker


async def test_the_holes_of_a_create_are_closed(speaker: Speaker) -> None:
    """PX1: no namespace in the body, `null`, our reference, a foreign one, generateName: one reference of ours each."""
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": speaker.owner.uid, "controller": True}
    other = await speaker.kube.create(CONFIG_MAPS, namespace=speaker.namespace, body=config_map("other"))
    stranger = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": uid_of(other), "controller": True}
    cases: list[tuple[str, dict[str, Any], list[Any]]] = [
        ("missing", {}, [speaker.reference]),
        ("null", {"ownerReferences": None}, [speaker.reference]),
        ("ours", {"ownerReferences": [speaker.reference]}, [speaker.reference]),
        ("ours-controller", {"ownerReferences": [foreign]}, [foreign]),
        ("foreign", {"ownerReferences": [stranger]}, [stranger, speaker.reference]),
    ]
    for name, meta, expected in cases:
        answer = await speaker.through("POST", speaker.maps, config_map(name, **meta))
        assert answer.status == 201, answer
        assert (await speaker.metadata_of(name))["ownerReferences"] == expected
    generated = config_map("", generateName="made-")
    answer = await speaker.through("POST", speaker.maps, generated)
    assert (await speaker.metadata_of(answer.body["metadata"]["name"]))["ownerReferences"] == [speaker.reference]


async def test_put_and_apply_keep_the_owner_and_adopt_nobody(speaker: Speaker) -> None:
    """PX1: a PUT and an apply without references leave ours on ours, and put none on what was there before."""
    await speaker.through("POST", speaker.maps, config_map("ours"))
    await speaker.past("POST", speaker.maps, config_map("theirs"))
    target = f"{speaker.maps}/{{}}"
    for name, expected in (("ours", [speaker.reference]), ("theirs", None)):
        for method, kind, query in (("PUT", JSON, ""), ("PATCH", APPLY, "?fieldManager=m&force=true")):
            for _ in range(2):
                body = config_map(name)
                answer = await speaker.through(method, target.format(name) + query, body, kind=kind)
                assert answer.status == 200, answer
                assert (await speaker.metadata_of(name)).get("ownerReferences") == expected


async def test_apply_does_not_conflict_with_a_reference_that_somebody_extended(speaker: Speaker) -> None:
    """A reference of ours that another manager wrote with `controller: true` is applied as it is, without force."""
    extended = {**speaker.reference, "controller": True}
    await speaker.past("POST", f"{speaker.maps}?fieldManager=other", config_map("c", ownerReferences=[extended]))
    body = {**config_map("c"), "data": {"new": "1"}}
    answer = await speaker.through("PATCH", f"{speaker.maps}/c?fieldManager=m", body, kind=APPLY)
    assert answer.status == 200, answer
    assert answer.body["metadata"]["ownerReferences"] == [extended]


async def test_apply_creates_with_an_owner_and_goes_on_applying(speaker: Speaker) -> None:
    """An object that one manager applies again and again keeps its reference, which the manager never sent."""
    target = f"{speaker.maps}/applied?fieldManager=m"
    for data in ("1", "2", "3"):
        body = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: applied\ndata:\n  n: '{data}'\n".encode()
        answer = await speaker.through("PATCH", target, body, kind=APPLY)
        assert answer.status in {200, 201}, answer
        assert answer.body["metadata"]["ownerReferences"] == [speaker.reference]


async def test_other_namespaces_and_cluster_scope_are_annotated(speaker: Speaker) -> None:
    """W7: no reference, which the garbage collector would take for a dead one, but the two annotations."""
    elsewhere = f"{speaker.namespace}-else"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere, "annotations": None}}
    try:
        assert (await speaker.through("POST", NAMESPACES.path(), body)).status == 201
        maps = CONFIG_MAPS.path(namespace=elsewhere)
        assert (await speaker.through("POST", maps, config_map("there"))).status == 201
        found = await speaker.metadata_of(elsewhere, resource=NAMESPACES)
        for meta in (found, await speaker.metadata_of("there", namespace=elsewhere)):
            assert "ownerReferences" not in meta
            assert meta["annotations"] == {
                PRIMARY: f"{speaker.namespace}/owner",
                "operator-sdk/primary-resource-type": "ConfigMap",
            }
        answer = await speaker.through("PUT", f"{maps}/there", config_map("there"))
        assert answer.body["metadata"]["annotations"][PRIMARY] == f"{speaker.namespace}/owner"
    finally:
        await speaker.kube.delete(NAMESPACES, name=elsewhere)


async def test_subresources_and_virtual_kinds_pass(speaker: Speaker) -> None:
    """PX1: a token request, a review and a status are no objects that anybody owns."""
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    accounts = SERVICE_ACCOUNTS.path(namespace=speaker.namespace)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}}
    assert (await speaker.through("POST", accounts, account)).status == 201
    answer = await speaker.through("POST", f"{accounts}/sa/token", token)
    assert answer.status == 201, answer
    assert "ownerReferences" not in answer.body["metadata"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    answer = await speaker.through("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert (answer.status, answer.body["status"]["allowed"]) == (201, True)
    assert "ownerReferences" not in answer.body["metadata"]


async def test_a_dry_run_shows_the_owner_and_makes_nothing(speaker: Speaker) -> None:
    """PX1: a dry run answers what a real create would."""
    answer = await speaker.through("POST", f"{speaker.maps}?dryRun=All", config_map("dry"))
    assert (answer.status, answer.body["metadata"]["ownerReferences"]) == (201, [speaker.reference])
    assert (await speaker.past("GET", f"{speaker.maps}/dry")).status == 404


def field_of(number: int, value: bytes) -> bytes:
    """Return one short protobuf field of bytes."""
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def protobuf_config_map(name: str) -> bytes:
    """Return a ConfigMap as `oc` sends it."""
    raw = field_of(1, field_of(1, name.encode())) + field_of(2, field_of(1, b"a") + field_of(2, b"b"))
    return b"k8s\x00" + field_of(1, field_of(1, b"v1") + field_of(2, b"ConfigMap")) + field_of(2, raw)


PLAIN = json.dumps(config_map("x")).encode()
ODD_JSON = (
    b' {"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","x":1e3},"data":{"n":"\\u00e9"},"unknown":[1.0]}\n'
)
BLOCK_YAML = (
    b"# why\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels: {a: b}\ndata:\n  t: 'y'\n  u: |\n    1\n"
)
LARGE = json.dumps({**config_map("x"), "data": {"a": "x" * 600_000}}).encode()
MERGE = json.dumps({"data": {"c": "d"}}).encode()
JSON_PATCH = json.dumps([{"op": "add", "path": "/data/c", "value": "d"}]).encode()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A request in one format."""

    method: str = "POST"
    kind: str = JSON
    body: bytes = PLAIN
    exists: bool = False
    """There is an object beforehand, which the run made, or the administrator."""
    owned: bool = True
    chunked: bool = False
    packed: bool = False
    """Through the proxy; past it the same is sent plain, as the API server reads no gzip."""


FORMATS = {
    "json": Row(),
    "json, odd but valid": Row(body=ODD_JSON),
    "json with charset": Row(kind="application/json; charset=utf-8"),
    "json, large": Row(body=LARGE),
    "json, chunked": Row(chunked=True),
    "json, gzip": Row(packed=True),
    "yaml": Row(kind=YAML, body=BLOCK_YAML),
    "yaml, json inside": Row(kind=YAML),
    "yaml, flow style": Row(kind=YAML, body=b"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"),
    "protobuf": Row(kind=PROTOBUF, body=protobuf_config_map("x"), owned=False),
    "apply, json": Row(method="PATCH", kind=APPLY),
    "apply, yaml": Row(method="PATCH", kind=APPLY, body=BLOCK_YAML),
    "apply, yaml, exists": Row(method="PATCH", kind=APPLY, body=BLOCK_YAML, exists=True),
    "apply, cbor": Row(method="PATCH", kind="application/apply-patch+cbor", body=b"\xd9\xd9\xf7\xa0"),
    "put, json, exists": Row(method="PUT", exists=True),
    "put, yaml, exists": Row(method="PUT", kind=YAML, body=BLOCK_YAML, exists=True),
    "put, missing": Row(method="PUT"),
    "json patch": Row(method="PATCH", kind="application/json-patch+json", body=JSON_PATCH, exists=True),
    "merge patch": Row(method="PATCH", kind="application/merge-patch+json", body=MERGE, exists=True),
    "strategic patch": Row(method="PATCH", kind="application/strategic-merge-patch+json", body=MERGE, exists=True),
    "unknown format": Row(kind="text/plain"),
    "no json at all": Row(body=b"[]"),
    "no yaml at all": Row(kind=YAML, body=b"a: [\n"),
}
_OF_THE_MOMENT = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences")


async def outcome(row: Row, *, speaker: Speaker, through: bool) -> tuple[int, Any]:
    """Send *row*, and return the status, and the stored object without what is of the moment, and its references."""
    send = speaker.through if through else speaker.past
    one = f"{speaker.maps}/x"
    if row.exists:
        assert (await send("POST", speaker.maps, PLAIN)).status == 201
    target = speaker.maps if row.method == "POST" else f"{one}?fieldManager=m&force=true"
    target = target if row.kind.startswith("application/apply") else target.partition("?")[0]
    headers = {"Content_Encoding": "gzip"} if row.packed and through else {}
    body: Any = gzip.compress(row.body) if headers else row.body
    answer = await send(row.method, target, in_pieces(body) if row.chunked else body, kind=row.kind, **headers)
    stored = await speaker.past("GET", one)
    if stored.status == 404:
        return answer.status, None
    await speaker.past("DELETE", one)
    meta = stored.body["metadata"]
    references = meta.get("ownerReferences")
    assert references == ([speaker.reference] if through and row.owned else None)
    stored.body["metadata"] = {key: value for key, value in meta.items() if key not in _OF_THE_MOMENT}
    return answer.status, stored.body


async def in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """Give *body* in pieces, so that it is sent without a length."""
    yield body[:20]
    yield body[20:]


@pytest.mark.parametrize("name", FORMATS)
async def test_every_format_has_the_same_result_as_without_the_proxy(speaker: Speaker, name: str) -> None:
    """PX2: status and stored object are the same through the proxy and past it, but for the owner."""
    past = await outcome(FORMATS[name], speaker=speaker, through=False)
    through = await outcome(FORMATS[name], speaker=speaker, through=True)
    assert through == past


async def test_protobuf_is_told_in_the_log(speaker: Speaker) -> None:
    """PX2: what passes without an owner is told once per kind and run, with what to do."""
    for name in ("p1", "p2"):
        assert (await speaker.through("POST", speaker.maps, protobuf_config_map(name), kind=PROTOBUF)).status == 201
    told = [record for record in speaker.sink.records if "no owner reference" in record["msg"]]
    assert [(record["level"], record["resource"], record["run"]) for record in told] == [("warn", "configmaps", "r1")]


async def test_many_creates_at_once_all_have_their_owner(speaker: Speaker) -> None:
    """Requests side by side don't mix up their bodies."""
    names = [f"m{number}" for number in range(40)]
    answers = await asyncio.gather(*(speaker.through("POST", speaker.maps, config_map(name)) for name in names))
    assert {answer.status for answer in answers} == {201}
    for answer, name in zip(answers, names, strict=True):
        meta = answer.body["metadata"]
        assert (meta["name"], meta["ownerReferences"]) == (name, [speaker.reference])


@pytest.fixture(scope="module")
def strict_plane() -> Iterator[ControlPlane]:
    """Give a control plane that guards owner references."""
    plugins = "NodeRestriction,OwnerReferencesPermissionEnforcement"
    started = ControlPlane.start(options=PlaneOptions(apiserver_args=(f"--enable-admission-plugins={plugins}",)))
    try:
        yield started
    finally:
        started.stop()


async def test_least_rights_are_enough_where_owner_references_are_guarded(
    strict_plane: ControlPlane, tmp_path: Path
) -> None:
    """PX5: with get, create and update on the dependents alone, a create passes, and a PUT that keeps the reference."""
    async with KubeClient(settings=KubeSettings(kubeconfig=str(strict_plane.kubeconfig))) as kube:
        await kube.create(NAMESPACES, body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "px5"}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "narrow"}}
        await kube.create(SERVICE_ACCOUNTS, namespace="px5", body=account)
        identity = Identity(admin=kube, namespace="px5", name="narrow")
        await identity.grant(SECRETS, verbs=("get", "create", "update"))
        own = await identity.kubeconfig(tmp_path / "narrow", source=strict_plane.kubeconfig)
        async with speaking(kube, namespace="px5", kubeconfig=own, admin=strict_plane.kubeconfig) as speaker:
            secrets = SECRETS.path(namespace="px5")
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
            blocking = [{**speaker.reference, "blockOwnerDeletion": True}]

            async def made() -> bool:
                return (await speaker.through("POST", secrets, body)).status == 201

            await wait_until(made, what="the grant to count")
            for data in ({"a": "1"}, {"a": "2"}):
                answer = await speaker.through("PUT", f"{secrets}/s", {**body, "stringData": data})
                assert answer.status == 200, answer
                assert answer.body["metadata"]["ownerReferences"] == [speaker.reference]
            guarded = {**body, "metadata": {"name": "t", "ownerReferences": blocking}}
            refused = await speaker.through("POST", secrets, guarded)
            assert (refused.status, "blockOwnerDeletion" in refused.body["message"]) == (403, True)
