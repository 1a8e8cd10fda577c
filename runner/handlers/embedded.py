"""One life of the embedded kopf operator: a thread, an event loop, and what runs in it beside kopf.

Its own loop, because kopf takes every task in its loop for one of its own and cancels it at its end; its own thread,
because it would take the process's signals in the main one, and a handler that blocks must not hold the controllers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import inspect
import json
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import kopf

from runner.clock import SystemClock
from runner.errors import ExecutionError
from runner.handlers.calls import Calls
from runner.handlers.configuration import settings_for
from runner.handlers.kopf_internals import (
    Insights,
    Vault,
    add_wrapped,
    as_path,
    rescan,
    tell_when_indexed,
    unresolved,
    unserved,
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
_RARELY = 300.0
"""Seconds; longer isn't waited between two looks for kinds."""


class Ended(ExecutionError):
    """This life has no answer, but the next one may have."""


class Renewal(ExecutionError):
    """A life ended because its indexes have to be made anew, which is no failure."""


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
        self.missing: tuple[str, ...] = ()
        """What the indexes wait for, in words."""
        self._unserved: Mapping[str, tuple[str, ...]] = {}
        """Indexes that lack kinds which aren't served, as long as this life lasts."""
        self._renewal = ""

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
            Ended: the embedded operator ends meanwhile.
            ExecutionError: an index that a function asks for can't be complete, or a function fails.
        """
        return await self._ask(self._values(file, obj))

    async def _ask(self, work: Coroutine[Any, Any, _T]) -> _T:
        loop = self._loop
        if loop is None or loop.is_closed() or self.ended.done():
            work.close()
            raise Ended("the Python handlers don't run")
        asked = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        try:
            while not (asked.done() or self.ended.done()):  # a life that is given up may leave its work undone
                await asyncio.wait({asked}, timeout=_HEARTBEAT)
        finally:
            asked.cancel()
        if asked.cancelled():
            raise Ended("the Python handlers ended")
        return asked.result()

    async def _values(self, file: Path, obj: Object) -> dict[str, Any]:
        if self._indexed is None:
            raise Ended("the Python handlers don't run")
        await self._indexed.wait()
        functions = self._plan.loaded.published.get(file, {})
        for function in functions.values():
            if lacking := self._lacking(function):
                raise ExecutionError(f"{place_of(function)}: {function.__name__} gave no value for the run: {lacking}")
        given = {
            "body": obj,
            "spec": obj.get("spec") or {},
            "namespace": namespace_of(obj),
            "name": name_of(obj),
            **{name: index for name, index in self._indexes.items() if name not in self._unserved},
        }
        return {name: await _value(fn, given) for name, fn in functions.items()}

    def _lacking(self, function: Any) -> str:
        """Return which index of those that *function* names can't be complete, and why; empty: none."""
        named = inspect.signature(function).parameters
        return "; ".join(
            f"{kind} is indexed by {name}, but not served by the API server (yet)"
            for name, kinds in self._unserved.items()
            if name in named
            for kind in kinds
        )

    async def _obstacle(self, webhook: str) -> str:
        """Return why the admission handlers of *webhook* can't be asked, after a wait; in the loop of kopf."""
        assert self._indexed is not None  # noqa: S101 - made before
        try:
            async with asyncio.timeout(self._plan.settings.admission_patience):
                await self._indexed.wait()
        except TimeoutError:
            return "the indexes of the Python handlers are not complete yet"
        asked = [
            handler.function
            for handlers in self._plan.loaded.files.values()
            for handler in handlers
            if handler.decorator in {"on.validate", "on.mutate"} and webhook in {"", as_path(handler.id)}
        ]
        return "; ".join(filter(None, map(self._lacking, asked)))

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
            settings.admission.server = Webhooks(
                self._plan.settings,
                logger=self._plan.logger,
                namespaces=self._plan.namespaces,
                obstacle=self._obstacle,
            )
            settings.admission.managed = self._plan.settings.webhook_configuration or None
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        loop.set_default_executor(settings.execution.executor)
        self._indexed = asyncio.Event()
        with self._lock:
            self._loop, self._stop = loop, stop
            if self._stopping:
                return
        insights, vault = Insights(), Vault()
        progress = IndexProgress(insights, again=self._lost)
        login = Login(self._plan.connection, progress=progress, away_limit=self._plan.settings.away_limit)
        registry = self._registry(progress, login=login)
        await self._heartbeat.start()
        look = asyncio.create_task(self._look(insights, registry=registry, settings=settings, vault=vault))
        watch = asyncio.create_task(self._await_indexes(progress))
        try:
            await self._operate(
                login,
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
        if self._renewal and not self._stopping:
            raise Renewal(self._renewal)
        if not stop.is_set():
            raise ExecutionError("kopf ended without being asked to")

    def _lost(self, path: str) -> None:
        self._renew(f"changes of {path} were lost: the indexes would keep what was deleted meanwhile")

    def _renew(self, reason: str) -> None:
        """End this life for the next one, and answer no more; in the loop of kopf."""
        self._renewal = self._renewal or reason
        if self._indexed is not None:
            self._indexed.clear()
        if self._stop is not None:
            self._stop.set()

    async def _operate(self, login: Login, **options: Any) -> None:
        """Run kopf's operator to its end; one that has begun to end by itself gets little time, as it may hang then.

        One that is given up sends nothing any more, as the next life may have begun.
        """
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
            await login.close()
            why = next((task.exception() for task in first if not task.cancelled()), None)
            if self._renewal:
                why = Renewal(self._renewal)
            self._end(why or ExecutionError("kopf ended, and hung at its end"))
        finally:
            end.cancel()

    def _registry(self, progress: IndexProgress, *, login: Login) -> kopf.OperatorRegistry:
        calls = Calls(failed=self._plan.metrics.failed)
        registry, loaded = kopf.OperatorRegistry(), self._plan.loaded.registry
        tell_when_indexed(loaded, to=registry, tell=progress.tell, wanted=lambda: not progress.complete)
        add_wrapped(loaded, to=registry, wrapped=calls.wrapped, guarded=calls.guarded)
        kopf.on.login(id="ansible-operator/login", registry=registry)(login.session)
        kopf.on.startup(id="ansible-operator/indexes", registry=registry)(self._keep_indexes)
        return registry

    async def _keep_indexes(self, **kwargs: Any) -> None:
        self._indexes = {name: kwargs[name] for name in self._plan.loaded.of("index")}

    async def _await_indexes(self, progress: IndexProgress) -> None:
        assert self._indexed is not None  # noqa: S101 - made before
        while not (self.running and progress.complete):  # kopf tells nobody when it has all
            self.missing = progress.missing() if self._ready.is_set() else ("the start-up handlers",)
            await asyncio.sleep(_PULSE)
        self.missing = ()
        if not self._renewal:
            self._indexed.set()

    async def _look(
        self, insights: Insights, *, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings, vault: Vault
    ) -> None:
        """Look for kinds that weren't served at the start, as long as there are such; more and more rarely."""
        await insights.ready_resources.wait()
        self._unserved = unserved(insights, registry=registry)
        self._connected.set()
        interval = self._plan.settings.rescan_interval
        while True:
            self.unresolved = tuple(unresolved(insights, registry=registry))
            await asyncio.sleep(interval)
            if not self.unresolved:
                continue
            try:
                await rescan(insights, registry=registry, settings=settings, vault=vault)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look may succeed
                self._plan.logger.warning("Could not look for kinds that are missing; trying again", error=error)
            if (now := unserved(insights, registry=registry)) != self._unserved:
                self._renew(_changed(self._unserved, now))
                return
            interval = min(2 * interval, _RARELY)


def _changed(before: Mapping[str, tuple[str, ...]], now: Mapping[str, tuple[str, ...]]) -> str:
    """Return which indexed kinds are served now, or are no more."""
    missed, misses = ({kind for kinds in found.values() for kind in kinds} for found in (before, now))
    told = [f"{kind} is served now" for kind in sorted(missed - misses)]
    told += [f"{kind} is not served any more" for kind in sorted(misses - missed)]
    return f"{', '.join(told)}: the indexes were made without that"


async def _value(function: Any, given: Mapping[str, Any]) -> Any:
    """Return what *function* publishes, as JSON data that nobody else changes."""
    try:
        value = function(**{**given, **copy.deepcopy({key: given[key] for key in ("body", "spec")})})
        if inspect.isawaitable(value):
            value = await value
        return json.loads(json.dumps(value, allow_nan=False))
    except Exception as error:  # the function is a user's, and may raise whatever it likes
        told = f"{type(error).__name__}: {error}"
        raise ExecutionError(
            f"{place_of(function)}: {function.__name__} gave no value for the run: {told}; it must return JSON data"
        ) from error
