"""Lives of the embedded operator on a small API server in memory: when values are given, and when they are refused."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from runner.clock import SystemClock
from runner.errors import ExecutionError
from runner.handlers.embedded import Plan
from runner.handlers.host import Host, HostSettings
from runner.handlers.loading import load
from runner.handlers.session import Connection
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.localdev.ports import free_ports
from runner.logs import Logger, RecordingSink
from runner.observe.metrics_handlers import HandlersMetrics
from runner.settings import BackoffSettings, HandlersSettings, KubeSettings
from runner.testing.apiserver import FakeApiServer
from runner.testing.faults import ActiveRule, HttpFaultProxy, Rule
from runner.testing.waiting import eventually

PODS = Resource(gvk=GVK("", "v1", "Pod"), plural="pods", namespaced=True)
THINGS = Resource(gvk=GVK("demo.example.com", "v1", "Thing"), plural="things", namespaced=True)
OBJECT = {"metadata": {"name": "one"}, "spec": {"size": 1}}
HEAD = """
import kopf
from runner.handlers import published
"""
INDEXES_PODS = """
@kopf.index("pods")
async def pods(name, **_):
    return {"all": name}

@published
def names(*, pods, **_):
    return sorted(pods.get("all", []))
"""
INDEXES_THINGS = INDEXES_PODS.replace('"pods"', '"things.demo.example.com"')
QUICK = HandlersSettings(backoff=BackoffSettings(base=0.01, cap=0.02), patience=60.0, rescan_interval=0.05)
IMPATIENT = replace(QUICK, patience=0.5)


@dataclass(kw_only=True)
class Api:
    """The API server, what it serves, and what goes wrong before it."""

    server: FakeApiServer
    proxy: HttpFaultProxy
    kubeconfig: Path
    rules: list[ActiveRule] = field(default_factory=list)

    def serve(self, *resources: Resource) -> None:
        """Tell of *resources*, and of namespaces, and of no other kinds from now on."""
        for rule in self.rules:
            rule.cancel()
        namespaces = Resource(gvk=GVK("", "v1", "Namespace"), plural="namespaces", namespaced=False)
        groups: dict[str, list[Resource]] = {"": [namespaces]}
        for resource in resources:
            groups.setdefault(resource.gvk.group, []).append(resource)
        named = [
            {"name": group, "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
            for group in groups
            if group
        ]
        self.rules = [self._tell("^/api$", {"versions": ["v1"]}), self._tell("^/apis$", {"groups": named})]
        for group, served in groups.items():
            path = f"^/apis/{group}/v1$" if group else "^/api/v1$"
            self.rules.append(self._tell(path, {"resources": [_told(resource) for resource in served]}))

    def put(self, resource: Resource, name: str, **body: Any) -> None:
        """Create an object."""
        self.server.put(resource, body={"metadata": {"name": name}, **body}, namespace="default")

    def _tell(self, path: str, body: object) -> ActiveRule:
        return self.proxy.rule(Rule(path=path, status=200, body=body))


def _told(resource: Resource) -> dict[str, Any]:
    kind = resource.gvk.kind
    verbs = ["get", "list", "watch", "patch"]
    told = {"name": resource.plural, "kind": kind, "singularName": kind.lower(), "verbs": verbs}
    return {**told, "namespaced": resource.namespaced}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """Give an API server that serves pods, and knows things."""
    async with FakeApiServer() as server:
        server.define(PODS)
        server.define(THINGS)
        async with HttpFaultProxy(upstream_kubeconfig=server.kubeconfig(tmp_path / "upstream")) as proxy:
            api = Api(server=server, proxy=proxy, kubeconfig=proxy.kubeconfig(tmp_path / "kubeconfig"))
            api.serve(PODS)
            yield api


@dataclass(kw_only=True)
class Scene:
    """A host and its one file."""

    host: Host
    file: Path
    sink: RecordingSink
    registry: CollectorRegistry

    async def names(self) -> Any:
        """Return what the file publishes as `names`."""
        return (await self.host.values(self.file, OBJECT))["names"]

    def told(self, sentence: str) -> list[Any]:
        """Return the log's records with *sentence* in them."""
        return [record for record in list(self.sink.records) if sentence in str(record["msg"])]

    def metric(self, name: str, **labels: str) -> float | None:
        """Return a metric's value."""
        return self.registry.get_sample_value(f"ansible_operator_{name}_total", labels)


