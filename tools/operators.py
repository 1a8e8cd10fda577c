"""Two operators as processes, ours and the peer: their command lines, where their runs lie, how they start and end.

`tools.compare`, `tools.proxy_bench` and `tools.bench` start operators with this. The peer is built from its public
source by whoever runs them; no part of it is here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.execution.command import OWN_COLLECTIONS
from runner.localdev.ports import free_ports

PEER_RUNS = Path("/tmp/ansible-operator/runner")  # noqa: S108 - where the peer has them, whatever TMPDIR says
_PEER_PORTS = (8888, 5050)
FREE_PORTS = ("--proxy-port=0", "--user-metrics-bind-address=0")
"""Flags of ours, for an operator beside others."""
_START_LIMIT = _END_LIMIT = 90.0


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two operators."""

    name: str
    program: Path
    path: tuple[Path, ...]
    """Folders that come first in PATH."""
    fixed_runs: bool
    """Its runs lie in one place for the whole machine."""

    def runs_in(self, temporary: Path) -> Path:
        """Return the folder of its run folders where TMPDIR is *temporary*."""
        return PEER_RUNS if self.fixed_runs else temporary / "ansible-operator/runner"

    def clear_runs(self, *parts: str) -> None:
        """Remove what runs of ours left in the shared folder, below the paths *parts* of it."""
        if self.fixed_runs:
            for part in parts:
                shutil.rmtree(PEER_RUNS / part, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How an operator ended."""

    code: int
    killed: bool


@dataclass(kw_only=True)
class Operator:
    """An operator that runs."""

    pid: int
    health: int
    """The port of its health server."""
    ended: list[Ended] = field(default_factory=list)
    """How it ended, once it has."""


def ours() -> Side:
    """Return the operator of this working tree."""
    binaries = Path(sys.executable).parent
    return Side(name="ours", program=binaries / "ansible-operator", path=(binaries,), fixed_runs=False)


def peer(program: Path, *, path: Sequence[Path]) -> Side:
    """Return the operator *program*; *path* has an `ansible-runner` with the peer's event plugin."""
    binaries = (*path, Path(sys.executable).parent)
    return Side(name="peer", program=program.absolute(), path=binaries, fixed_runs=True)


def refuse_busy_ports() -> None:
    """Raise `OSError` where a port that the peer has for ever is taken, with what to do."""
    for port in _PEER_PORTS:
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise OSError(f"port {port}, which the peer needs, is taken: end what listens there") from error


def environment(side: Side, *, folder: Path, kubeconfig: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of *side*, the same for both but for PATH and *folder*, whose folders it makes."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    own = {
        "PATH": os.pathsep.join([*map(str, side.path), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
        "KUBECONFIG": str(kubeconfig),
        "ANSIBLE_COLLECTIONS_PATH": str(OWN_COLLECTIONS),
    }
    return {**own, **extra}


@contextlib.contextmanager
def running(
    side: Side, *, project: Path, environ: Mapping[str, str], arguments: Sequence[str], log: Path
) -> Iterator[Operator]:
    """Run *side* in *project* for the block; its standard output is beside *log*."""
    port = free_ports(1)[0]
    argv = [
        str(side.program),
        "run",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{port}",
        *arguments,
    ]
    with log.open("wb") as errors, log.with_suffix(".stdout").open("wb") as output:
        process = subprocess.Popen(
            argv, cwd=project, env=dict(environ), stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
        operator = Operator(pid=process.pid, health=port)
        try:
            _await_port(process, port=port, log=log)
            yield operator
        finally:
            operator.ended.append(_end(process))


def _await_port(process: subprocess.Popen[bytes], *, port: int, log: Path) -> None:
    """Return when the health server listens, which both start before they work."""
    deadline = time.monotonic() + _START_LIMIT
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the operator did not start (exit code {process.poll()}): read {log}")


def _end(process: subprocess.Popen[bytes]) -> Ended:
    process.terminate()
    try:
        return Ended(code=process.wait(_END_LIMIT), killed=False)
    except subprocess.TimeoutExpired:
        process.kill()
        return Ended(code=process.wait(), killed=True)
