"""The executor: everything around one ansible-runner, whichever launcher brings it to life (`cold`, `warm`).

A run: a scratch folder and a kubeconfig, the input directory, the process in a session of its own, its events read
while it goes, its outcome from them, and nothing left over: no process, no temporary file, no environment on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from runner.clock import Clock
from runner.errors import ExecutionError
from runner.execution.artifacts import Artifacts, useful_tail
from runner.execution.command import USER_METRICS, ansible_python, command_line, environment_for
from runner.execution.events import EventSummary
from runner.execution.events_log import print_whole_output, run_logger
from runner.execution.executor import Outcome, RunRequest
from runner.execution.files import create_private, has_few_entries, held
from runner.execution.inputs import FACT_CACHE, directory_of, prepare
from runner.execution.kubeconfigs import KubeconfigSource
from runner.execution.launcher import Launcher, PlayCommand, RunningPlay
from runner.execution.leftovers import new_scratch, run_is_over
from runner.execution.outcome import classify
from runner.execution.processes import end_processes
from runner.execution.scrub import Scrubber
from runner.execution.time_limit import TimeLimit
from runner.kube.objects import is_small
from runner.kube.texts import cut_message
from runner.logs import Logger
from runner.observe.activity import busy
from runner.settings import ExecutionSettings

Observer = Callable[[RunRequest, Mapping[str, Any]], None]
"""Sees each event of a run as it comes; it must not block."""

_T = TypeVar("_T")
_POLL = 0.2
_TAIL = 65536
_LOG_LIMIT = 8192
"""Bytes of a failed run's messages in the log: as much as a condition has by default."""
_NO_PLAYBOOK_PROGRAM = "The command was not found or was not executable: ansible-playbook"
"""What pexpect, through which ansible-runner starts it, says."""


