"""Signals while `ansible-operator run` starts; with real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.settings import environment


@contextlib.contextmanager
def _starting(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start an operator whose start lasts: its interpreter for plays writes a line to a pipe, and answers nothing."""
    (folder / "watches.yaml").write_text("[]\n")
    os.mkfifo(folder / "reached")
    python = folder / "python"
    python.write_text(f"#!/bin/sh\necho > {folder}/reached\nexec sleep 1000\n")
    python.chmod(0o755)
    listening = ("--health-probe-bind-address=0", "--proxy-port=0")
    argv = [sys.executable, "-m", "runner", "run", *listening, f"--ansible-python={python}"]
    environ = {**environment(), "TMPDIR": str(folder)}
    with subprocess.Popen(argv, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _until_version(process: subprocess.Popen[str], _: Path) -> None:
    assert process.stderr is not None
    assert '"msg":"Version"' in process.stderr.readline()


def _until_environments(_: subprocess.Popen[str], folder: Path) -> None:
    (folder / "reached").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("barrier", [_until_version, _until_environments])
def test_a_signal_during_the_start_ends_it_in_good_order(tmp_path: Path, number: int, barrier: object) -> None:
    """From the first line of the log on a signal means exit code 0 and `Exiting.`, not a death by the signal."""
    assert callable(barrier)
    with _starting(tmp_path) as process:
        barrier(process, tmp_path)
        process.send_signal(number)
        assert process.stderr is not None
        log = process.stderr.read()
        assert process.wait(timeout=60) == 0
    assert log.count('"msg":"Exiting."') == 1
    assert "Traceback" not in log
