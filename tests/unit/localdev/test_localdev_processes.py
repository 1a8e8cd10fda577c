"""Starting, watching and ending processes that outlive the command that started them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.errors import LocalPlaneError
from runner.localdev.ports import ephemeral_start, free_ports, is_free
from runner.localdev.processes import Check, Process, is_running, spawn, wait_ready

ENVIRON = {"PATH": "/usr/bin:/bin"}


class Starter:
    """Starts shell scripts and ends them after the test."""

    def __init__(self, folder: Path) -> None:
        """Keep logs in *folder*."""
        self.folder = folder
        self.started: list[Process] = []

    def __call__(self, script: str, *, name: str = "thing") -> Process:
        """Start *script*."""
        log = self.folder / f"{name}.log"
        process = spawn(name, argv=["/bin/sh", "-c", script], environ=ENVIRON, log=log)
        self.started.append(process)
        return process


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Give a starter of processes that are gone after the test."""
    starter = Starter(tmp_path)
    yield starter
    for process in starter.started:
        process.kill()


def wait_for_log(process: Process, text: str) -> None:
    """Wait until a process has written *text*."""
    check = Check(what=text, process=process.name, met=lambda: text in process.log.read_text())
    wait_ready([check], processes={process.name: process}, limit=60)


def test_output_goes_to_a_private_log_and_the_session_is_its_own(start: Starter) -> None:
    """A process writes to its log, that only its owner reads, and a Ctrl-C at our terminal doesn't reach it."""
    process = start("echo ready; echo trouble >&2; exec sleep 600")
    wait_for_log(process, "ready\ntrouble")
    assert process.log.stat().st_mode & 0o777 == 0o600
    assert os.getsid(process.pid) == process.pid


def test_end_lets_a_process_end_in_order(start: Starter) -> None:
    """A process that handles SIGTERM gets the time to do it."""
    process = start('trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.02; done')
    wait_for_log(process, "ready")
    process.end(grace=60)
    assert not process.alive()
    assert process.log.read_text().endswith("bye\n")


def test_end_kills_what_ignores_it(start: Starter) -> None:
    """A process that ignores SIGTERM is gone after the grace."""
    process = start('trap "" TERM; echo ready; while :; do sleep 0.02; done')
    wait_for_log(process, "ready")
    process.end(grace=0.1)
    assert not process.alive()


def test_a_recycled_pid_is_never_touched(start: Starter) -> None:
    """A process that has the pid of ours, but another start, counts as gone and is not signalled."""
    stranger = start("exec sleep 600")
    ours = dataclasses.replace(stranger, started="another boot/1")
    assert not ours.alive()
    ours.end(grace=0)
    ours.kill()
    assert stranger.alive()


def test_a_process_that_ends_at_once_is_not_alive(start: Starter) -> None:
    """However soon a process ends after its start, it counts as ended."""
    for attempt in range(20):
        process = start("exit 0", name=f"thing-{attempt}")
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not process.alive()


def test_ending_what_is_gone_is_harmless(start: Starter) -> None:
    """A process that ended by itself can be ended again."""
    process = start("exit 0")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.end()
    assert not is_running(process.pid)


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    """The error names the component and the file."""
    with pytest.raises(LocalPlaneError, match=r"cannot start etcd \(/nowhere/etcd\): No such file"):
        spawn("etcd", argv=["/nowhere/etcd"], environ=ENVIRON, log=tmp_path / "log")


def test_waiting_for_a_process_that_ended_shows_its_log(start: Starter) -> None:
    """Whoever waits for a process that died reads why: the log's path and its end."""
    process = start("echo 'unknown flag: --x' >&2; exit 1", name="kube-apiserver")
    check = Check(what="/readyz", process="kube-apiserver", met=lambda: False)
    with pytest.raises(LocalPlaneError, match="kube-apiserver ended while it was starting") as caught:
        wait_ready([check], processes={"kube-apiserver": process}, limit=60)
    assert str(process.log) in str(caught.value)
    assert "unknown flag: --x" in str(caught.value)


def test_a_wait_that_takes_too_long_says_for_what(start: Starter) -> None:
    """After the limit the error names each condition that is not met, and the log to read."""
    process = start("echo still migrating; exec sleep 600")
    wait_for_log(process, "migrating")
    checks = [
        Check(what="/readyz", process="thing", met=lambda: False),
        Check(what="/healthz", process="thing", met=lambda: True),
        Check(what="the port", process="thing", met=lambda: False),
    ]
    with pytest.raises(LocalPlaneError, match="not ready after 0 s: /readyz, the port") as caught:
        wait_ready(checks, processes={"thing": process}, limit=0)
    assert "still migrating" in str(caught.value)


def test_free_ports_are_different_free_and_not_ephemeral() -> None:
    """Ports come from below the range in which the kernel picks the source ports of connections."""
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < ephemeral_start()
    assert all(is_free(port) for port in ports)


def test_free_ports_avoid_those_that_are_promised() -> None:
    """A port that the caller has promised to somebody is not given out."""
    everything = range(1, 65536)
    with pytest.raises(LocalPlaneError, match="found no 1 free ports"):
        free_ports(1, avoid=everything)
