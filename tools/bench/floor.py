"""The floor: an 'operator' that makes the API calls of a run and nothing else, in one warm Python process.

The calls are those that the API server's audit log showed while our operator ran the same roles: 3 for the one-task
role, 8 for the three-task role, whose modules' discovery is answered by the operator's proxy. One object after the
other, each call as soon as the one before it is answered. Started by `contestants` with an operator's command line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from runner.settings import environment
from tools.bench.content import EIGHT_WORKERS, ONE_TASK, THREE_TASKS, TWO_WORKERS
from tools.proxy_bench.case import JSON, MERGE
from tools.proxy_bench.target import Sent, Way, direct, opened

_KINDS = (ONE_TASK, THREE_TASKS, TWO_WORKERS, EIGHT_WORKERS)

Object = dict[str, Any]


@dataclass(kw_only=True)
class Floor:
    """The calls about the objects of one kind in one namespace."""

    way: Way
    group: str
    kind: str
    namespace: str
    version: str = ""
    """The newest state of the kind that was seen."""
    served: dict[str, int] = field(default_factory=dict)
    """The generation of each object that was served, by UID."""

    @property
    def path(self) -> str:
        """Return where the objects are."""
        return f"/apis/{self.group}/v1/namespaces/{self.namespace}/{self.kind.lower()}s"

    async def serve(self) -> None:
        """Make the calls for each object that is new or has a new spec, for ever."""
        while True:
            listed = await self._call("GET", self.path)
            for obj in listed["items"]:
                await self._seen(obj)
            self.version = listed["metadata"]["resourceVersion"]
            while self.version:
                with contextlib.suppress(TimeoutError):  # a kind of which no object is made for a minute
                    await self._follow()

    async def _follow(self) -> None:
        query = f"watch=true&resourceVersion={self.version}"
        async with self.way.opened(Sent(target=f"{self.path}?{query}", headers={"Accept": JSON})) as response:
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":  # the version is too old: there is nothing else to be told
                    self.version = ""
                    return
                self.version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "DELETED":
                    await self._seen(event["object"])

    async def _seen(self, obj: Object) -> None:
        metadata = obj["metadata"]
        if self.served.get(metadata["uid"]) != metadata["generation"]:
            self.served[metadata["uid"]] = metadata["generation"]
            await self._reconcile(metadata["name"])

    async def _reconcile(self, name: str) -> None:
        path = f"{self.path}/{name}"
        obj = await self._call("GET", path)
        obj = await self._call("PUT", f"{path}/status", body=_with_status(obj, running=True))
        if self.kind != ONE_TASK:
            obj = await self._modules(obj, path=path)
        await self._call("PUT", f"{path}/status", body=_with_status(obj, running=False))

    async def _modules(self, obj: Object, *, path: str) -> Object:
        """Make the calls of `k8s`, `k8s_info` and `k8s_status`; return the object as it is then."""
        name, size = obj["metadata"]["name"], str(obj["spec"]["size"])
        owner = {"apiVersion": obj["apiVersion"], "kind": self.kind, "name": name, "uid": obj["metadata"]["uid"]}
        maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        metadata: Object = {"name": name, "namespace": self.namespace}
        body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size}}
        present = await self._call("GET", f"{maps}/{name}", missing=True)
        if present:
            await self._call("PATCH", f"{maps}/{name}", body=body)
        else:
            metadata["ownerReferences"] = [owner]
            await self._call("POST", maps, body=body)
        await self._call("GET", f"{maps}/{name}")
        await self._call("GET", path)
        status = {"metadata": {"name": name}, "status": {"size": size}}
        return await self._call("PATCH", f"{path}/status", body=status)

    async def _call(
        self, method: str, target: str, *, body: Mapping[str, Any] | None = None, missing: bool = False
    ) -> Object:
        """Send one request and return the object of the answer; empty where it is *missing* and may be."""
        content = {"Content-Type": MERGE if method == "PATCH" else JSON} if body is not None else {}
        data = None if body is None else json.dumps(body).encode()
        sent = Sent(method=method, target=target, headers={"Accept": JSON, **content}, body=data)
        answer = await self.way.send(sent)
        if answer.status == 429:  # the kind is new, and its store not ready
            await asyncio.sleep(1)
            return await self._call(method, target, body=body, missing=missing)
        if answer.status == 404 and missing:
            return {}
        if answer.status not in {200, 201}:
            raise RuntimeError(f"{method} {target} was answered with {answer.status}: {answer.body[:300].decode()}")
        found: Object = json.loads(answer.body)
        return found


def _with_status(obj: Object, *, running: bool) -> Object:
    """Return *obj* with conditions as an operator writes them."""
    now = datetime.now(tz=UTC)
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    reason = "Running" if running else "Successful"
    entry: Object = {"type": "Running", "status": "True", "reason": reason, "message": "", "lastTransitionTime": stamp}
    if not running:
        counts = {"ok": 1, "changed": 0, "skipped": 0, "failures": 0, "completion": now.isoformat()}
        entry["ansibleResult"] = counts
    success = {**entry, "type": "Successful", "status": str(not running), "reason": "Successful"}
    success.pop("ansibleResult", None)
    failure = {**success, "type": "Failure", "status": "False", "reason": ""}
    conditions = [entry] if running else [entry, success, failure]
    return {**obj, "status": {**obj.get("status", {}), "conditions": conditions}}


async def _run(port: int) -> None:
    environ = environment()
    target = await direct(Path(environ["KUBECONFIG"]))
    async with opened(target) as way:
        name, namespace = environ["BENCH_GROUP"], environ["WATCH_NAMESPACE"]
        async with asyncio.TaskGroup() as group:
            for kind in _KINDS:
                group.create_task(Floor(way=way, group=name, kind=kind, namespace=namespace).serve(), name=kind)
            group.create_task(_health(port), name="health")


async def _health(port: int) -> None:
    """Answer /readyz, as an operator does."""

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    application = web.Application()
    application.router.add_get("/readyz", ready)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


def main() -> int:
    """Run until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.floor")
    parser.add_argument("command", choices=["run"])
    parser.add_argument("--health-probe-bind-address", required=True)
    options, _ = parser.parse_known_args()
    asyncio.run(_run(int(options.health_probe_bind_address.rpartition(":")[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
