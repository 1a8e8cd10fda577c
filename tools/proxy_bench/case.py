"""One request of the replay, and the short forms in which the tables of requests are written.

`{ns}`, `{rv}` and the like are filled in by `stage`; `masked` names the keys whose values differ between any two
answers of one API server to the same request, and nothing else is forgiven.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

JSON = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MERGE = "application/merge-patch+json"
CREATED = ("uid", "creationTimestamp", "time")
"""What the API server makes up for each dry run of a creation."""
MAPS = "/api/v1/namespaces/{ns}/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
PODS = "/api/v1/namespaces/{ns}/pods"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One request and what may differ in its answers."""

    name: str
    target: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    chunked: bool = False
    masked: tuple[str, ...] = ()
    """Keys, wherever they stand."""
    of_list: bool = False
    """The answer is a list, whose own resourceVersion is the store's at that moment: any write moves it."""
    lines: bool = False
    """The answer is a stream of JSON lines in any order: the first events of a watch."""
    names_only: bool = False
    """The answer is text of names and numbers, and the numbers differ: metrics."""
    injected: bool = False
    """A live run's owner reference is added on the way, so the answer has it, too."""


def get(name: str, target: str, *, accept: str = JSON, **headers: str) -> Case:
    """Return a GET; underscores in the names of *headers* are hyphens."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Case(name=name, target=target, headers={"Accept": accept, **named})


def listed(name: str, query: str = "", *, of: str = MAPS, accept: str = JSON) -> Case:
    """Return a list of ConfigMaps or *of* something else."""
    return Case(name=name, target=f"{of}?{query}" if query else of, headers={"Accept": accept}, of_list=True)


def labelled(selector: str) -> Case:
    """Return a list by a label selector."""
    return listed(f"label selector `{selector}`", f"labelSelector={quote(selector)}")


def chosen(selector: str, *, of: str = MAPS) -> Case:
    """Return a list by a field selector."""
    return listed(f"field selector `{selector}`", f"fieldSelector={quote(selector, safe='{}')}", of=of)


def watched(name: str, query: str, *, of: str = f"{MAPS}?watch=true&", accept: str = JSON) -> Case:
    """Return a watch that the API server ends after a second."""
    target = f"{of}timeoutSeconds=1&{query}"
    return Case(name=name, target=target, headers={"Accept": accept}, lines=True)


def write(name: str, to: str, *, body: object = None, kind: str = JSON, masked: tuple[str, ...] = CREATED) -> Case:
    """Return a write; *to* is the method and the target, *body* is sent as JSON unless it is text already."""
    method, target = to.split(" ", 1)
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    headers = {"Accept": JSON, **({} if body is None else {"Content-Type": kind})}
    return Case(name=name, target=target, method=method, headers=headers, body=text, masked=masked)


def config_map(name: str = "", **metadata: object) -> dict[str, object]:
    """Return a ConfigMap; without a name the API server makes one."""
    named = {"name": name} if name else {"generateName": "made-"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**named, **metadata}, "data": {"a": "b"}}
