"""One life of the embedded kopf operator: a thread, an event loop, and what runs in it beside kopf.

Its own loop, because kopf takes every task in its loop for one of its own and cancels it at its end; its own thread,
because it would take the process's signals in the main one, and a handler that blocks must not hold the controllers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import json
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import kopf

from runner.clock import SystemClock
from runner.errors import ExecutionError
from runner.handlers.calls import Calls
from runner.handlers.configuration import settings_for
from runner.handlers.kopf_internals import (
    APIError,
    Insights,
    Vault,
    add_wrapped,
    rescan,
    tell_when_indexed,
    unresolved,
)
from runner.handlers.loading import Loaded, place_of
from runner.handlers.session import Connection, IndexProgress, Login
from runner.handlers.webhooks import Webhooks
from runner.kube.objects import Object, name_of, namespace_of
from runner.logs import Logger
from runner.observe.metrics_handlers import HandlersMetrics
from runner.observe.vitals import Heartbeat
from runner.settings import HandlersSettings

_T = TypeVar("_T")
_IDENTITY: Any = "ansible-operator"
_PULSE = 0.1
_HEARTBEAT = 1.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What each life of the embedded operator is made from."""

    loaded: Loaded
    connection: Connection
    logger: Logger
    namespaces: tuple[str, ...] = ()
    """Empty: all."""
    settings: HandlersSettings = field(default_factory=HandlersSettings)
    metrics: HandlersMetrics = field(default_factory=HandlersMetrics)


