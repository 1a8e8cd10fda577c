"""The fork server as the operator starts it, with the real Ansible: it gets ready, plays, ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import TypeVar

import pytest

from runner.execution.warm.far import marking
from runner.execution.warm.far.protocol import Drain, Ended, Inbox, Message, Note, Ready, Run, Start, encode
from runner.settings import environment
from tests.integration.environments.interpreters import CORES, interpreter_of

PROGRAM = Path(__file__).parents[3] / "runner" / "execution" / "warm" / "far" / "__main__.py"
HUNG = 300.0
HOSTS = "localhost ansible_connection=local ansible_python_interpreter={{ansible_playbook_python}}"
Kind = TypeVar("Kind", bound=Message)


class Served:
    """A fork server, and a folder for what it plays."""

    def __init__(self, process: asyncio.subprocess.Process, *, near: socket.socket, python: str, folder: Path) -> None:
        """Own *process*; *near* is this end of its socket."""
        self.process = process
        self.python = python
        self.folder = folder
        self._near = near
        self._inbox = Inbox()
        self.notes: list[Note] = []
        self._runs = 0

    async def send(self, message: Message) -> None:
        """Send *message*."""
        await asyncio.get_running_loop().sock_sendall(self._near, encode(message))

    async def next(self, kind: type[Kind]) -> Kind:
        """Return the next message of *kind*."""
        async with asyncio.timeout(HUNG):
            while True:
                while (message := self._inbox.next()) is None:
                    data = await asyncio.get_running_loop().sock_recv(self._near, 65536)
                    assert data, f"the server is gone; notes: {self.notes}"
                    self._inbox.feed(data)
                if isinstance(message, Note):
                    self.notes.append(message)
                if isinstance(message, kind):
                    return message

    async def play(self, tasks: str, **variables: str) -> tuple[int, Path]:
        """Play *tasks* with further *variables*; return the exit code and the folder of artifacts."""
        self._runs += 1
        folder, scratch, ident = self.folder / f"run{self._runs}", self.folder / f"scratch{self._runs}", str(self._runs)
        for path in (*(folder / name for name in ("env", "project", "artifacts", "inventory")), scratch / "tmp"):
            path.mkdir(parents=True, exist_ok=True)
        (folder / "inventory/hosts").write_text(HOSTS)
        (folder / "env/settings").write_text(json.dumps({"pexpect_timeout": 1}))
        playbook = folder / "project/play.yml"
        playbook.write_text(f"- hosts: localhost\n  gather_facts: false\n  tasks:\n{tasks}")
        (scratch / "err").touch()
        run = f"{shlex.quote(str(folder))} --rotate-artifacts 0 -p {shlex.quote(str(playbook))} -i {ident}"
        own = {marking.VARIABLE: ident, "TMPDIR": str(scratch / "tmp"), "ANSIBLE_LOCAL_TEMP": str(scratch / "local")}
        await self.send(
            Run(
                id=self._runs,
                ident=ident,
                argv=[self.python, "-P", "-m", "ansible_runner", "run", *shlex.split(run)],
                environ={**_environ(self.python, scratch=self.folder), **own, **variables},
                cwd=str(self.folder),
                complaints=str(scratch / "err"),
            )
        )
        ended = await self.next(Ended)
        assert (scratch / "err").read_text() == ""
        return ended.code, folder / "artifacts" / ident

    def go(self) -> None:
        """Be gone."""
        self._near.close()


def _environ(python: str, *, scratch: Path) -> dict[str, str]:
    given = {name: value for name, value in environment().items() if not name.startswith("ANSIBLE_")}
    path = os.pathsep.join([str(Path(python).parent), given.get("PATH", os.defpath)])
    return {**given, "PATH": path, "TMPDIR": str(scratch), marking.VARIABLE: marking.ROOM}


@contextlib.asynccontextmanager
async def _serving(
    python: str, *, folder: Path, playbooks: Sequence[Path] = (), **environ: str
) -> AsyncIterator[Served]:
    near, far = socket.socketpair()
    near.setblocking(False)  # noqa: FBT003 - its only way
    with far:
        process = await asyncio.create_subprocess_exec(
            *(python, "-P", str(PROGRAM), "--fd", str(far.fileno())),
            env={**_environ(python, scratch=folder), **environ},
            pass_fds=[far.fileno()],
        )
    server = Served(process, near=near, python=python, folder=folder)
    try:
        await server.send(Start(scratch=str(folder), playbooks=[str(path) for path in playbooks]))
        yield server
    finally:
        server.go()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), HUNG)
        if process.returncode is None:
            process.kill()


@pytest.fixture(params=CORES)
def python(request: pytest.FixtureRequest) -> str:
    """Return each interpreter that has Ansible."""
    return interpreter_of(request.param)


async def test_server_plays_and_drains(python: str, tmp_path: Path) -> None:
    """The server gets ready without an error, plays playbooks with their exit codes and artifacts, and drains."""
    async with _serving(python, folder=tmp_path) as server:
        ready = await server.next(Ready)
        assert ready.core.split(".")[0] == "2"
        assert ready.pid == server.process.pid
        code, artifacts = await server.play("  - debug: {msg: a greeting}\n  - command: echo out\n")
        assert code == 0
        assert (artifacts / "rc").read_text() == "0"
        assert (artifacts / "status").read_text() == "successful"
        assert "a greeting" in (artifacts / "stdout").read_text()
        code, artifacts = await server.play("  - fail: {msg: on purpose}\n")
        assert code == 2
        assert (artifacts / "status").read_text() == "failed"
        assert [note for note in server.notes if note.level != "debug"] == []
        await server.send(Drain())
        assert await asyncio.wait_for(server.process.wait(), HUNG) == 0


async def test_module_finds_nothing_of_the_fork_server(tmp_path: Path) -> None:
    """A module beside the playbook sees neither the server's package in its path nor descriptors beside its own."""
    folder = tmp_path / "run1/project/library"
    folder.mkdir(parents=True)
    (folder / "look.py").write_text(
        dedent("""
        import os, sys
        from ansible.module_utils.basic import AnsibleModule
        opened = sorted(int(name) for name in os.listdir("/proc/self/fd"))
        AnsibleModule({}).exit_json(path=sys.path, descriptors=opened)
        """)
    )
    async with _serving(interpreter_of("2.19"), folder=tmp_path) as server:
        await server.next(Ready)
        code, artifacts = await server.play("  - look:\n    register: seen\n  - debug: {var: seen}\n")
        assert code == 0
        events = [json.loads(path.read_text()) for path in (artifacts / "job_events").iterdir()]
        (seen,) = [
            event["event_data"]["res"]
            for event in events
            if event["event"] == "runner_on_ok" and event["event_data"]["task_action"] == "look"
        ]
        assert not [path for path in seen["path"] if "execution/warm" in path]
        assert seen["descriptors"] == [0, 1, 2, 3]  # the last one reads the folder


