"""The cloud controller's part: which Nodes it deletes, and which never."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.kube.objects import Object
from runner.localdev.api import Api
from runner.localdev.machines.cloud import CloudController
from runner.localdev.machines.kubelet import MACHINE_ANNOTATION
from runner.logs import Logger, RecordingSink


def node(instance: str, *, ready: str) -> Object:
    """Return the Node of an instance."""
    return {
        "metadata": {"name": f"node-{instance}", "uid": f"u-{instance}", "annotations": {MACHINE_ANNOTATION: instance}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


class Nodes(Api):
    """An API server with Nodes, whose answers take so long that an instance launches, boots and joins meanwhile."""

    def __init__(self, *nodes: Object, states: dict[str, str]) -> None:
        """Have *nodes*, and put their instances into *states* while somebody asks for them."""
        super().__init__("http://127.0.0.1:1")
        self.nodes = nodes
        self.states = states
        self.sent: list[str] = []

    def get(self, path: str) -> Mapping[str, Any]:
        """Return the Nodes."""
        assert path == "/api/v1/nodes"
        for found in self.nodes:
            self.states.setdefault(found["metadata"]["annotations"][MACHINE_ANNOTATION], "running")
        return {"items": list(self.nodes)}

    def send(self, method: str, path: str, **_: object) -> tuple[int, bytes]:
        """Keep what was asked for."""
        self.sent.append(f"{method} {path}")
        return 200, b"{}"


def asked(*, states: dict[str, str], ready: str) -> list[str]:
    """Return what one look at the Node of i-1 asks the API server for."""
    api = Nodes(node("i-1", ready=ready), states=states)
    CloudController(api, logger=Logger(sink=RecordingSink())).step(lambda: states)
    return api.sent


def test_a_node_that_joins_during_a_look_is_left_alone() -> None:
    """A machine that is younger than the look, and isn't Ready yet, isn't taken for one that exists no more."""
    assert asked(states={}, ready="False") == []


def test_an_unready_node_of_an_ended_machine_goes() -> None:
    """The Node of a terminated machine is deleted once it isn't Ready, and not before."""
    assert asked(states={"i-1": "terminated"}, ready="Unknown") == ["DELETE /api/v1/nodes/node-i-1"]
    assert asked(states={"i-1": "terminated"}, ready="True") == []