@contextlib.asynccontextmanager
async def running(
    api: Api, text: str, *, settings: HandlersSettings = QUICK, namespaces: tuple[str, ...] = ()
) -> AsyncIterator[Scene]:
    """Run a host for a file with *text* during the block."""
    file = api.kubeconfig.parent / f"life_{api.kubeconfig.parent.name}.py"
    file.write_text(HEAD + text)
    sink, registry = RecordingSink(), CollectorRegistry()
    plan = Plan(
        loaded=load([file]),
        connection=Connection(kube=KubeSettings(kubeconfig=str(api.kubeconfig))),
        logger=Logger("handlers", sink=sink, level="debug"),
        namespaces=namespaces,
        settings=settings,
        metrics=HandlersMetrics(registry),
    )
    host = Host(plan, settings=HostSettings(handlers=settings), clock=SystemClock())
    task = asyncio.create_task(host.run())
    try:
        yield Scene(host=host, file=file, sink=sink, registry=registry)
    finally:
        host.stop()
        await task


async def test_a_value_has_all_objects_of_an_index(api: Api) -> None:
    """What was there at the start is in the value, and an empty list of another kind holds nothing up."""
    api.serve(PODS, THINGS)
    api.put(PODS, "a")
    api.put(PODS, "b")
    more = "\n@kopf.index('things.demo.example.com')\ndef things(**_): ...\n"
    async with running(api, INDEXES_PODS + more) as scene:
        assert await scene.names() == ["a", "b"]


async def test_an_index_of_a_kind_that_is_not_served_is_no_empty_index(api: Api) -> None:
    """A run is refused with the kind's name; when it is served, all is indexed anew, which is no failure."""
    api.put(THINGS, "thing")
    async with running(api, INDEXES_THINGS) as scene:
        with pytest.raises(ExecutionError, match=r"names gave no value .*: things\S* is indexed by pods, but not serv"):
            await scene.names()
        api.serve(PODS, THINGS)
        await eventually(lambda: scene.told("make their indexes anew"), limit=120)
        assert await scene.names() == ["thing"]
        (record,) = scene.told("make their indexes anew")
        assert record["level"] == "info"
        assert "is served now" in record["reason"]
        assert not scene.told("ended by an error")
        assert scene.metric("handlers_restarts", file=str(scene.file)) == 0


async def test_an_index_that_lacks_its_kind_is_in_the_way_of_nobody_else(api: Api) -> None:
    """A function that doesn't name the index has its value, and can't get the empty index by another way."""
    text = INDEXES_THINGS.replace("*, pods, **_", "**kwargs").replace("sorted(pods.get", "'pods' in kwargs #")
    async with running(api, text) as scene:
        assert await scene.names() is False


async def test_a_look_for_kinds_that_fails_is_not_the_last_one(api: Api) -> None:
    """Whatever an answer makes of it is logged, and kinds are looked for again."""
    api.put(THINGS, "thing")
    async with running(api, INDEXES_THINGS) as scene:
        await eventually(lambda: scene.host.running, limit=120)
        nonsense = api.proxy.rule(Rule(path="^/apis$", status=200, body={"no": "groups"}))
        api.rules.append(nonsense)
        for rule in api.rules[:-1]:
            rule.cancel()
        await eventually(lambda: scene.told("Could not look for kinds"), limit=120)
        api.serve(PODS, THINGS)
        await eventually(lambda: scene.told("make their indexes anew"), limit=120)
        assert await scene.names() == ["thing"]


async def test_a_filter_that_raises_keeps_its_object_from_its_handler_only(api: Api) -> None:
    """An index has all other objects, the failure is counted, and the log names filter and object."""
    text = """
def fits(name, **_):
    if name == "bad":
        raise ValueError("never seen such a thing")
    return True
""" + INDEXES_PODS.replace('"pods")', '"pods", when=fits)')
    api.put(PODS, "bad")
    api.put(PODS, "good")
    async with running(api, text) as scene:
        assert await scene.names() == ["good"]
        assert scene.metric("handler_errors", handler="pods") == 1
        record = scene.told("A filter of the handler pods failed")[0]
        assert (record["level"], record["name"]) == ("error", "bad")
        assert f"{scene.file}:" in record["msg"]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # kopf's, when it ends at its start
async def test_a_run_waits_for_the_next_life(api: Api) -> None:
    """While handlers start again nothing is wrong yet: the value comes from the life that follows."""
    text = """
tries = []

@kopf.on.startup()
async def fail(**_):
    tries.append(1)
    if len(tries) < 3:
        raise kopf.PermanentError("not yet")
"""
    api.put(PODS, "a")
    async with running(api, text + INDEXES_PODS) as scene:
        assert await scene.names() == ["a"]
        assert scene.metric("handlers_restarts", file=str(scene.file)) == 2


