"""Our own operator as a child process of the demo and of `molecule`: started, followed through its log, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from runner.errors import LocalPlaneError

Follower = Callable[[Mapping[str, Any]], None]
"""Takes one record of the operator's JSON log."""


class OperatorProcess:
    """`ansible-operator run` of one working tree."""

    def __init__(
        self, *, project: Path, environ: Mapping[str, str], log: Path, port: int, follower: Follower | None = None
    ) -> None:
        """Describe it; nothing runs yet.

        Args:
            project: the folder with watches.yaml and roles/.
            environ: the whole environment of the process, KUBECONFIG in it.
            log: the file that gets the operator's output.
            port: of the health probes, on loopback.
            follower: called in a thread of its own for each log record.
        """
        self._project = project
        self._environ = environ
        self._log = log
        self._port = port
        self._follower = follower
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def start(self, *, arguments: Sequence[str] = (), within: Sequence[str] = ()) -> None:
        """Start it in a session of its own, so that a Ctrl-C in the terminal reaches only us.

        Args:
            arguments: more of `run`.
            within: the command that becomes the operator, for example one that changes its namespaces first.
        """
        argv = [
            *within,
            sys.executable,
            "-m",
            "runner",
            "run",
            f"--health-probe-bind-address=127.0.0.1:{self._port}",
            "--metrics-bind-address=0",  # two of them on one machine shall not meet
            "--user-metrics-bind-address=0",
            "--proxy-port=0",
            "--webhook-bind-address=127.0.0.1:0",
            *arguments,
        ]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            argv,
            cwd=self._project,
            env=dict(self._environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        stream = self._process.stdout
        if stream is None:
            raise LocalPlaneError("the operator's output cannot be read; that is a bug, please report it")
        self._thread = threading.Thread(target=self._follow, args=(stream,), name="operator log", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Return the process id; 0 before `start`."""
        return self._process.pid if self._process else 0

    def ready(self) -> bool:
        """Ask /readyz; raise `LocalPlaneError` with the log's tail when the process is gone."""
        if self._process is None or self._process.poll() is not None:
            code = None if self._process is None else self._process.returncode
            raise LocalPlaneError(f"the operator ended with exit code {code}; its log is {self._log}:\n{self.tail()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def tail(self, lines: int = 15) -> str:
        """Return the last *lines* of the log."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal and don't wait."""
        if self._process is not None:
            self._process.send_signal(number)

    def wait(self, *, limit: float = 60.0) -> int:
        """Wait for its end and return the exit code."""
        return 0 if self._process is None else self._process.wait(limit)

    def kill(self) -> None:
        """SIGKILL, for tests of crashes: nothing is cleaned up."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self, *, grace: float = 40.0) -> int:
        """SIGTERM, wait up to *grace* seconds, then SIGKILL; return the exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(grace)
            except subprocess.TimeoutExpired:
                self._process.kill()
            except KeyboardInterrupt:  # a person who cannot wait: the second signal ends it and its plays at once
                self._process.terminate()
                self._process.wait()
                raise
        code = self._process.wait()
        if self._thread is not None:
            self._thread.join(timeout=5)
        return code

    def _follow(self, stream: IO[bytes]) -> None:
        descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb") as log, stream:
            for line in stream:
                log.write(line)
                log.flush()
                record = _record(line)
                if record is not None and self._follower is not None:
                    self._follower(record)


def _record(line: bytes) -> Mapping[str, Any] | None:
    """Return the log record in *line*; None for the raw blocks of Ansible's own output."""
    if not line.startswith(b"{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
