"""Objects as a watch tells them, with the moment at which each piece of news came."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp

from runner.kube.discovery import Resource
from runner.kube.objects import conditions_of, name_of
from tools.proxy_bench.case import JSON, MERGE
from tools.proxy_bench.target import Sent, Way

Object = Mapping[str, Any]
_PAUSE = 1.0
"""Seconds until a watch that the API server refuses is tried again."""
Test = Callable[[Object], bool]


class RunFailedError(Exception):
    """A reconcile of the benchmark failed or never ended; the message says whose and how."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """An object that passed the test."""

    obj: Object
    at: float
    """When the watch told it, by the monotonic clock."""


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    """Somebody waits for the object *name* to pass a test."""

    name: str
    test: Test
    future: asyncio.Future[Told]

    def tell(self, told: Told) -> None:
        """Take what a watch told."""
        failure = next((one for one in conditions_of(told.obj) if one.get("type") == "Failure"), {})
        if self.future.done():
            return
        if failure.get("status") == "True":
            self.future.set_exception(RunFailedError(f"{self.name} failed: {failure.get('message')}"))
        elif self.test(told.obj):
            self.future.set_result(told)


class Collection:
    """The objects of one kind in one namespace, watched."""

    def __init__(self, way: Way, *, path: str, kind: Resource) -> None:
        """Speak to *way* about the objects below *path*."""
        self._way, self._path, self._kind = way, path, kind
        self._waiting: list[_Waiting] = []
        self._version = ""

    async def create(self, name: str, *, spec: Object, test: Test) -> tuple[float, asyncio.Future[Told]]:
        """Create an object; return when that was answered, and the moment at which it will pass *test*."""
        body = {"apiVersion": self._kind.gvk.api_version, "kind": self._kind.gvk.kind}
        future = self.expect(name, test=test)
        await self._send("POST", "", body={**body, "metadata": {"name": name}, "spec": spec}, form=JSON)
        return time.monotonic(), future

    async def edit(self, name: str, *, spec: Object, test: Test) -> tuple[float, asyncio.Future[Told]]:
        """Merge *spec* into the object's; return as `create` does."""
        future = self.expect(name, test=test)
        await self._send("PATCH", f"/{name}", body={"spec": spec}, form=MERGE)
        return time.monotonic(), future

    async def watch(self, established: asyncio.Event) -> None:
        """Tell what becomes of the objects, until cancelled: a watch that ends, or that is silent too long, is renewed.

        *established* is set when nothing that happens from then on is missed.
        """
        while True:
            if not self._version:
                await self._list()
            with contextlib.suppress(TimeoutError, aiohttp.ClientPayloadError):
                await self._follow(established)

    async def _follow(self, established: asyncio.Event) -> None:
        query = f"watch=true&allowWatchBookmarks=false&timeoutSeconds=3000&resourceVersion={self._version}"
        request = Sent(target=f"{self._path}?{query}", headers={"Accept": JSON})
        async with self._way.opened(request) as response:
            if response.status != HTTPStatus.OK:
                self._version = ""
                await asyncio.sleep(_PAUSE)
                return
            established.set()
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":  # the version is too old: nothing more will be told
                    self._version = ""
                    return
                self._version = event["object"]["metadata"]["resourceVersion"]
                self._tell(event["object"])

    async def _list(self) -> None:
        """Tell of all objects as they are."""
        answer = await self._way.send(Sent(target=self._path, headers={"Accept": JSON}))
        listed = json.loads(answer.body)
        for obj in listed["items"]:
            self._tell({"apiVersion": self._kind.gvk.api_version, "kind": self._kind.gvk.kind, **obj})
        self._version = str(listed["metadata"]["resourceVersion"])

    def _tell(self, obj: Object) -> None:
        at = time.monotonic()
        for waiting in self._waiting:
            if waiting.name == name_of(obj):
                waiting.tell(Told(obj=obj, at=at))
        self._waiting = [waiting for waiting in self._waiting if not waiting.future.done()]

    def expect(self, name: str, *, test: Test) -> asyncio.Future[Told]:
        """Return the moment at which the object's next news will pass *test*."""
        future: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(name=name, test=test, future=future))
        return future

    async def _send(self, method: str, rest: str, *, body: Object, form: str) -> None:
        headers = {"Accept": JSON, "Content-Type": form}
        sent = Sent(method=method, target=f"{self._path}{rest}", headers=headers, body=json.dumps(body).encode())
        answer = await self._way.send(sent)
        if answer.status not in {200, 201}:
            why = answer.body[:300].decode(errors="replace")
            raise RunFailedError(f"{method} {self._path}{rest} was answered with {answer.status}: {why}")


@contextlib.asynccontextmanager
async def collection(way: Way, *, kind: Resource, namespace: str) -> AsyncIterator[Collection]:
    """Give the objects of *kind* in *namespace*, watched during the block."""
    gvk = kind.gvk
    path = f"/apis/{gvk.group}/{gvk.version}/namespaces/{namespace}/{kind.plural}"
    objects, established = Collection(way, path=path, kind=kind), asyncio.Event()
    task = asyncio.create_task(objects.watch(established), name=f"watch of {gvk.kind}")
    task.add_done_callback(lambda _: established.set())
    try:
        await established.wait()
        if task.done():
            await task
        yield objects
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def successful(obj: Object, *, after: str = "") -> bool:
    """Tell whether the status says that a run of this generation ended well, and not the run that ended at *after*.

    Ours tells the generation; of the peer's, a completion that wasn't there before the edit is the sign of a later run.
    """
    by_type = {entry.get("type"): entry for entry in conditions_of(obj)}
    running, success = by_type.get("Running", {}), by_type.get("Successful", {})
    generation = obj["metadata"]["generation"]
    return (
        (running.get("status"), running.get("reason")) == ("True", "Successful")
        and (success.get("status"), success.get("reason")) == ("True", "Successful")
        and success.get("observedGeneration", generation) == generation
        and completion(obj) != after
    )


def completion(obj: Object) -> str:
    """Return when the run of the status ended, as it says."""
    running = next((entry for entry in conditions_of(obj) if entry.get("type") == "Running"), {})
    return str((running.get("ansibleResult") or {}).get("completion", "none"))


def ready(obj: Object) -> bool:
    """Tell whether the role says that all is well."""
    return any((one.get("type"), one.get("status")) == ("Ready", "True") for one in conditions_of(obj))
