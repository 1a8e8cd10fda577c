"""The part of AWS's cloud controller manager that follows instances: a Node goes when its machine doesn't exist.

Like the real one it looks only at Nodes that aren't Ready, so a Node outlives its machine by the grace period of the
node lifecycle controller. A Node of a stopped machine stays, with the shutdown taint. Nodes that this simulation didn't
register are never touched.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runner.kube.objects import Object, conditions_of, name_of, uid_of
from runner.localdev.api import Api
from runner.localdev.machines.kubelet import MACHINE_ANNOTATION
from runner.localdev.nodes import COLLECTION
from runner.logs import Logger

SHUTDOWN_TAINT = {"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}


class CloudController:
    """Compares Nodes with instances."""

    def __init__(self, api: Api, *, logger: Logger) -> None:
        """Act through *api*."""
        self._api = api
        self._logger = logger
        self._found = True

    def step(self, states: Callable[[], Mapping[str, str]]) -> None:
        """Look once; *states* returns the newest known state of each instance by its id."""
        if not states() and not self._found:
            return  # nothing was there, and nothing came
        answer = self._api.get(COLLECTION)
        if answer is None:
            return  # the API server is away; there is a next time
        nodes = [node for node in answer["items"] if _instance(node)]
        self._found = bool(nodes)
        known = states()  # newer than the Nodes: a machine is known before it boots, so one with a Node isn't missing
        for node in nodes:
            state = known.get(_instance(node), "terminated")
            ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions_of(node))
            if ready:
                self._lift(node)
            elif state == "terminated":
                self._delete(node)
            elif state == "stopped":
                self._taint(node)

    def _delete(self, node: Object) -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid_of(node)}}
        if self._send("DELETE", node, body=body):
            self._logger.info(
                "Deleting the Node, as its machine does not exist any more",
                node=name_of(node),
                instance=_instance(node),
            )

    def _taint(self, node: Object) -> None:
        taints = _taints(node)
        if not any(_is_shutdown(taint) for taint in taints):
            self._replace(node, taints=[*taints, SHUTDOWN_TAINT])

    def _lift(self, node: Object) -> None:
        taints = _taints(node)
        kept = [taint for taint in taints if not _is_shutdown(taint)]
        if len(kept) < len(taints):
            self._replace(node, taints=kept)

    def _replace(self, node: Object, *, taints: Sequence[Mapping[str, str]]) -> None:
        # With the version that was read: other controllers have taints of their own, and a conflict is the next step's.
        version = node["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": list(taints)}}
        self._send("PATCH", node, body=body, content_type="application/merge-patch+json")

    def _send(
        self, method: str, node: Object, *, body: Mapping[str, Any], content_type: str = "application/json"
    ) -> bool:
        try:
            status, _ = self._api.send(method, f"{COLLECTION}/{name_of(node)}", body=body, content_type=content_type)
        except (OSError, http.client.HTTPException):
            return False
        if status == 403:
            self._logger.error("The cloud controller may not change Nodes", node=name_of(node), method=method)
        return status < 300


def _instance(node: Object) -> str:
    annotations = node["metadata"].get("annotations") or {}
    return str(annotations.get(MACHINE_ANNOTATION, ""))


def _taints(node: Object) -> list[Mapping[str, str]]:
    return list((node.get("spec") or {}).get("taints") or ())


def _is_shutdown(taint: Mapping[str, str]) -> bool:
    return taint.get("key") == SHUTDOWN_TAINT["key"]
