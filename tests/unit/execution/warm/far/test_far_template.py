"""Templates of payloads: who gets one, what rules one out, when it ends, and that its modules are as any others."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.execution.warm.far import module_client, template
from runner.execution.warm.far.template import Template, Templates, archive_of
from tests.unit.execution.warm.far.far_payloads import PARENT, UNPACKS, payload
from tests.unit.execution.warm.test_warm_module_server import Served, holds, served

TELLS = "telling.tell = lambda message, *, reason: print(reason, file=open({path!r}, 'a'))"
LIMIT = 30.0
REFUSALS = {
    "a thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
        "thread",
    ),
    "a process": ("import os\nos.system('true')", "os.system"),
    "all variables": ("import os\nALL = dict(os.environ)", "read all variables"),
    "a file": ("TEXT = open('/etc/hostname').read()", "open /etc/hostname"),
    "whether a file is there": ("import os\nTHERE = os.path.exists('/etc/hostname')", "stat"),
    "the clock": ("import time\ndef now():\n    return time.time()\nNOW = now()", "time"),
    "the process": ("import os\nPID = os.getpid()", "getpid"),
    "its place": ("PLACE = [__file__]", "__file__"),
    "the main module": ("from __main__ import __doc__", "__main__"),
    "arguments": ("import sys\nARGUMENTS = [sys.argv]", "argv"),
    "standard output": ("print('hello')", "print"),
    "a descriptor": ("import os\nPIPE = os.pipe()", "descriptors"),
    "an exit handler": ("import atexit\natexit.register(id, 1)", "exit handlers"),
    "a variable": ("import os\nos.environ['SET_AT_IMPORT'] = '1'", "variables"),
    "a signal": ("import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)", "signal handlers"),
    "the collector": ("import gc\ngc.disable()", "collector"),
    "an error": ("raise ValueError('a secret')", "fail with ValueError"),
    "its end": ("import os\nos._exit(0)", "ended while"),
}


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Where the log's reasons are written."""
    path = tmp_path / "told"
    path.touch()
    return path


@pytest.fixture
def server(tmp_path: Path, told: Path) -> Iterator[Served]:
    """A module server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANSIBLE_OPERATOR_TEMPLATES", "1")  # they are off unless asked for
        with served(tmp_path, before=TELLS.format(path=str(told))) as server:
            yield server


def parent(server: Served, source: str) -> int:
    """Run a module that tells its parent, and return that."""
    ended = server.run(source)
    assert ended.code == 0, ended
    return int(ended.stdout.split()[0])


def from_template(server: Served, source: str) -> int:
    """Run modules with *source* until one has another parent than the server; return that."""
    until = time.monotonic() + LIMIT
    while (found := parent(server, source)) == server.pid:
        assert time.monotonic() < until, "there is no template"
        time.sleep(0.05)
    return found


def test_the_first_two_modules_of_a_payload_are_not_forked_from_a_template(server: Served) -> None:
    """A payload that comes once costs nothing more, and one that comes again is worth a process."""
    source = payload()
    assert parent(server, source) == server.pid
    assert server.children() == []
    assert parent(server, source) == server.pid
    holds("children() != []", values={"children": server.children})
    assert from_template(server, source) == int(server.children()[0])


def test_a_module_of_a_template_imports_from_its_own_zip(server: Served) -> None:
    """Names of files, `__main__` and values are those of the module, of whose template nothing shows."""
    then = f"{PARENT}{UNPACKS}import ansible.module_utils.basic as b, __main__ as m\n"
    then += (
        "print(b.__file__ == path + '/ansible/module_utils/basic.py', b.where() == b.__file__, b.__main__ is m, b.IDS)"
    )
    utility = "import sys, __main__\nIDS = []\ndef where():\n    return where.__code__.co_filename\nVALUE = 1\n"
    source = payload(utility, then=then)
    from_template(server, source)
    assert server.run(source).stdout.split()[1:] == [b"True", b"True", b"True", b"[]"]


def test_what_a_module_does_before_an_import_is_felt_by_that_import(server: Served) -> None:
    """A utility that is imported after a call finds what the call did."""
    module = "from ansible.module_utils.basic import VALUE\nimport os\nos.environ.setdefault('MODE', 'x')\n"
    module += "from ansible.module_utils.extra import MODE\n"
    then = f"{PARENT}{UNPACKS}os.environ.setdefault('MODE', 'x')\nimport ansible.module_utils.extra as e; print(e.MODE)"
    source = payload(then=then, module=module, extra="import os\nMODE = os.environ.get('MODE')\n")
    from_template(server, source)
    assert server.run(source).stdout.split()[1] == b"x"


def test_a_module_of_a_template_has_the_mark_and_the_variables_of_its_run(server: Served) -> None:
    """It is found by its run's ident, and its environment is its request's, not the template's."""
    then = (
        f"{PARENT}; print(open('/proc/self/environ').read().count('ANSIBLE_OPERATOR_RUN=7\\0'), os.environ.get('OF'))"
    )
    source = payload(then=then)
    from_template(server, source)
    request = server.request(source)
    ended = module_client.run(
        request.with_environ({**request.environ, "OF": "second"}), address=str(server.folder / "modules.socket")
    )
    assert ended.stdout.split()[1:] == [b"1", b"second"]
    assert int(ended.stdout.split()[0]) != server.pid


