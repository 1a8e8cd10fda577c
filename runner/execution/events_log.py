"""Events of a run in the operator's log: one structured line per task, and Ansible's own text as blocks on stdout.

An observer of an executor. The arguments of a task are never logged, in no mode: they hold what `no_log` hides.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TextIO

from runner.execution.executor import RunRequest
from runner.kube.objects import annotations_of, name_of, namespace_of
from runner.logs import Logger

VERBOSITY_ANNOTATION = "ansible.sdk.operatorframework.io/verbosity"
_QUIET_ACTIONS = frozenset({"set_fact", "debug"})
_WIDTH = 79


def run_logger(logger: Logger, request: RunRequest) -> Logger:
    """Return *logger* with the keys that every line of a run has."""
    return logger.bind(
        job=request.ident,
        name=name_of(request.obj),
        namespace=namespace_of(request.obj),
        gvk=str(request.watch.gvk),
    )


class EventLog:
    """Logs events as `--ansible-log-events` says: `nothing`, `tasks` or `everything`."""

    def __init__(
        self,
        *,
        logger: Logger,
        mode: str = "tasks",
        environ: Mapping[str, str] | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        """Log to *logger*, print blocks to *stdout*; $ANSIBLE_VERBOSITY in *environ* asks for raw text only."""
        self._log = logger.named("logging_event_handler")
        self._mode = mode.lower()
        self._raw = _is_positive((environ or {}).get("ANSIBLE_VERBOSITY", ""))
        self._stdout = stdout

    def __call__(self, request: RunRequest, event: Mapping[str, Any]) -> None:
        """Log one event."""
        kind = event.get("event")
        data = event.get("event_data") or {}
        log = run_logger(self._log, request).bind(event_type=kind)
        if kind == "playbook_on_no_hosts_matched":
            log.info("No host matched: no task ran", pattern=data.get("play_pattern", data.get("pattern", "")))
        if kind == "playbook_on_stats":
            self._recap(request, event)
        elif self._mode == "everything":
            log.info("Ansible event", event_data={key: value for key, value in data.items() if key != "task_args"})
            self._block(event)
        elif self._mode != "nothing" and "task" in data:
            self._task(request, event=event, log=log)

    def _task(self, request: RunRequest, *, event: Mapping[str, Any], log: Logger) -> None:
        kind, data = event.get("event"), event["event_data"]
        action = str(data.get("task_action", "")).rpartition(".")[2]
        if self._raw or _is_positive(annotations_of(request.obj).get(VERBOSITY_ANNOTATION, "")):
            if event.get("stdout"):
                self._print(str(event["stdout"]))
            return
        if kind == "playbook_on_task_start" and action not in _QUIET_ACTIONS:
            log.info("[playbook task start]", task=data.get("name", data["task"]))
            self._block(event, task=str(data.get("name", data["task"])))
        elif kind == "runner_on_ok" and action == "debug":
            log.info("[playbook debug]", task=data["task"])
            self._block(event)
        elif kind == "runner_item_on_ok":
            self._block(event)
        elif kind == "runner_on_failed":
            log.error("[playbook task failed]", task=data["task"], task_path=data.get("task_path", ""))
            self._block(event, task=str(data["task"]))

    def _block(self, event: Mapping[str, Any], *, task: str = "") -> None:
        text = str(event.get("stdout") or "")
        if not text:
            return
        title = [f" TASK [{task}] ".ljust(_WIDTH, "*")] if task else []
        self._print("\n".join(["", " Ansible Task StdOut ".center(_WIDTH, "-"), *title, text, "-" * _WIDTH]))

    def _recap(self, request: RunRequest, event: Mapping[str, Any]) -> None:
        whose = f"{request.watch.gvk}, {name_of(request.obj)}/{namespace_of(request.obj)}"
        title = f" Ansible Task Status Event StdOut ({whose}) "
        self._print(f"\n----- {title:70} -----\n{event.get('stdout') or ''}\n{'-' * 10}")

    def _print(self, text: str) -> None:
        # resolved late: a test, or a log redirection, may replace sys.stdout
        print(text, file=self._stdout or sys.stdout, flush=True)


def print_whole_output(request: RunRequest, *, output: str, stdout: TextIO | None = None) -> None:
    """Print what Ansible printed in a run, from its first line to its last: what ANSIBLE_DEBUG_LOGS asks for."""
    whose = f"{request.watch.gvk}, {name_of(request.obj)}/{namespace_of(request.obj)}"
    print(f"\n----- Ansible Debug Result ({whose}) -----\n{output}\n{'-' * 10}", file=stdout or sys.stdout, flush=True)


def _is_positive(text: str) -> bool:
    try:
        return int(text) > 0
    except ValueError:
        return False
