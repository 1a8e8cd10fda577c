"""A forked playbook can't be told from one that was started: what it finds, what it leaves, how it ends.

Each test runs on both supported ansible-cores, and plays the same content cold and then warm.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.environments.interpreters import CORES, interpreter_of
from tests.integration.execution.runner_output import whole
from tests.integration.execution.warm_lab import HUNG, SURROUNDINGS, Lab, Left, lab

LOUD = "colour, a wide line and a warning"
CONNECTION = """
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase
DOCUMENTATION = "name: gone\\nshort_description: unreachable\\ndescription: unreachable\\noptions: {}"
class Connection(ConnectionBase):
    transport = "gone"
    has_pipelining = False
    def _connect(self):
        raise AnsibleConnectionFailure("nobody there")
    exec_command = put_file = fetch_file = close = lambda self, *a, **k: self._connect()
"""
ACTION = """
from ansible.plugins.action import ActionBase
class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {"msg": "the one beside", "changed": False}
"""
LOOKUP = """
import os, signal
from ansible.plugins.lookup import LookupBase
class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        os.kill(int(terms[0]) or os.getppid(), getattr(signal, terms[1]))
        return ["sent"]
"""
CALLBACK = """
import sys
from ansible.plugins.callback import CallbackBase
class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "leaver"
    def v2_playbook_on_start(self, playbook):
        BODY
"""


@pytest.fixture(scope="module", params=CORES)
def core(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Give a lab on one ansible-core."""
    folder = tmp_path_factory.mktemp("warm")
    with lab(interpreter_of(request.param), folder=folder, SURROUNDINGS=str(folder / "seen.json")) as made:
        yield made


