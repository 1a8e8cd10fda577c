"""The same ansible-runner command line, cold and in a fork of a warm server, and what each of them left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from runner.execution.warm.far.protocol import Ended, Inbox, Message, Note, Ready, Refused, Run, Start, Started, encode
from runner.settings import environment

PROGRAM = Path(__file__).parents[3] / "runner/execution/warm/far/__main__.py"
HUNG = 300.0
SURROUNDINGS = Path(__file__).with_name("warm_surroundings.py")
"""A callback plugin that writes what a playbook's process finds around itself, and how."""
_HOSTS = "localhost ansible_connection=local ansible_python_interpreter={{ansible_playbook_python}}"
_VOLATILE = {"uuid", "parent_uuid", "created", "pid", "start", "end", "duration", "task_uuid", "play_uuid"} | {
    "playbook_uuid"
}


@dataclass(frozen=True, kw_only=True)
class Left:
    """How one run ended, and what it left."""

    code: int
    stdout: str
    status: str
    rc: str
    events: list[dict[str, Any]]
    files: dict[str, str]
    """Modes by path in the artifacts, events' names cut to their counter."""
    command: dict[str, Any]
    complaint: str
    local: list[str]
    """What is left in the folder for temporary files."""


@dataclass(kw_only=True)
class Lab:
    """A warm server and a folder with content."""

    folder: Path
    python: str
    process: subprocess.Popen[bytes]
    near: socket.socket
    environ: Mapping[str, str]
    notes: list[Note] = field(default_factory=list)
    _inbox: Inbox = field(default_factory=Inbox)
    _runs: int = 0

    def content(self, plays: object, *, name: str, plugins: Mapping[str, str] | None = None) -> Path:
        """Write a playbook with *plays* (text, or what becomes YAML) and *plugins* beside it; return its path."""
        root = self.folder / name
        root.mkdir()
        for path, text in (plugins or {}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / "play.yml").write_text(plays if isinstance(plays, str) else yaml.safe_dump(plays))
        return root / "play.yml"

    def run(
        self, playbook: Path, *, warm: bool, more: tuple[str, ...] = (), environ: Mapping[str, str] | None = None
    ) -> Left:
        """Play *playbook* and return what is left of it."""
        with self.started(playbook, warm=warm, more=more, environ=environ) as run:
            code = run.wait()
        return run.left(code)

    def both(
        self, playbook: Path, *, more: tuple[str, ...] = (), environ: Mapping[str, str] | None = None
    ) -> tuple[Left, Left]:
        """Play *playbook* cold and then warm."""
        return self.run(playbook, warm=False, more=more, environ=environ), self.run(
            playbook, warm=True, more=more, environ=environ
        )

    @contextlib.contextmanager
    def started(
        self, playbook: Path, *, warm: bool, more: tuple[str, ...] = (), environ: Mapping[str, str] | None = None
    ) -> Iterator[Play]:
        """Start *playbook*."""
        ident = str(secrets.randbits(62))
        data = _private_data_dir(playbook.parent / "data")
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        complaints = scratch / "complaints"
        complaints.write_text("")
        argv = [self.python, "-P", "-m", "ansible_runner", "run", str(data), "--rotate-artifacts", "0"]
        argv += ["-p", str(playbook), "-i", ident, *more]
        per_run = {"ANSIBLE_OPERATOR_RUN": ident, "TMPDIR": str(scratch), "ANSIBLE_LOCAL_TEMP": str(scratch / "local")}
        variables = {**self.environ, **per_run, **(environ or {})}
        run = Play(lab=self, ident=ident, data=data, scratch=scratch)
        if warm:
            run.id = self._send_run(ident, argv=argv, environ=variables, complaints=complaints)
        else:
            with complaints.open("ab") as errors:
                run.process = subprocess.Popen(
                    argv,
                    env=variables,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                    preexec_fn=_in_the_background,  # noqa: PLW1509 - no threads
                )
            run.pid = run.process.pid
        yield run
        assert run.is_over, "each test waits for its runs"

    def _send_run(self, ident: str, *, argv: list[str], environ: Mapping[str, str], complaints: Path) -> int:
        self._runs += 1
        run = Run(
            id=self._runs, ident=ident, argv=argv, environ=environ, cwd=str(self.folder), complaints=str(complaints)
        )
        self.near.sendall(encode(run))
        return self._runs

    def next(self, *kinds: type[Message]) -> Message:
        """Return the server's next message of one of *kinds*."""
        while True:
            while (message := self._inbox.next()) is None:
                data = self.near.recv(65536)
                assert data, f"the server is gone; notes: {self.notes}"
                self._inbox.feed(data)
            if isinstance(message, Note):
                self.notes.append(message)
            if isinstance(message, kinds):
                return message


