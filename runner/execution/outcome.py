"""How a run ended: a pure function of its events, its exit code and the end of its output.

The recap decides, as Ansible counts it: a failed task that a block rescued is no failure of the run, an unreachable
host is one. A run without a recap failed, whatever its exit code says.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from runner.execution.events import EventSummary, TaskFailure
from runner.execution.executor import Outcome, PlayStats

NO_RECAP = "Ansible ended before it reached its recap"
_STRICT = (
    "Conditionals must have a boolean result",
    "Empty conditional expressions are not allowed",
    "Conditional expressions must be strings",
)
STRICT_HINT = (
    "ansible-core 2.19 refuses conditions that 2.18 accepted: make the condition a boolean, or run the operator with "
    "ANSIBLE_ALLOW_BROKEN_CONDITIONALS=true in its environment"
)
KILLED = "Ansible was killed by a signal (out of memory, or kill -9)"


def classify(
    summary: EventSummary,
    *,
    rc: int | None,
    output_tail: str,
    started: datetime,
    finished: datetime,
    artifacts: Path | None = None,
) -> Outcome:
    """Return the outcome of a run.

    Args:
        summary: all of the run's events.
        rc: the exit code of ansible-playbook; None if a signal ended it.
        output_tail: the end of what Ansible printed, for a run that says nothing else.
        started: when the run began.
        finished: when it ended.
        artifacts: the run's folder.
    """
    failures = tuple(_with_hint(message) for message in _failures(summary, rc=rc, output_tail=output_tail))
    return Outcome(
        success=not failures,
        failures=failures,
        stats=summary.stats,
        requeue_after=summary.requeue_after,
        rc=rc,
        started=started,
        finished=finished,
        artifacts=artifacts,
    )


def _failures(summary: EventSummary, *, rc: int | None, output_tail: str) -> tuple[str, ...]:
    """Return why the run failed; empty if it succeeded."""
    stats = summary.stats
    if stats is None:
        said = tuple(failure.message for failure in summary.failures)
        return (*said, *summary.unreachable, *_broken_off(rc, "" if said else output_tail))
    failures: list[str] = []
    if stats.failures:
        told = [failure.message for failure in _unrescued(summary, stats)]
        failures += told or [f"tasks failed on {', '.join(sorted(stats.failures))}"]
    if stats.unreachable:
        failures += summary.unreachable or [f"unreachable hosts: {', '.join(sorted(stats.unreachable))}"]
    if rc != 0 and not failures:
        failures.append(KILLED if rc is None else f"ansible-playbook ended with exit code {rc}: {output_tail}")
    if summary.requeue_problem:
        failures.append(summary.requeue_problem)
    return tuple(failures)


def _unrescued(summary: EventSummary, stats: PlayStats) -> list[TaskFailure]:
    """Keep the failures that no block rescued, and those of which that can't be known.

    No event says which failure was rescued. Where a host failed more often than its recap counts, only one with which
    the play ended is known to be none of them: a rescue would have followed it.
    """
    last = summary.ended_with
    alone = last.host if last is not None and stats.failures.get(last.host) == 1 else None
    return [
        failure
        for failure in summary.failures
        if stats.failures.get(failure.host, 0) > 0 and (failure.host != alone or failure is last)
    ]


def _broken_off(rc: int | None, output_tail: str) -> tuple[str, ...]:
    how = KILLED if rc is None else f"{NO_RECAP} (exit code {rc})" if rc else NO_RECAP
    return (f"{how}: {output_tail}" if output_tail else how,)


def _with_hint(message: str) -> str:
    """Add what helps an operator that was written for ansible-core 2.18; its author may be far away."""
    return f"{message} ({STRICT_HINT})" if any(words in message for words in _STRICT) else message