async def test_plays_are_forked_without_the_libraries_of_modules(tmp_path: Path) -> None:
    """What modules import is loaded where modules are forked, what a lookup imports where plays are, and no more."""
    folder = tmp_path / "run1/project"
    looks = "import sys\nLOADED = sorted({'yaml', 'kubernetes', 'boto3'} & sys.modules.keys())\n"
    of_module = "from ansible.module_utils.basic import AnsibleModule\nAnsibleModule({}).exit_json(loaded=LOADED)\n"
    late = "def needs():\n    import kubernetes\n"
    of_lookup = (
        "from ansible.plugins.lookup import LookupBase\nclass LookupModule(LookupBase):\n"
        "    def run(self, *a, **k):\n        return [LOADED]\n"
    )
    collection = tmp_path / "collections/ansible_collections/acme/tools/plugins/lookup/needy.py"
    for path, text in (
        (folder / "library/look.py", looks + late + of_module),
        (folder / "lookup_plugins/loaded.py", looks + of_lookup),
        (collection, "def needs():\n    import boto3\n"),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    tasks = (
        "  - look:\n  - debug: {msg: \"{{ lookup('loaded') }}\"}\n"
        "  - debug: {msg: \"{{ lookup('acme.tools.needy') }}\"}\n    when: false\n"
    )
    (folder / "play.yml").write_text(f"- hosts: localhost\n  gather_facts: false\n  tasks:\n{tasks}")
    environ = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections")}
    async with _serving(interpreter_of("2.19"), folder=tmp_path, playbooks=[folder / "play.yml"], **environ) as server:
        await server.next(Ready)
        code, artifacts = await server.play(tasks, **environ)
    assert code == 0
    events = [json.loads(path.read_text()) for path in (artifacts / "job_events").iterdir()]
    results = [event["event_data"]["res"] for event in events if event["event"] == "runner_on_ok"]
    (of_a_module,) = [result["loaded"] for result in results if "loaded" in result]
    (of_a_play,) = [result["msg"] for result in results if "msg" in result]
    assert "kubernetes" in of_a_module
    assert of_a_play == ["boto3", "yaml"]


async def test_run_that_goes_the_ordinary_way_says_why(tmp_path: Path) -> None:
    """A run with another setting of Ansible than the server is started cold, and the log is told which one it is."""
    async with _serving(interpreter_of("2.19"), folder=tmp_path) as server:
        await server.next(Ready)
        code, artifacts = await server.play("  - debug: {msg: a greeting}\n", ANSIBLE_NOCOLOR="true")
        assert code == 0
        assert "a greeting" in (artifacts / "stdout").read_text()
        server.go()
        assert await asyncio.wait_for(server.process.wait(), HUNG) == 0
    (note,) = [note for note in server.notes if note.level == "info"]
    assert note.run == 1
    assert "ANSIBLE_NOCOLOR" in note.fields["reason"]


@pytest.mark.parametrize("arguments", [[], ["--fd"], ["--fd", "x"], ["--fd", "3", "more"]])
async def test_person_who_starts_the_program_is_told_that_the_operator_does(arguments: list[str]) -> None:
    """Without the number of a descriptor the program prints its usage and exits with 2."""
    process = await asyncio.create_subprocess_exec(
        *(interpreter_of("2.19"), "-P", str(PROGRAM), *arguments), stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    assert process.returncode == 2
    assert err.startswith(b"usage: ")


@pytest.mark.parametrize("options", [["-P"], []])
async def test_operator_that_is_gone_at_once_leaves_no_server(options: list[str], tmp_path: Path) -> None:
    """A server whose operator goes before it says anything exits with 0, started with -P or without."""
    python = interpreter_of("2.19")
    near, far = socket.socketpair()
    with near, far:
        process = await asyncio.create_subprocess_exec(
            *(python, *options, str(PROGRAM), "--fd", str(far.fileno())),
            env=_environ(python, scratch=tmp_path),
            pass_fds=[far.fileno()],
        )
    assert await asyncio.wait_for(process.wait(), HUNG) == 0