@dataclass(kw_only=True)
class Play:
    """A run under way."""

    lab: Lab
    ident: str
    data: Path
    scratch: Path
    process: subprocess.Popen[bytes] | None = None
    id: int = 0
    pid: int = 0
    is_over: bool = False

    def of_runner(self) -> int:
        """Return the process id of its ansible-runner."""
        if not self.pid:
            self.pid = cast("Started", self.lab.next(Started)).pid
        return self.pid

    def wait(self) -> int:
        """Wait for its end; return the exit code, negative for a signal."""
        if self.process is not None:
            code = self.process.wait(HUNG)
        else:
            ended = self.lab.next(Ended, Refused)
            assert isinstance(ended, Ended), ended
            code = ended.code
        self.is_over = True
        return code

    def left(self, code: int) -> Left:
        """Return what it left."""
        artifacts = self.data / "artifacts" / self.ident

        def told(text: str) -> str:
            return text.replace(self.ident, "IDENT").replace(str(self.scratch), "SCRATCH")

        def read(name: str) -> str:
            return told((artifacts / name).read_text()) if (artifacts / name).exists() else "(none)"

        events = [path for path in (artifacts / "job_events").glob("*.json") if "partial" not in path.name]
        paths = sorted(events, key=lambda path: int(path.name.split("-")[0]))
        local = self.scratch / "local"
        return Left(
            code=code,
            stdout=read("stdout"),
            status=read("status"),
            rc=read("rc"),
            events=[_steady(json.loads(told(path.read_text()))) for path in paths],
            files={
                _steady_name(path.relative_to(artifacts)): oct(path.stat().st_mode) for path in artifacts.rglob("*")
            },
            command=json.loads(read("command")),
            complaint=told((self.scratch / "complaints").read_text()),
            local=sorted(path.name[:14] for path in local.iterdir()) if local.exists() else [],
        )


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _steady(item) for key, item in value.items() if key not in _VOLATILE}
    if isinstance(value, list):
        return [_steady(item) for item in value]
    return value


def _steady_name(path: Path) -> str:
    return re.sub(r"(\d+-)?[0-9a-f-]{36}(-partial)?\.json", r"\1\2.json", str(path))


def _private_data_dir(data: Path) -> Path:
    if not data.exists():
        for name in ("env", "project", "inventory", "artifacts"):
            (data / name).mkdir(parents=True, mode=0o700)
        (data / "env/extravars").write_text("{}")
        (data / "env/settings").write_text('{"pexpect_timeout": 1}')
        (data / "env/envvars").write_text(json.dumps({"KUBECONFIG": "/nowhere", "K8S_AUTH_KUBECONFIG": "/nowhere"}))
        (data / "inventory/hosts").write_text(_HOSTS)
    return data


@contextlib.contextmanager
def lab(python: str, *, folder: Path, **more: str) -> Iterator[Lab]:
    """Give a lab on the interpreter *python*, with *more* variables; its server is stopped afterwards."""
    inherited = {name: value for name, value in environment().items() if not name.startswith(("ANSIBLE_", "VIRTUAL_"))}
    environ = {
        **inherited,
        "PATH": f"{Path(python).parent}:{inherited.get('PATH', '')}",
        "ANSIBLE_COLLECTIONS_PATH": str(PROGRAM.parents[4] / "runner/collections"),
        **more,
    }
    scratch = folder / "server"
    scratch.mkdir(mode=0o700)
    near, far = socket.socketpair()
    near.settimeout(HUNG)
    with near, far:
        process = subprocess.Popen(
            [python, "-P", str(PROGRAM), "--fd", str(far.fileno())],
            pass_fds=[far.fileno()],
            env={**environ, "ANSIBLE_OPERATOR_RUN": "0" * 19},
            cwd=folder,
            start_new_session=True,
            preexec_fn=_in_the_background,  # noqa: PLW1509 - no threads
        )
        far.close()
        made = Lab(folder=folder, python=python, process=process, near=near, environ=environ)
        try:
            near.sendall(encode(Start(scratch=str(scratch))))
            made.next(Ready)
            yield made
        finally:
            near.close()
            _end(process)


def _in_the_background() -> None:
    """Ignore what a shell has ignored by what it starts with `&`, as an entry point may start the operator."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the server's own end, which that of its connection is the sign for."""
    try:
        process.wait(HUNG)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