def play(*tasks: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Return a playbook of *tasks* on localhost."""
    return [{"hosts": "localhost", "gather_facts": False, "tasks": list(tasks), **more}]


def assert_same(cold: Left, warm: Left) -> None:
    """Compare part by part, so that a difference is readable."""
    for one, other in zip(warm.events, cold.events, strict=False):
        assert one == other
    for part in dataclasses.fields(Left):
        if part.name != "stdout":
            assert getattr(warm, part.name) == getattr(cold, part.name), part.name
    assert _stdout(warm) == _stdout(cold)


def _stdout(left: Left) -> str:
    return whole(left.stdout, events=left.events)


def assert_forked(core: Lab) -> None:
    """Make sure that a run is warm at all: its ansible-playbook is of the server's program, not of its own."""
    slow = core.content(play({"wait_for": {"path": str(core.folder / "go")}}), name=f"forked-{time.monotonic_ns()}")
    with core.started(slow, warm=True) as run:
        child = _awaited(lambda: _children_named(run.of_runner(), "ansible-playboo"))
        command = Path(f"/proc/{child[0]}/cmdline").read_bytes()
        (core.folder / "go").touch()
        code = run.wait()
    (core.folder / "go").unlink()
    assert code == 0
    assert b"--fd" in command


def test_warm_playbook_finds_the_same_around_itself(core: Lab) -> None:
    """Folder, variables, signals, limits, terminal, descriptors, Python's and Ansible's settings are as if started."""
    plugins = {"callback_plugins/surroundings.py": SURROUNDINGS.read_text()}
    playbook = core.content(play({"debug": {"msg": "seen"}}), name="surroundings", plugins=plugins)
    seen = []
    for warm in (False, True):
        assert core.run(playbook, warm=warm).code == 0
        seen.append(json.loads((core.folder / "seen.json").read_text()))
    for part in seen[0]:
        assert seen[1][part] == seen[0][part], part
    assert seen[1]["marked"]
    assert_forked(core)


def test_warm_playbook_leaves_the_same_artifacts(core: Lab) -> None:
    """Output with its colours, events, files and their modes, the command and its variables are the same."""
    tasks = (
        {"debug": {"msg": LOUD}},
        {"debug": {"msg": "{{ [ansible_playbook_python, ansible_version.full, ansible_config_file | string] }}"}},
        {"debug": {"msg": "{{ [playbook_dir, lookup('env', 'KUBECONFIG'), lookup('pipe', 'pwd; umask')] }}"}},
        {"command": {"cmd": "sh -c 'pwd; umask; tty; echo $KUBECONFIG'"}, "failed_when": False},
        {"set_fact": {"one": 1}, "loop": [1, 2]},
        {"include_tasks": "more.yml"},
        {"debug": {"msg": "{{ missing_one }}"}, "ignore_errors": True},
        {"copy": {"src": "source.txt", "dest": "{{ playbook_dir }}/made", "mode": "0640"}, "notify": "handler"},
        {"file": {"path": "{{ playbook_dir }}/made", "state": "absent"}},
    )
    handlers = [{"name": "handler", "debug": {"msg": "handled"}}]
    more = {"source.txt": "x", "more.yml": "- debug: {msg: \"{{ q('sequence', 'count=2') }}\"}"}
    playbook = core.content(play(*tasks, handlers=handlers), name="artifacts", plugins=more)
    for verbosity in ((), ("-vvvv",)):
        cold, warm = core.both(playbook, more=verbosity)
        assert cold.code == 0
        assert_same(_without_times(cold), _without_times(warm))


@pytest.mark.parametrize(
    ("name", "plays", "code"),
    [
        ("fails", play({"fail": {"msg": "no"}}), 2),
        ("is-unreachable", play({"ping": None, "vars": {"ansible_connection": "gone"}}), 4),
        ("is-no-yaml", "- hosts: [", 4),
        ("names-no-module", play({"no_such_module": None}), 4),
        ("is-empty", "", 4),
    ],
)
def test_warm_playbook_that_fails_ends_as_cold(core: Lab, name: str, plays: object, code: int) -> None:
    """The exit code of each kind of failure is ansible-playbook's, and so is all that is left."""
    plugins = {"connection_plugins/gone.py": CONNECTION}
    cold, warm = core.both(core.content(plays, name=name, plugins=plugins))
    assert cold.code == code
    assert_same(cold, warm)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("exits", "sys.exit(77)"),
        ("raises", "raise BaseException('out of here')"),
        ("interrupts", "raise KeyboardInterrupt"),
        ("ends", "import os; os._exit(3)"),
        ("is-killed", "import os; os.kill(os.getpid(), 9)"),
        ("is-ended", "import os; os.kill(os.getpid(), 15)"),
        ("leaves-words", "import atexit; atexit.register(print, 'last words'); sys.exit('words')"),
        ("closes", "import os; os.close(1); os.close(2)"),
    ],
)
def test_warm_playbook_whose_process_misbehaves_ends_as_cold(core: Lab, name: str, body: str) -> None:
    """A process that leaves early, by whatever way, is seen as one that was started; the next run is clean."""
    plugins = {"callback_plugins/leaver.py": CALLBACK.replace("BODY", body)}
    cold, warm = core.both(core.content(play({"debug": None}), name=f"process-{name}", plugins=plugins))
    assert_same(cold, warm)
    after = core.content(play({"debug": {"msg": "clean"}}), name=f"after-{name}")
    assert_same(*core.both(after))


def test_warm_playbook_is_interrupted_as_cold(core: Lab) -> None:
    """An ansible-runner that is asked to end ends its playbook, and says `canceled`."""
    ended = []
    for warm in (False, True):
        playbook = core.content(
            play({"debug": {"msg": "begun"}}, {"wait_for": {"path": "/never", "timeout": int(HUNG)}}),
            name=f"interrupted-{warm}",
        )
        with core.started(playbook, warm=warm) as run:
            stdout = run.data / "artifacts" / run.ident / "stdout"
            _awaited(lambda stdout=stdout: stdout.exists() and "wait_for" in stdout.read_text())  # type: ignore[misc]
            os.kill(run.of_runner(), signal.SIGTERM)
            code = run.wait()
        ended.append(run.left(code))
    assert (ended[0].status, ended[0].code) == ("canceled", 254)
    assert (ended[1].status, ended[1].code, ended[1].rc) == (ended[0].status, ended[0].code, ended[0].rc)
    assert ended[1].stdout == ended[0].stdout