async def test_lost_changes_make_new_indexes_without_an_error(api: Api) -> None:
    """After 410 what was deleted meanwhile is in no value; nothing is counted as a failure."""
    api.put(PODS, "goes")
    async with running(api, INDEXES_PODS) as scene:
        assert await scene.names() == ["goes"]
        await eventually(lambda: api.proxy.watches(r"/pods\?"))
        down = api.proxy.rule(Rule(path=r"/pods\?.*watch=true", status=503))
        api.server.end_watches()
        await down.wait_hit()
        async with (
            aiohttp.ClientSession() as session,
            session.delete(f"{api.server.url}/api/v1/namespaces/default/pods/goes"),
        ):
            api.server.compact()
        down.cancel()
        await eventually(lambda: scene.told("make their indexes anew"), limit=120)
        assert await scene.names() == []
        assert "changes of /api/v1/pods were lost" in scene.told("make their indexes anew")[0]["reason"]
        assert not scene.told("ended by an error")
        assert scene.metric("handlers_restarts", file=str(scene.file)) == 0


async def test_what_indexes_wait_for_is_told(api: Api) -> None:
    """A right that is missing is in the run's error and in the probe, with the path."""
    refused = api.proxy.rule(Rule(path=r"/pods(\?|$)", status=403))
    async with running(api, INDEXES_PODS, settings=IMPATIENT) as scene:
        await refused.wait_hit()
        await eventually(lambda: "GET /api/v1/pods: 403" in str(scene.host.readiness()))
        with pytest.raises(ExecutionError, match=r"after 0\.5 s the indexes are not complete yet: GET /api/v1/pods: 4"):
            await scene.names()


async def test_a_function_gets_a_copy_of_the_object_and_must_return(api: Api) -> None:
    """What it does with the object reaches nobody else; one that doesn't return is what the run's error says."""
    text = """
import asyncio

@kopf.index("pods")
def pods(**_): ...

@published
async def names(*, body, spec, **_):
    assert body["spec"] is spec
    spec["size"] += 1
    await asyncio.sleep(1000)
"""
    async with running(api, text, settings=IMPATIENT) as scene:
        await eventually(lambda: scene.host.running and scene.host.readiness() is None, limit=120)
        with pytest.raises(ExecutionError, match=r"after 0\.5 s a function that is @published has not returned"):
            await scene.names()
    assert OBJECT["spec"] == {"size": 1}


async def test_admission_is_not_answered_before_the_indexes_are_complete(api: Api) -> None:
    """The API server gets 503 then, so that the failure policy decides; later it gets the handler's answer."""
    (port,) = free_ports(1)
    settings = replace(
        QUICK,
        admission_patience=0.1,
        webhook_bind_address=f"127.0.0.1:{port}",
        webhook_cert_dir=api.kubeconfig.parent / "none",
    )
    text = """
@kopf.on.validate("pods")
def check(pods, **_):
    raise kopf.AdmissionError(f"there are {len(pods)}")
"""
    refused = api.proxy.rule(Rule(path=r"/pods(\?|$)", status=403))
    async with running(api, INDEXES_PODS + text, settings=settings) as scene:
        await refused.wait_hit()
        status, body = await _review(f"https://127.0.0.1:{port}/check")
        assert (status, body) == (503, "the indexes of the Python handlers are not complete yet")
        refused.cancel()
        assert await scene.names() == []
        status, body = await _review(f"https://127.0.0.1:{port}/check")
        assert (status, "there are 0" in body) == (200, True)


async def _review(url: str) -> tuple[int, str]:
    """Ask a webhook, as soon as it listens."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "default"}}
    request = {
        "uid": "1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {},
        "object": pod,
    }
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession() as session, asyncio.timeout(60):
        while (answer := await _posted(session, url, review={"request": request}, context=context)) is None:  # noqa: ASYNC110 - a server that comes tells nobody
            await asyncio.sleep(0.01)
    return answer


async def _posted(
    session: aiohttp.ClientSession, url: str, *, review: object, context: ssl.SSLContext
) -> tuple[int, str] | None:
    try:
        async with session.post(url, json=review, ssl=context) as response:
            return response.status, await response.text()
    except aiohttp.ClientConnectorError:
        return None