class Life:
    """The embedded operator from one start to its end."""

    def __init__(self, plan: Plan) -> None:
        """Start nothing yet."""
        self._plan = plan
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopping = False
        self._ready = threading.Event()
        self._connected = threading.Event()
        self._indexed: asyncio.Event | None = None
        self._indexes: dict[str, Any] = {}
        self._heartbeat = Heartbeat(clock=SystemClock(), interval=_HEARTBEAT)
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        """Done when the thread's work is; holds what ended it."""
        self.unresolved: tuple[str, ...] = ()
        """Kinds that handlers are for and that the API server doesn't serve."""

    @property
    def running(self) -> bool:
        """Return whether kopf has started, knows the API server's kinds, and has not ended; in any thread."""
        return self._ready.is_set() and self._connected.is_set() and not self.ended.done()

    @property
    def complete(self) -> bool:
        """Return whether the indexes have all that was there at the start; in any thread."""
        return self._indexed is not None and self._indexed.is_set()

    @property
    def pulse(self) -> float:
        """Return the seconds since its event loop turned; in any thread."""
        return self._heartbeat.age

    def start(self) -> None:
        """Begin; the thread doesn't keep the process alive."""
        threading.Thread(target=self._run, name="handlers", daemon=True).start()

    def stop(self) -> None:
        """Let it end; in any thread, as often as one likes."""
        with self._lock:
            self._stopping = True
            loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(stop.set)

    async def values(self, file: Path, obj: Object) -> dict[str, Any]:
        """Return what *file* publishes for *obj*, as soon as the indexes are complete; in the loop of the caller.

        Raises:
            ExecutionError: the embedded operator ends meanwhile, or a function fails.
        """
        return await self._ask(self._values(file, obj))

    async def _ask(self, work: Coroutine[Any, Any, _T]) -> _T:
        loop = self._loop
        if loop is None or loop.is_closed() or self.ended.done():
            work.close()
            raise ExecutionError("the Python handlers don't run")
        asked = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        try:
            await asyncio.wait({asked})
        finally:
            asked.cancel()
        if asked.cancelled():
            raise ExecutionError("the Python handlers ended")
        return asked.result()

    async def _values(self, file: Path, obj: Object) -> dict[str, Any]:
        if self._indexed is None:
            raise ExecutionError("the Python handlers don't run")
        await self._indexed.wait()
        given = {
            "body": obj,
            "spec": obj.get("spec") or {},
            "namespace": namespace_of(obj),
            "name": name_of(obj),
            **self._indexes,
        }
        return {name: await _value(fn, given) for name, fn in self._plan.loaded.published.get(file, {}).items()}

    def _run(self) -> None:
        self.ended.set_running_or_notify_cancel()  # from now on nobody can cancel it
        try:
            with asyncio.Runner() as runner:
                runner.run(self._live())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the host must know
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: BaseException | None) -> None:
        if self.ended.done():  # it was given up before
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)

    async def _live(self) -> None:
        settings = settings_for(self._plan.connection.kube)
        if self._plan.loaded.of("on.validate") or self._plan.loaded.of("on.mutate"):
            settings.admission.server = Webhooks(self._plan.settings, logger=self._plan.logger)
            settings.admission.managed = self._plan.settings.webhook_configuration or None
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        loop.set_default_executor(settings.execution.executor)
        self._indexed = asyncio.Event()
        with self._lock:
            self._loop, self._stop = loop, stop
            if self._stopping:
                return
        insights, vault = Insights(), Vault()
        stale: list[str] = []

        def again(path: str) -> None:
            stale.append(path)
            stop.set()

        progress = IndexProgress(insights, again=again)
        login = Login(self._plan.connection, progress=progress)
        registry = self._registry(progress, login=login)
        await self._heartbeat.start()
        look = asyncio.create_task(self._look(insights, registry=registry, settings=settings, vault=vault))
        watch = asyncio.create_task(self._await_indexes(progress))
        try:
            await self._operate(
                registry=registry,
                settings=settings,
                insights=insights,
                vault=vault,
                identity=_IDENTITY,
                standalone=True,
                clusterwide=not self._plan.namespaces,
                namespaces=self._plan.namespaces,
                stop_flag=stop,
                ready_flag=self._ready,
            )
        finally:
            for task in (look, watch):
                task.cancel()
            await asyncio.gather(look, watch, return_exceptions=True)
            await self._heartbeat.stop()
            await login.close()
        if stale and not self._stopping:
            raise ExecutionError(
                f"changes of {stale[0]} were lost: the indexes would keep what was deleted meanwhile, and are made anew"
            )
        if not stop.is_set():
            raise ExecutionError("kopf ended without being asked to")

    async def _operate(self, **options: Any) -> None:
        """Run kopf's operator to its end; one that has begun to end by itself gets little time, as it may hang then."""
        before = asyncio.all_tasks()
        roots = await kopf.spawn_tasks(**options)
        end = asyncio.create_task(kopf.run_tasks(roots, ignored=before), name="end of kopf")
        try:
            first, _ = await asyncio.wait(roots, return_when=asyncio.FIRST_COMPLETED)
            self._ready.clear()
            if self._indexed is not None:
                self._indexed.clear()
            await asyncio.wait({end}, timeout=None if self._stopping else self._plan.settings.ending_limit)
            if end.done():
                await end
                return
            why = next((task.exception() for task in first if not task.cancelled()), None)
            self._end(why or ExecutionError("kopf ended, and hung at its end"))
        finally:
            end.cancel()

    def _registry(self, progress: IndexProgress, *, login: Login) -> kopf.OperatorRegistry:
        calls = Calls(failed=self._plan.metrics.failed)
        registry, loaded = kopf.OperatorRegistry(), self._plan.loaded.registry
        tell_when_indexed(loaded, to=registry, tell=progress.tell, wanted=lambda: not progress.complete)
        add_wrapped(loaded, to=registry, wrapped=calls.wrapped)
        kopf.on.login(id="ansible-operator/login", registry=registry)(login.session)
        kopf.on.startup(id="ansible-operator/indexes", registry=registry)(self._keep_indexes)
        return registry

    async def _keep_indexes(self, **kwargs: Any) -> None:
        self._indexes = {name: kwargs[name] for name in self._plan.loaded.of("index")}

    async def _await_indexes(self, progress: IndexProgress) -> None:
        assert self._indexed is not None  # noqa: S101 - made before
        while not (self._ready.is_set() and progress.complete):  # noqa: ASYNC110 - kopf tells nobody when it has all
            await asyncio.sleep(_PULSE)
        self._indexed.set()

    async def _look(
        self, insights: Insights, *, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings, vault: Vault
    ) -> None:
        """Look for kinds that weren't served at the start, as long as there are such."""
        await insights.ready_resources.wait()
        self._connected.set()
        while True:
            self.unresolved = tuple(unresolved(insights, registry=registry))
            await asyncio.sleep(self._plan.settings.rescan_interval)
            if not self.unresolved:
                continue
            with contextlib.suppress(APIError, aiohttp.ClientError, TimeoutError):
                await rescan(insights, registry=registry, settings=settings, vault=vault)


async def _value(function: Any, given: Mapping[str, Any]) -> Any:
    """Return what *function* publishes, as JSON data that nobody else changes."""
    try:
        value = function(**given)
        if inspect.isawaitable(value):
            value = await value
        return json.loads(json.dumps(value, allow_nan=False))
    except Exception as error:  # the function is a user's, and may raise whatever it likes
        told = f"{type(error).__name__}: {error}"
        raise ExecutionError(
            f"{place_of(function)}: {function.__name__} gave no value for the run: {told}; it must return JSON data"
        ) from error