def test_warm_playbook_finds_plugins_beside_it_first(core: Lab) -> None:
    """A plugin beside the playbook stands in for Ansible's own, also where the server had loaded that one."""
    plugins = {"action_plugins/debug.py": ACTION, "filter_plugins/core.py": _FILTER}
    playbook = core.content(play({"debug": {"msg": "{{ 'x' | beside }}"}}), name="beside", plugins=plugins)
    cold, warm = core.both(playbook)
    assert cold.code == 0
    assert any(event.get("event_data", {}).get("res", {}).get("msg") == "the one beside" for event in cold.events)
    assert_same(cold, warm)


_FILTER = """
class FilterModule:
    def filters(self):
        return {"beside": lambda value: value * 2}
"""


def test_warm_playbook_with_modules_of_its_own_gets_no_payload_of_others(core: Lab) -> None:
    """A module of the same name, changed between two runs, is the changed one: nothing old is handed on."""
    for text in ("first", "second"):
        name = f"payload-{text}"
        module = f"import json\nprint(json.dumps(dict(changed=False, said='{text}')))\n"
        plugins = {"library/probe.py": f"#!/usr/bin/python\n# ansible.module_utils.basic\n{module}"}
        playbook = core.content(play({"probe": None}), name=name, plugins=plugins)
        cold, warm = core.both(playbook)
        assert cold.code == 0
        assert_same(cold, warm)
        assert any(event["event_data"].get("res", {}).get("said") == text for event in warm.events)


def test_warm_payloads_of_an_earlier_run_serve_the_next(core: Lab) -> None:
    """What a run built of Ansible's modules is there for the next run of the same content, and gives the same."""
    playbook = core.content(play({"stat": {"path": "/"}}), name="payloads")
    first, second = (core.run(playbook, warm=True) for _ in range(2))
    kept = list((core.folder / "server/payloads").rglob("ansible.modules.stat-*"))
    assert kept
    assert all(path.stat().st_nlink == 1 for path in kept)
    assert _stdout(_without_times(second)) == _stdout(_without_times(first))


@pytest.mark.parametrize("variable", ["ANSIBLE_NOCOLOR", "LANG", "SOMETHING_NEW"])
def test_warm_run_with_another_environment_is_started(core: Lab, variable: str) -> None:
    """A run whose variables are not the server's is really started, and so is what it is."""
    playbook = core.content(
        play({"debug": {"msg": f"{{{{ lookup('env', '{variable}') }}}}"}}), name=f"other-{variable}"
    )
    cold, warm = core.both(playbook, environ={variable: "C.UTF-8" if variable == "LANG" else "1"})
    assert cold.code == 0
    assert_same(cold, warm)


def _without_times(left: Left) -> Left:
    """Drop what differs between two cold runs of commands: times, temporary names, process ids in talk."""

    def steady(text: str) -> str:
        text = re.sub(r"ansible-(tmp|local)-[\w.-]+", r"ansible-\1", text)
        text = re.sub(r"\d+:\d\d:\d\d\.\d+|\d{4}-\d\d-\d\d|\d{10}\.\d+", "TIME", text)
        return re.sub(r"AnsiballZ_\w+\.py|tmp\w{8}", "FILE", text)

    return dataclasses.replace(
        left,
        stdout=steady(left.stdout),
        events=[_texts(_cut(event), change=steady) for event in left.events],
    )


def _texts(value: Any, *, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _texts(item, change=change) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts(item, change=change) for item in value]
    return change(value) if isinstance(value, str) else value


def _cut(event: dict[str, Any]) -> dict[str, Any]:
    result = event.get("event_data", {}).get("res")
    for name in ("delta", "atime", "mtime", "ctime", "inode"):
        if isinstance(result, dict):
            result.pop(name, None)
    return event


def _awaited(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + HUNG
    while not (found := condition()):
        assert time.monotonic() < deadline, "hung"
        time.sleep(0.02)
    return found


def _children_named(parent: int, name: str) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            rest = stat.read_text()
        except OSError:
            continue
        if f"({name})" in rest and int(rest.rpartition(")")[2].split()[1]) == parent:
            found.append(int(stat.parent.name))
    return found
