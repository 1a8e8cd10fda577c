"""Events of a run in the operator's log: one structured line per task, and Ansible's own text as blocks on stdout.

An observer of an executor; sentences, keys and blocks are the peer's. The arguments of a task are never logged, in no
mode: they hold what `no_log` hides. Nor are results and file diffs, which repeat them, but for what a `debug` task
printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from runner.execution.executor import RunRequest
from runner.execution.overrides import VERBOSITY_ANNOTATION, whole_number
from runner.kube.objects import annotations_of, name_of, namespace_of
from runner.logs import Logger

_DEBUG = frozenset({"debug", "ansible.builtin.debug", "ansible.legacy.debug"})
_QUIET = _DEBUG | {"set_fact", "ansible.builtin.set_fact", "ansible.legacy.set_fact"}
_NEVER_LOGGED = frozenset({"task_args", "res", "artifact_data", "diff"})
_NOT_DEBUGS_TEXT = frozenset({"changed", "failed", "failed_when_result", "skipped", "invocation"})
_HEAD = f"\n{'-' * 27} Ansible Task StdOut {'-' * 31}"
_FOOT = f"\n{'-' * 79}"


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
        log = self._logger(request, kind=kind)
        if kind == "playbook_on_no_hosts_matched":
            log.info("No host matched: no task ran", pattern=data.get("play_pattern", data.get("pattern", "")))
        if self._mode == "everything":
            told = {key: value for key, value in data.items() if key not in _NEVER_LOGGED}
            log.info("Ansible event", EventData=told)
        if kind == "playbook_on_stats":
            self._recap(request, event)
        elif self._mode == "everything":
            self._block(event)
        elif self._mode != "nothing" and "task" in data:
            self._task(request, event=event, log=log)

    def _logger(self, request: RunRequest, *, kind: object) -> Logger:
        return self._log.bind(
            name=name_of(request.obj),
            namespace=namespace_of(request.obj),
            gvk=str(request.watch.gvk),
            event_type=kind,
            job=request.ident,
        )

    def _task(self, request: RunRequest, *, event: Mapping[str, Any], log: Logger) -> None:
        kind, data = event.get("event"), event["event_data"]
        action = data.get("task_action")
        if self._raw or _is_positive(annotations_of(request.obj).get(VERBOSITY_ANNOTATION, "")):
            if event.get("stdout"):
                self._print(str(event["stdout"]))
            return
        if kind == "playbook_on_task_start" and action not in _QUIET:
            log.info("[playbook task start]", **{"EventData.Name": data.get("name", data["task"])})
            self._block(event)
        elif kind == "runner_on_ok" and action in _DEBUG:
            text = _debugs_text(data.get("res"))
            log.info("[playbook debug]", **({"EventData.TaskArgs": text} if text else {}))
            self._block(event)
        elif kind == "runner_item_on_ok":
            self._block(event)
        elif kind == "runner_on_failed":
            _log_failure(data, log=log)
            self._block(event)

    def _block(self, event: Mapping[str, Any]) -> None:
        text = str(event.get("stdout") or "")
        if not text:
            return
        title = []
        if event.get("event") != "playbook_on_task_start":  # whose text is the title already
            title = [f"\n TASK [{(event.get('event_data') or {}).get('task', '')}] {'*' * 32} "]
        self._print("\n".join([_HEAD, *title, text, _FOOT]))

    def _recap(self, request: RunRequest, event: Mapping[str, Any]) -> None:
        text = str(event.get("stdout") or "")
        if text:
            self._print(_titled("Ansible Task Status Event StdOut", text=text, request=request))

    def _print(self, text: str) -> None:
        # resolved late: a test, or a log redirection, may replace sys.stdout
        print(text, file=self._stdout or sys.stdout, flush=True)


def print_whole_output(request: RunRequest, *, output: str, stdout: TextIO | None = None) -> None:
    """Print what Ansible printed in a run, from its first line to its last: what ANSIBLE_DEBUG_LOGS asks for."""
    if output:
        print(_titled("Ansible Debug Result", text=output, request=request), file=stdout or sys.stdout, flush=True)


def _titled(title: str, *, text: str, request: RunRequest) -> str:
    whole = f"{title} ({request.watch.gvk}, {name_of(request.obj)}/{namespace_of(request.obj)})"
    return f"\n----- {whole:>70} -----\n\n{text}\n\n----------"


def _log_failure(data: Mapping[str, Any], *, log: Logger) -> None:
    """Log a failed task: as an error, but one that the play ignores; whether a block rescues it is not known yet."""
    where = {"EventData.FailedTaskPath": data["task_path"]} if "task_path" in data else {}
    sentence = "[playbook task failed]"
    if data.get("ignore_errors"):
        log.info(sentence, **{"EventData.Task": data["task"], **where}, ignored=True)
    else:
        log.error(sentence, **{"EventData.Task": data["task"], **where}, error=sentence)


def _debugs_text(result: object) -> str:
    """Return what a `debug` task printed, as `msg=...` or `VARIABLE=...`; nothing where `no_log` hides it."""
    if not isinstance(result, Mapping) or "censored" in result or "results" in result:
        return ""
    said = {k: v for k, v in result.items() if k not in _NOT_DEBUGS_TEXT and not k.startswith("_ansible_")}
    return ", ".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in said.items())


def _is_positive(text: str) -> bool:
    return (whole_number(text) or 0) > 0
