"""The objects that the replay asks for, and what its requests name of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.testing.cluster import wait_until
from tools.proxy_bench.case import DEPLOYMENTS, JSON, MAPS, PODS, PROTOBUF, Case, config_map
from tools.proxy_bench.target import Sent, Way

_ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AT_ONCE = 16
_CONTAINER = {"name": "a", "image": "registry.example.com/a:1"}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a request's placeholders stand for."""

    values: Mapping[str, str]
    protobuf: bytes

    def request(self, case: Case) -> Sent:
        """Return the request of *case* as it goes out."""
        headers = {name: self._filled(value) for name, value in case.headers.items()}
        body = None if case.body is None else self._filled(case.body).encode()
        return Sent(
            method=case.method,
            target=self._filled(case.target).replace(" ", "%20"),
            headers=headers,
            body=self.protobuf if case.body == "{protobuf}" else body,
            chunked=case.chunked,
        )

    def _filled(self, text: str) -> str:
        for name, value in self.values.items():
            text = text.replace(f"{{{name}}}", value)
        return text


async def build(way: Way, *, namespace: str, objects: int = 500) -> None:
    """Create what the requests ask for, in a namespace that is there."""
    for target, body in _others(namespace):
        await create(way, target.replace("{ns}", namespace), body=body)
    await many_config_maps(way, namespace=namespace, count=objects)
    await _settled(way, f"{PODS}/p".replace("{ns}", namespace))
    await _settled(way, f"{DEPLOYMENTS}/d".replace("{ns}", namespace))


async def many_config_maps(way: Way, *, namespace: str, count: int) -> None:
    """Create ConfigMaps `m-0` and so on, labelled with one of three roles."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int) -> None:
        labels = {"role": "abc"[number % 3], "replay": namespace}
        async with gate:
            await create(way, MAPS.replace("{ns}", namespace), body=config_map(f"m-{number}", labels=labels))

    await asyncio.gather(*(one(number) for number in range(count)))


async def look(direct: Way, proxy: Way, *, namespace: str) -> Stage:
    """Return the stage; what a client takes from one answer into the next request comes through the proxy."""
    maps = MAPS.replace("{ns}", namespace)
    whole = await _json(proxy, maps)
    if "resourceVersion" not in whole["metadata"]:  # the peer's lists from its cache have none
        whole = await _json(direct, maps)
    page = await _json(proxy, f"{maps}?limit=7")
    deployment = await _json(direct, f"{DEPLOYMENTS}/d".replace("{ns}", namespace))
    groups = await direct.send(Sent(target="/apis", headers={"Accept": _AGGREGATED}))
    protobuf = await direct.send(Sent(target=f"{maps}/m-7", headers={"Accept": PROTOBUF}))
    values = {
        "ns": namespace,
        "rv": whole["metadata"]["resourceVersion"],
        "continue": page["metadata"]["continue"],
        "etag": groups.headers.get("ETag", ""),
        "deployment": json.dumps(deployment),
    }
    return Stage(values=values, protobuf=protobuf.body)


async def create(way: Way, target: str, *, body: Mapping[str, Any]) -> None:
    """Create one object; raise `RuntimeError` where the API server refuses."""
    headers = {"Accept": JSON, "Content-Type": JSON}
    answer = await way.send(Sent(method="POST", target=target, headers=headers, body=json.dumps(body).encode()))
    if answer.status != 201:
        raise RuntimeError(f"POST {target} was answered with {answer.status}: {answer.body[:500].decode()}")


def _others(namespace: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    labels = {"app": "d"}
    spec = {"containers": [_CONTAINER]}
    pod = {"nodeSelector": {"replay": "on-no-node"}, **spec}
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployment = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    yield DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": deployment}
    yield PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "replay:reader"}}
    yield _ROLES, {**role, "rules": [rule]}


async def _settled(way: Way, target: str) -> None:
    """Return when controllers and scheduler have written the status of a new object, and will write no more."""

    async def reported() -> bool:
        return bool((await _json(way, target)).get("status", {}).get("conditions"))

    await wait_until(reported, what=f"the status of {target}")


async def _json(way: Way, target: str) -> Any:
    answer = await way.send(Sent(target=target, headers={"Accept": JSON}))
    if answer.status != 200:
        raise RuntimeError(f"GET {target} was answered with {answer.status}: {answer.body[:500].decode()}")
    return json.loads(answer.body)
