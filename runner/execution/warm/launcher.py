"""The warm launcher: has runs forked by a fork server that is known to be right, and goes cold while there is none.

It keeps one current server, starts it with the operator, starts another one (with back-off) when it dies, and replaces
it without a gap when what it has loaded changes on disk. No run ever waits for any of that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from runner.clock import Clock, within
from runner.errors import ExecutionError
from runner.execution.events_log import run_logger
from runner.execution.launcher import Launcher, PlayCommand, RunningPlay
from runner.execution.warm.changes import Change, Changes
from runner.execution.warm.far.protocol import Ready
from runner.execution.warm.places import package_folders, places
from runner.execution.warm.runs import NotTaken
from runner.execution.warm.server import WAY_OUT, ForkServer, ServerPlan
from runner.execution.warm.tries import Tries
from runner.logs import Logger
from runner.observe.metrics_warm import Cold, Start, WarmMetrics

_TRIES = 3
"""Failed starts after which the operator says that it is ready: its runs go cold."""
_STEADY = 60.0
"""Seconds: a server that lived so long did not die of what it is, so the next one starts at once."""
_SELDOM = 60.0
"""Seconds between two servers where the older one is still right: some roles write into their own folder."""
_MOST = 2
"""Servers that live at a time: the current one, and one that waits for the end of its runs."""
_QUIET = 1.0
_LONGEST_UNREST = 30.0
"""Seconds without a change before a new server starts, and how long this is waited for."""


class WarmLauncher:
    """Launches runs warm where possible; see `Launcher`, and `chosen.Startable` for `start` and `stop`."""

    def __init__(
        self,
        plan: ServerPlan,
        *,
        fallback: Launcher,
        clock: Clock,
        delay: Callable[[int], float],
        logger: Logger,
        metrics: WarmMetrics | None = None,
    ) -> None:
        """Nothing is started yet.

        Args:
            plan: what each server is made from.
            fallback: launches the runs for which there is no server.
            clock: measures back-off and quiet.
            delay: seconds to wait after so many failures in a row (`workqueue.backoff.Backoff.delay`).
            logger: told once about each start, death, replacement and fallback, and each new reason of a failed start.
            metrics: told about each start, of plays too.
        """
        self._plan = plan
        self._fallback = fallback
        self._clock = clock
        self._tries = Tries(delay=delay)
        self._metrics = metrics or WarmMetrics()
        self._metrics.ready_when(lambda: self._current is not None)
        self._log = logger.named("warm")
        self._current: ForkServer | None = None
        self._why_cold = "the first fork server is still starting"
        self._cold = Cold.STARTING
        self._settled = asyncio.Event()
        self._wanted = asyncio.Event()
        self._why_wanted = ""
        self._start = Start.FIRST
        self._fruitless = 0
        """How many starts have not given a server to use."""
        self._stale = 0
        """How often what a server holds in memory has changed."""
        self.changes = 0
        """How often something changed on disk."""
        self._changed_at = float("-inf")
        self._changed_now = asyncio.Event()
        self._died_now = asyncio.Event()
        self._replaced_at = float("-inf")
        self._left_now = asyncio.Event()
        self._ended_now = asyncio.Event()
        self._ends: dict[ForkServer, asyncio.Task[None]] = {}
        """Who waits for the end of each server that lives."""
        self._born: dict[ForkServer, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    async def start(self) -> None:
        """Begin to come up; return at once."""
        self._want("the operator starts", start=Start.FIRST)
        supervisor = asyncio.create_task(self._supervise(), name="fork servers")
        supervisor.add_done_callback(self._supervisor_ended)
        self._tasks = [supervisor]

    async def stop(self) -> None:
        """Drain all servers within the grace period of plays, and end them; no process and no folder is left."""
        self._stopping = True
        self._leave_current("the operator stops", cold=Cold.STOPPING)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ends = dict(self._ends)
        await asyncio.gather(*(server.end(grace=self._plan.settings.kill_grace) for server in ends))
        await asyncio.gather(*ends.values(), return_exceptions=True)

    @property
    def servers(self) -> int:
        """Return how many fork servers live: the current one, and those that wait for the end of their runs."""
        return len(self._ends)

    async def settled(self) -> None:
        """Return when the first server is ready, or it is known that runs go cold."""
        await self._settled.wait()

    async def ready(self) -> str | None:
        """Return None where a run could start, else why not; see `Launcher.ready`."""
        if self._current is not None:
            return None
        if not self._settled.is_set():
            return "the fork server of warm Ansible is still starting"
        return await self._fallback.ready()

    def why_cold(self) -> str | None:
        """Return why runs are cold now, as a sentence for a person; None while they are warm."""
        return None if self._current is not None else f"the executor is cold because {self._why_cold}"

    async def launch(self, command: PlayCommand) -> RunningPlay:
        """Start *command*; see `Launcher.launch`."""
        log, why, cold = run_logger(self._log, command.request), self._why_cold, self._cold
        if self._current is not None:
            try:
                play = await self._current.launch(command)
            except NotTaken as refusal:
                why, cold = str(refusal), Cold.REFUSED
            else:
                log.debug("The play starts", executor="warm")
                self._metrics.launched(cold=None)
                return play
        log.debug("The play starts", executor="cold", why=why)
        running = await self._fallback.launch(command)
        self._metrics.launched(cold=cold)
        return running

    # from here on: which server is the current one

    async def _supervise(self) -> None:
        """Start a server whenever one is wanted."""
        async with self._watching():
            while True:
                await self._wanted.wait()
                await self._back_off()
                await self._wait_while_right()
                await self._wait_for_room()
                await self._wait_for_quiet()
                self._wanted.clear()
                await self._renew()

    def _supervisor_ended(self, task: asyncio.Task[None]) -> None:
        """Tell of an error that nobody expected: runs are cold from the end of the present server on."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("No fork server will be started any more", error=error, wayOut="restart the operator")
            self._settled.set()

    async def _back_off(self) -> None:
        """After failures wait, but not where something has changed that may have been the reason.

        A server that leaves meanwhile, so that runs are cold from then on, counts anew: it mostly ends the wait.
        """
        while self._tries.failures:
            self._died_now.clear()
            early = (self._changed_now.wait(), self._died_now.wait())
            waits = [asyncio.create_task(each) for each in (self._clock.sleep(self._tries.pause), *early)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waits:
                    task.cancel()
            if not self._died_now.is_set():
                return

    async def _wait_while_right(self) -> None:
        """Wait where the present server is right and followed another such one a moment ago."""
        self._left_now.clear()
        rest = self._replaced_at + _SELDOM - self._clock.monotonic()
        if self._current is not None and rest > 0:
            with contextlib.suppress(TimeoutError):
                await within(rest, self._left_now.wait(), clock=self._clock)

    async def _wait_for_room(self) -> None:
        """Wait for the end of servers that drain: each has its memory as long as its longest run takes."""
        if len(self._ends) >= _MOST:
            way = "runs go cold" if self._current is None else "the present one goes on"
            sentence = f"A new fork server waits until the runs of an older one have ended: {way}"
            self._log.info(sentence, servers=len(self._ends), reason=self._why_wanted)
        while len(self._ends) >= _MOST:
            self._ended_now.clear()
            await self._ended_now.wait()

    async def _renew(self) -> None:
        """Start one server and make it the current one; where that fails, want another one."""
        stale, why, start = self._stale, self._why_wanted, self._start
        self._changed_now.clear()
        server = ForkServer(
            self._plan,
            logger=self._log,
            on_retiring=self._retiring,
            on_cold_modules=self._metrics.modules_went_cold,
        )
        try:
            ready = await server.start()
        except ExecutionError as error:
            self._metrics.server_started(start, ready=False)
            self._failed(error)
            return
        self._metrics.server_started(start, ready=True)
        self._tries.started()
        self._born[server] = self._clock.monotonic()
        self._ends[server] = asyncio.create_task(self._until_its_end(server), name="end of a fork server")
        if stale != self._stale:
            server.drain()  # it has loaded what was being changed; the next one is wanted already
            self._why_cold, self._cold = "what it has to load changes all the time", Cold.CHANGED
            self._count_fruitless()
            return
        replaced, self._current = self._current, server
        self._settled.set()
        self._tell_ready(ready, why=why)
        if replaced is not None:
            self._replaced_at = self._clock.monotonic()
            replaced.drain()

    def _failed(self, error: ExecutionError) -> None:
        """Say once for each reason that no server can be started, and want another one."""
        is_news = self._tries.start_failed(str(error))
        failures = self._tries.failures
        if self._current is None:
            self._why_cold, self._cold = str(error), Cold.FAILING
        way = "runs go cold" if self._current is None else "the old one goes on"
        if is_news:
            sentence = f"A fork server could not be started: {way}"
            tried_again = "after a while that grows up to 10 minutes, and at once when something changes on disk"
            self._log.error(sentence, error=error, triedAgain=tried_again, wayOut=WAY_OUT)
        else:
            self._log.debug("A fork server could not be started again", error=error, failures=failures)
        self._count_fruitless()
        self._want(self._why_wanted, start=Start.FAILED)

    def _count_fruitless(self) -> None:
        """Be ready for cold runs after some starts, though something that changes all the time may be the reason."""
        self._fruitless += 1
        if self._fruitless >= _TRIES:
            self._settled.set()

    async def _until_its_end(self, server: ForkServer) -> None:
        death = await server.wait()
        del self._ends[server]
        self._ended_now.set()
        if death.final:
            self._stopping = True  # the leadership is lost, or the process ends at once: nothing comes after it
        needed = self._current is server
        if needed:
            self._leave_current(f"the fork server {death.how}", cold=Cold.DIED)
        if not self._stopping and (needed or death.lost):
            was = "runs go cold until there is a new one" if needed else "it was being replaced"
            self._log.error(
                f"A fork server died; {was}",
                error=f"it {death.how}",
                lostRuns=death.lost,
                wayOut=f"if it happens again: {WAY_OUT}",
            )
        if needed:
            self._want_after(server, why=f"the last one {death.how}")
        self._born.pop(server)

    def _retiring(self, server: ForkServer, reason: str) -> None:
        """Hear from a server that it isn't right any more."""
        if self._current is server:
            self._leave_current(f"the fork server is retiring: {reason}", cold=Cold.DIED)
            self._log.warning("The fork server retires; runs go cold until there is a new one", reason=reason)
            self._want_after(server, why=f"the last one retired: {reason}")

    def _want_after(self, server: ForkServer, *, why: str) -> None:
        """Want a server in the place of one that did not do; soon, unless it was young."""
        self._tries.died(steady=self._clock.monotonic() - self._born[server] > _STEADY)
        self._died_now.set()
        self._want(why, start=Start.DIED)

    def _leave_current(self, why: str, *, cold: Cold) -> ForkServer | None:
        server, self._current = self._current, None
        self._left_now.set()
        self._why_cold, self._cold = why, cold
        return server

    def _want(self, why: str, *, start: Start) -> None:
        if not self._stopping:
            self._why_wanted, self._start = why, start
            self._wanted.set()

    def _tell_ready(self, ready: Ready, *, why: str) -> None:
        self._log.info(
            "The fork server is ready: runs are warm",
            pid=ready.pid,
            ansibleCore=ready.core,
            seconds=round(ready.seconds, 2),
            preloaded=len(ready.preloaded),
            reason=why,
        )
        self._log.debug("What the fork server has loaded for modules", preloaded=list(ready.preloaded))

    # from here on: what changes on disk

    @contextlib.asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        """Watch the disk; what a server reads after this began is either current or told to have changed."""
        plan = self._plan
        try:
            packages = await package_folders(plan.settings)
        except ExecutionError:
            packages = []  # there is no interpreter, which the start of a server will say
        changes = Changes(lambda: places(plan.content, settings=plan.settings, packages=packages), logger=self._log)
        task = asyncio.create_task(self._follow(changes), name="changes on disk")
        try:
            await changes.established.wait()
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, changes: Changes) -> None:
        async for change in changes:
            self._changed(change)

    def _changed(self, change: Change) -> None:
        self.changes += 1
        self._changed_at = self._clock.monotonic()
        self._tries.changed()
        self._changed_now.set()
        why = f"{change.path} changed"
        if change.stale:
            self._stale += 1
            server = self._current
            if server is not None:
                self._leave_current(why, cold=Cold.CHANGED)
                self._log.info("Runs go cold until there is a new fork server", reason=why)
                server.drain()
        elif not self._wanted.is_set():
            self._log.info("The fork server will be replaced", reason=why)
        self._want(why, start=Start.CHANGED)

    async def _wait_for_quiet(self) -> None:
        """Wait until whoever changes files is done: half an installation is nothing to load."""
        patience = self._clock.monotonic() + _LONGEST_UNREST
        while (now := self._clock.monotonic()) < min(self._changed_at + _QUIET, patience):
            await self._clock.sleep(min(self._changed_at + _QUIET, patience) - now)
