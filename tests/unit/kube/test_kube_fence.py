"""The fence between the controllers and the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.errors import LeaderElectionLost
from runner.kube.events import EventRecorder
from runner.kube.fence import FencedClient
from runner.kube.objects import Object
from runner.logs import Logger, RecordingSink
from runner.settings import KubeSettings
from runner.testing.apiserver import FakeApiServer
from runner.testing.cluster import CONFIG_MAPS

BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ops"}}


@dataclass(kw_only=True)
class Gate:
    """A client with its fence."""

    client: FencedClient
    shut: bool = False


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    """Give a client whose fence is open, and one object that it made."""
    async with FakeApiServer() as server:
        server.define(CONFIG_MAPS)
        settings = KubeSettings(kubeconfig=str(server.kubeconfig(tmp_path / "kubeconfig")))
        made = Gate(client=FencedClient(settings=settings, fenced=lambda: made.shut))
        async with made.client:
            await made.client.create(CONFIG_MAPS, namespace="ops", body=BODY)
            yield made


WRITES: dict[str, Callable[[FencedClient], Awaitable[Object]]] = {
    "create": lambda client: client.create(CONFIG_MAPS, namespace="ops", body={**BODY, "metadata": {"name": "b"}}),
    "replace": lambda client: client.replace(CONFIG_MAPS, body={**BODY, "data": {"k": "v"}}),
    "patch": lambda client: client.patch(CONFIG_MAPS, namespace="ops", name="a", body={"data": {"k": "v"}}),
    "delete": lambda client: client.delete(CONFIG_MAPS, namespace="ops", name="a"),
}


@pytest.mark.parametrize("verb", WRITES)
async def test_nothing_is_written_through_a_shut_fence(gate: Gate, verb: str) -> None:
    """Each write is refused before it is sent, with the error that ends the process; reads go on."""
    gate.shut = True
    before = await gate.client.get(CONFIG_MAPS, namespace="ops", name="a")
    with pytest.raises(LeaderElectionLost):
        await WRITES[verb](gate.client)
    assert await gate.client.list(CONFIG_MAPS) == [before]
    gate.shut = False
    await WRITES[verb](gate.client)


async def test_a_shut_fence_costs_an_event_and_no_error(gate: Gate) -> None:
    """An Event that may not be written any more is one log line."""
    gate.shut = True
    sink = RecordingSink()
    await EventRecorder(client=gate.client, logger=Logger(sink=sink)).record(BODY, reason="A", message="said")
    assert sink.records[0]["error"] == "leader election lost"
