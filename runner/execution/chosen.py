"""Which of the two executors a run gets: `--executor`, above it the watch's key, above that the object's annotation.

Warm runs share what they were forked from, cold ones share nothing. So an object's annotation may only choose cold:
who may write objects can leave the faster way, but not lead a role onto it that its author keeps off.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runner.execution.events_log import run_logger
from runner.execution.executor import Executor, KnowsReadiness, Outcome, RunRequest
from runner.kube.events import WARNING, EventRecorder
from runner.kube.objects import Object, annotations_of, uid_of
from runner.logs import Logger
from runner.observe.metrics_warm import Cold, WarmMetrics
from runner.watches.model import Watch

COLD, WARM = "cold", "warm"
ANNOTATION = "ansible-operator.io/executor"
_SHOWN = 64
"""Characters of a wrong value in a log line."""
_REMEMBERED = 10_000
"""Objects of which it is kept that they were told."""
_CONTENT_IS_WRONG = (4, 5)
"""Exit codes of ansible-playbook for what it cannot parse, and for options that it doesn't know."""
_BROKEN_MODULE = ("MODULE FAILURE", "Module result deserialization failed")
"""Begin the messages of ansible-core 2.18 and 2.19 about a module that said nothing they understand."""


def wished(obj: Object, *, watch: Watch, default: str) -> str:
    """Return the executor of *obj*'s runs."""
    if annotations_of(obj).get(ANNOTATION) == COLD:
        return COLD
    return watch.executor or default


@dataclass(frozen=True, kw_only=True)
class WarmContent:
    """What runs warm, as absolute paths in their order, each once."""

    roles: tuple[Path, ...] = ()
    playbooks: tuple[Path, ...] = ()


def warm_content(watches: Iterable[Watch], *, default: str) -> WarmContent | None:
    """Return what the watches run whose runs may be warm, for finalizers too; None where there is no such watch."""
    contents = [
        content
        for watch in watches
        if watch.reconciles and (watch.executor or default) == WARM
        for content in (watch.content, *([watch.finalizer.content] if watch.finalizer is not None else []))
    ]
    if not contents:
        return None
    return WarmContent(
        roles=tuple(dict.fromkeys(content.role for content in contents if content.role is not None)),
        playbooks=tuple(dict.fromkeys(content.playbook for content in contents if content.playbook is not None)),
    )


class Startable(Protocol):
    """What warm runs are forked from (`runner.execution.warm.launcher.WarmLauncher`)."""

    async def start(self) -> None:
        """Begin to come up."""
        ...

    async def stop(self) -> None:
        """End; also where `start` failed."""
        ...

    async def settled(self) -> None:
        """Return when runs are warm, or it is known that they aren't for now."""
        ...

    def why_cold(self) -> str | None:
        """Return why runs are cold now, as a sentence for a person; None while they are warm."""
        ...


class ChosenExecutor:
    """Hands each run to the executor that it shall have; started and stopped with the operator."""

    def __init__(
        self,
        *,
        cold: Executor,
        warm: Executor | None = None,
        source: Startable | None = None,
        default: str,
        logger: Logger | None = None,
        events: EventRecorder | None = None,
        metrics: WarmMetrics | None = None,
    ) -> None:
        """Choose between *cold* and *warm*.

        Args:
            cold: the ordinary one.
            warm: None where no watch's runs are warm.
            source: is started and stopped; what *warm* forks from.
            default: the flag's choice.
            logger: told of annotations that are ignored, and of warm runs whose end is odd.
            events: tells people the former, too.
            metrics: counts the runs that are cold by choice.
        """
        self._cold = cold
        self._warm = warm or cold
        self._source = source
        self._default = default
        self._log = (logger or Logger()).named("runner")
        self._events = events
        self._metrics = metrics or WarmMetrics()
        self._told: OrderedDict[str, str] = OrderedDict()

    async def start(self) -> None:
        """Start what warm runs are forked from, if there are any."""
        if self._source is not None:
            await self._source.start()

    async def stop(self) -> None:
        """Stop it."""
        if self._source is not None:
            await self._source.stop()

    async def settled(self) -> None:
        """Return when runs that are to be warm are, or it is known that they aren't for now."""
        if self._source is not None:
            await self._source.settled()

    async def ready(self) -> str | None:
        """Return what keeps runs from starting; the warm executor answers for both, as it falls back to cold."""
        return await self._warm.ready() if isinstance(self._warm, KnowsReadiness) else None

    def remark(self) -> str | None:
        """Return why runs that are to be warm are cold now, if they are; that is slower, and no fault."""
        return self._source.why_cold() if self._source is not None else None

    async def run(self, request: RunRequest) -> Outcome:
        """Run and return the outcome; see `Executor.run`."""
        await self._tell_ignored(request)
        if self._warm is self._cold or wished(request.obj, watch=request.watch, default=self._default) == COLD:
            self._of(request).debug("The play starts", executor=COLD, why="it is chosen")
            self._metrics.launched(cold=Cold.CHOSEN)
            return await self._cold.run(request)
        outcome = await self._warm.run(request)
        if outcome.warm and _is_odd(outcome):
            self._of(request).warning(
                "This end may be the fault of the warm executor; if the object's annotation mends it, please report it",
                annotation=f"{ANNOTATION}: {COLD}",
                rc=outcome.rc,
            )
        return outcome

    async def _tell_ignored(self, request: RunRequest) -> None:
        """Say once for each object that a value of its annotation has no effect."""
        value = annotations_of(request.obj).get(ANNOTATION)
        if value is None or value == COLD or not self._is_news(uid_of(request.obj), value):
            return
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        sentence = f"The annotation {ANNOTATION} can only choose {COLD}, and is ignored"
        self._of(request).warning(sentence, value=shown)
        if self._events is not None:
            await self._events.record(
                request.obj, type=WARNING, reason="ExecutorIgnored", message=f'{sentence}: it is "{shown}"'
            )

    def _is_news(self, uid: str, value: str) -> bool:
        news = self._told.get(uid) != value
        self._told[uid] = value
        self._told.move_to_end(uid)
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        return news

    def _of(self, request: RunRequest) -> Logger:
        return run_logger(self._log, request)


def _is_odd(outcome: Outcome) -> bool:
    """Tell whether a run ended as Ansible itself seldom ends one: without a recap, or with a module that broke.

    Wrong content breaks off before the recap, too, and Ansible has exit codes for that.
    """
    if outcome.success:
        return False
    broken = any(words in failure for failure in outcome.failures for words in _BROKEN_MODULE)
    return broken or (outcome.stats is None and outcome.rc not in _CONTENT_IS_WRONG)