@pytest.mark.parametrize("what", REFUSALS)
def test_a_payload_whose_imports_do_or_take_more_has_no_template(server: Served, told: Path, what: str) -> None:
    """Its modules are forked from the server, the log says why, and nothing secret."""
    source, reason = REFUSALS[what]
    source = payload(f"{source}\nVALUE = 1\n")
    for _ in range(2):
        assert parent(server, source) == server.pid
    holds("told.read_text()", values={"told": told})
    assert reason in told.read_text(encoding="utf-8")
    assert "secret" not in told.read_text(encoding="utf-8")
    holds("children() == []", values={"children": server.children})
    assert parent(server, source) == server.pid


def test_only_a_module_with_the_variables_that_were_read_is_forked_from_the_template(server: Served) -> None:
    """Where a variable differs that the imports read, the module imports for itself."""
    source = payload("import os\nVALUE = os.environ.get('MODE')\n", then=f"{PARENT}{UNPACKS}"
                     "import ansible.module_utils.basic as b; print(b.VALUE)")  # fmt: skip
    assert from_template(server, source) != server.pid
    request = server.request(source)
    ended = module_client.run(
        replace(request, environ={**request.environ, "MODE": "other"}), address=str(server.folder / "modules.socket")
    )
    assert ended.stdout.split() == [str(server.pid).encode(), b"other"]
    assert parent(server, source) != server.pid


def test_a_template_that_dies_is_told_and_modules_go_on(server: Served, told: Path) -> None:
    """After a template was killed the server forks the modules of its payload again."""
    source = payload()
    os.kill(from_template(server, source), signal.SIGKILL)
    holds("told.read_text()", values={"told": told})
    assert "it ended unexpectedly" in told.read_text(encoding="utf-8")
    assert parent(server, source) == server.pid


def test_templates_end_with_their_server(server: Served) -> None:
    """A server that is killed leaves no template behind."""
    found = from_template(server, payload())
    os.kill(server.pid, signal.SIGKILL)
    holds("not exists(path)", values={"exists": os.path.exists, "path": f"/proc/{found}/fd/0"})


def _wanted(templates: Templates, source: bytes) -> bytes | None:
    templates.wants(source)
    return templates.wants(source)


@pytest.fixture
def templates() -> Iterator[tuple[Templates, list[bytes], list[Template]]]:
    """As many as are kept, that read MODE, and payloads of those and one more."""
    kept = Templates(enabled=True)
    sources = [payload(f"VALUE = {number}\n").encode() for number in range(template.KEPT + 1)]
    made: list[Template] = []
    for source in sources[:-1]:
        archive = _wanted(kept, source)
        assert archive is not None
        made.append(Template(pid=0, control=socket.socket(), reads={"MODE": "x"}))
        kept.add(archive, made[-1])
    yield kept, sources, made
    for one in made:
        one.control.close()


def test_no_more_templates_stand_than_are_kept(templates: tuple[Templates, list[bytes], list[Template]]) -> None:
    """One payload more gets none while the others are used, and gets one when the least used has ended."""
    kept, sources, made = templates
    assert _wanted(kept, sources[-1]) is None
    assert kept.leaving() == []
    made[0].used -= template.UNUSED
    assert kept.wait() == 0.0
    assert kept.leaving() == made[:1]
    assert _wanted(kept, sources[-1]) == archive_of(sources[-1])


def test_a_template_that_is_used_stays(templates: tuple[Templates, list[bytes], list[Template]]) -> None:
    """What is counted is the time since its last module."""
    kept, sources, made = templates
    made[0].used -= template.UNUSED
    assert kept.find(sources[0], environ={"MODE": "x"}) is made[0]
    assert kept.leaving() == []


def test_a_template_that_is_of_no_use_ends(templates: tuple[Templates, list[bytes], list[Template]]) -> None:
    """Where each module has other variables, none of them waits for the next one in vain."""
    kept, sources, made = templates
    for value in ("a", "b", "c"):
        assert kept.leaving() == []
        assert kept.find(sources[0], environ={"MODE": value}) is None
    assert kept.leaving() == made[:1]
    assert _wanted(kept, sources[0]) is None