class PlayExecutor:
    """Runs each request in an ansible-runner that its launcher starts."""

    def __init__(
        self,
        *,
        settings: ExecutionSettings,
        launcher: Launcher,
        kubeconfigs: KubeconfigSource,
        clock: Clock,
        logger: Logger | None = None,
        observers: Sequence[Observer] = (),
        user_metrics: Callable[[], str] | None = None,
    ) -> None:
        """Take *settings*, *launcher* and *kubeconfigs*; *observers* see every event in its order.

        *user_metrics* tells where a run can send metrics (empty: nowhere); without it the run isn't told.
        """
        self._settings = settings
        self._kubeconfigs = kubeconfigs
        self._clock = clock
        self._log = (logger or Logger()).named("runner")
        self._observers = tuple(observers)
        self._scrubber = Scrubber(settings.environ)
        self._launcher = launcher
        self._user_metrics = user_metrics

    async def ready(self) -> str | None:
        """Tell what keeps runs from starting, if anything; see `KnowsReadiness`."""
        return await self._launcher.ready()

    async def run(self, request: RunRequest) -> Outcome:
        """Run and return the outcome; see `Executor.run`."""
        log = run_logger(self._log, request)
        try:
            async with self._scratch(request) as scratch:
                outcome = await self._run_in(scratch, request=request, log=log)
        except OSError as error:
            raise ExecutionError(f"cannot keep the files of a run: {error}; check the disk and its rights") from error
        if outcome.success:
            log.info("Ansible-runner exited successfully")
        else:
            failures = _for_log(outcome.failures)
            log.error("Ansible-runner failed", rc=outcome.rc, failures=failures, error=_how(outcome.rc, failures))
        return outcome

    async def _run_in(self, scratch: Path, *, request: RunRequest, log: Logger) -> Outcome:
        folder = directory_of(request, root=self._settings.runner_dir)
        async with held(folder, clock=self._clock):
            return await self._run_held(request, scratch=scratch, log=log)

    async def _run_held(self, request: RunRequest, *, scratch: Path, log: Logger) -> Outcome:
        with self._kubeconfigs.for_run(request, folder=scratch) as kubeconfig:
            work = partial(prepare, request, settings=self._settings, kubeconfig=kubeconfig, scratch=scratch)
            directory = work() if is_small(request.obj) else await in_thread(work)
            if directory.notes and not request.notes_told:
                log.info("Values of the object are not used as they are", notes=list(directory.notes))
            artifacts = Artifacts(root=directory.artifacts, ident=request.ident, scrubber=self._scrubber)
            return await self._play(request, directory=directory.path, artifacts=artifacts, scratch=scratch)

    async def _play(self, request: RunRequest, *, directory: Path, artifacts: Artifacts, scratch: Path) -> Outcome:
        started = self._clock.now()
        summary = EventSummary()
        artifacts.create()
        complaints = scratch / "ansible-runner.err"
        create_private(complaints, "")
        try:
            with busy(), TimeLimit(request.time_limit, clock=self._clock) as limit:
                async with artifacts.command_without_environment():
                    process = await self._start(request, directory=directory, scratch=scratch, complaints=complaints)
                    of_runner, over = await self._follow(
                        request, process=process, artifacts=artifacts, summary=summary, limit=limit
                    )
                complaint = _end_of(complaints)
            rc = artifacts.rc(of_runner=of_runner)
            tail = artifacts.output_tail() or useful_tail(self._scrubber.text(complaint))
            self._refuse_missing(complaint=complaint, output=tail)
        finally:
            finish = partial(artifacts.finish, keep=request.max_artifacts)
            for folder in finish() if artifacts.are_few else await in_thread(finish):
                await removed(folder)
            if artifacts.unreadable:
                files = [str(path) for path in artifacts.unreadable]
                run_logger(self._log, request).error("Events of the run cannot be read and were skipped", files=files)
        if self._settings.debug_logs:
            print_whole_output(request, output=await in_thread(artifacts.output))
        finished = self._clock.now()
        outcome = classify(
            summary, rc=rc, output_tail=tail, started=started, finished=finished, artifacts=artifacts.path
        )
        return replace(limit.outcome(outcome, summary=summary) if over else outcome, warm=process.warm)

    async def _start(self, request: RunRequest, *, directory: Path, scratch: Path, complaints: Path) -> RunningPlay:
        argv = command_line(request, directory=directory, settings=self._settings)
        environ = environment_for(request, settings=self._settings, scratch=scratch)
        if self._user_metrics is not None:
            environ[USER_METRICS] = self._user_metrics()
        return await self._launcher.launch(
            PlayCommand(request=request, argv=argv, environ=environ, complaints=complaints)
        )

    async def _follow(
        self,
        request: RunRequest,
        *,
        process: RunningPlay,
        artifacts: Artifacts,
        summary: EventSummary,
        limit: TimeLimit,
    ) -> tuple[int, bool]:
        """Hand on events until the process has ended and all of them are read, and end it where its time is up.

        Return its exit code, and whether it was ended.
        """
        ended, over = asyncio.ensure_future(process.wait()), False
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=_POLL)
                self._hand_on(request, artifacts=artifacts, summary=summary)
                if limit.passed and not over and not ended.done():
                    over = True
                    await to_the_end(self._end(request, process=process))
            self._hand_on(request, artifacts=artifacts, summary=summary, final=True)
            return ended.result(), over
        except BaseException:
            await to_the_end(self._end(request, process=process))
            raise
        finally:
            ended.cancel()

    def _hand_on(
        self, request: RunRequest, *, artifacts: Artifacts, summary: EventSummary, final: bool = False
    ) -> None:
        for event in artifacts.new_events(final=final):
            summary.add(event)
            for observe in self._observers:
                observe(request, event)

    async def _end(self, request: RunRequest, *, process: RunningPlay) -> None:
        await end_processes(request.ident, grace=self._settings.kill_grace)
        process.kill()  # where there is no /proc, nothing was found above
        with contextlib.suppress(ExecutionError):
            await process.wait()

    def _refuse_missing(self, *, complaint: str, output: str) -> None:
        """Raise `ExecutionError` where ansible-runner or ansible-playbook is not there."""
        python = ansible_python(self._settings)
        if "No module named ansible_runner" in complaint:
            raise ExecutionError(
                f"{python} has no ansible-runner; install it there, or set --ansible-python to an interpreter that has "
                "ansible-core and ansible-runner"
            )
        if output.startswith(_NO_PLAYBOOK_PROGRAM):
            raise ExecutionError(
                f"ansible-playbook is neither beside {python} nor in PATH; install ansible-core there, or set "
                "--ansible-python to an interpreter that has it"
            )

    @contextlib.asynccontextmanager
    async def _scratch(self, request: RunRequest) -> AsyncIterator[Path]:
        """Give the run a private folder for its temporary files, and end what it left running.

        A task that was detached on purpose (`async` with `poll: 0`) lives on, and so does the folder.
        """
        path = new_scratch(request.ident)
        completed = False
        try:
            yield path
            completed = True
        finally:
            await to_the_end(self._clear(path, ident=request.ident, spare_detached=completed))

    async def _clear(self, path: Path, *, ident: str, spare_detached: bool) -> None:
        try:
            left = await end_processes(ident, grace=self._settings.kill_grace, spare_detached=spare_detached)
            await removed(path / FACT_CACHE if left else path)
        finally:
            run_is_over(ident)


async def to_the_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Await *work* even if this task is cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def in_thread(work: Callable[[], _T]) -> _T:
    """Do file work beside the event loop; a cancelled run waits for its end, as what comes next removes the files."""
    return await to_the_end(asyncio.to_thread(work))


async def removed(folder: Path) -> None:
    """Remove *folder* with all that is in it, as far as that can be done."""
    remove = partial(shutil.rmtree, folder, ignore_errors=True)
    if has_few_entries(folder):
        remove()
    elif os.path.lexists(folder):
        await in_thread(remove)


def _for_log(failures: Sequence[str]) -> list[str]:
    """Return the messages as they are, or one text that is cut as a condition's would be."""
    whole = "\n".join(failures)
    cut = cut_message(whole, limit=_LOG_LIMIT)
    return list(failures) if cut == whole else [cut]


def _how(rc: int | None, failures: Sequence[str]) -> str:
    """Return how a failed run ended: by its exit code, or by what failed although Ansible saw no fault."""
    if rc is None:
        return "killed by a signal"
    return f"exit status {rc}" if rc else "; ".join(failures)


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        return file.read().decode(errors="replace")
