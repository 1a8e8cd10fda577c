"""Events: what is written about an object, and how little is said where they cannot be written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runner.kube.client import KubeClient
from runner.kube.events import EVENTS, WARNING, EventRecorder
from runner.kube.objects import Object
from runner.logs import Logger, RecordingSink
from runner.settings import KubeSettings
from runner.testing.apiserver import FakeApiServer
from runner.testing.clock import FakeClock

OBJ: dict[str, Any] = {
    "apiVersion": "g.example.com/v1",
    "kind": "Thing",
    "metadata": {"name": "web", "namespace": "ops", "uid": "u-1", "resourceVersion": "7"},
    "spec": {"password": "hunter2"},
}


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    """Give an API server that knows Events."""
    async with FakeApiServer() as running:
        running.define(EVENTS)
        yield running


@pytest.fixture
async def client(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """Give its client."""
    settings = KubeSettings(kubeconfig=str(server.kubeconfig(tmp_path / "kubeconfig")))
    async with KubeClient(settings=settings) as made:
        yield made


async def _events(client: KubeClient) -> list[Object]:
    return await client.list(EVENTS)


async def _recorded(client: KubeClient, obj: Any = OBJ, *, message: str = "said") -> Object:
    recorder = EventRecorder(client=client, logger=Logger(sink=RecordingSink()), clock=FakeClock())
    await recorder.record(obj, type=WARNING, reason="Dropped", message=message)
    (event,) = await _events(client)
    return event


async def test_an_event_names_its_object_and_nothing_of_it(client: KubeClient) -> None:
    """An Event stands in the object's namespace, refers to it, and has nothing of its spec."""
    event = await _recorded(client)
    assert event["metadata"]["namespace"] == "ops"
    assert event["involvedObject"] == {
        "apiVersion": "g.example.com/v1",
        "kind": "Thing",
        "namespace": "ops",
        "name": "web",
        "uid": "u-1",
        "resourceVersion": "7",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Dropped", "said")
    assert event["source"] == {"component": "ansible-operator"}
    assert (event["count"], event["firstTimestamp"]) == (1, "2026-01-01T00:00:00Z")
    assert "hunter2" not in str(event)


async def test_events_of_cluster_scoped_objects_stand_in_default(client: KubeClient) -> None:
    """An object without a namespace has its Events in `default`."""
    event = await _recorded(client, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u"}})
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]


@pytest.mark.parametrize(
    ("message", "written"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 600, "é" * 510 + " ..."),
        ("a\udc80b", "a?b"),
    ],
    ids=["fits", "long", "multi-byte", "surrogate"],
)
async def test_a_message_is_cut_at_1_kib(client: KubeClient, message: str, written: str) -> None:
    """A message has at most 1024 bytes, is cut between characters, and can always be sent."""
    assert (await _recorded(client, message=message))["message"] == written


@pytest.mark.parametrize("name", ["system:node", "x" * 250, ""])
async def test_an_event_has_a_valid_name_whatever_its_object_is_called(client: KubeClient, name: str) -> None:
    """Where the object's name cannot begin an Event's, a random one is taken."""
    event = await _recorded(client, {**OBJ, "metadata": {"name": name, "namespace": "ops"}})
    assert len(event["metadata"]["name"]) == 36


async def test_trouble_is_one_line_per_namespace_and_reason(server: FakeApiServer, client: KubeClient) -> None:
    """What cannot be written is told once at info, then at debug, and never raised."""
    server.undefine("events")
    sink = RecordingSink()
    recorder = EventRecorder(client=client, logger=Logger(sink=sink, level="debug"))
    other = {**OBJ, "metadata": {**OBJ["metadata"], "namespace": "dev"}}
    for obj, reason in ((OBJ, "A"), (OBJ, "A"), (OBJ, "B"), (other, "A"), (OBJ, "A")):
        await recorder.record(obj, reason=reason, message="said")
    assert [record["level"] for record in sink.records] == ["info", "debug", "info", "info", "debug"]
    assert "grant create and patch on events" in sink.sentences()[0]


async def test_an_api_server_that_is_gone_raises_nothing(client: KubeClient, server: FakeApiServer) -> None:
    """A refused connection is one line too."""
    await server.__aexit__()
    sink = RecordingSink()
    await EventRecorder(client=client, logger=Logger(sink=sink)).record(OBJ, reason="A", message="said")
    assert len(sink.records) == 1


async def test_an_event_that_takes_too_long_is_left(server: FakeApiServer, client: KubeClient) -> None:
    """The caller waits only so long for an Event."""
    sink = RecordingSink()
    recorder = EventRecorder(client=client, logger=Logger(sink=sink), limit=0.0)
    await recorder.record(OBJ, reason="A", message="said")
    assert "no answer within 0 s" in sink.records[0]["error"]
