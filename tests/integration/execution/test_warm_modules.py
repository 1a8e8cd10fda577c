"""Modules in a fork of the module server, and started as Ansible starts them: the results can't be told apart."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from runner.settings import environment
from tests.integration.environments.interpreters import CORES, interpreter_of

DRIVER = Path(__file__).parent / "scripts" / "play_with_module_server.py"
LIMIT = 420
"""Seconds; more means that it hangs: forty modules are started, on a machine that may have other things to do. The time
for one test must do for two such plays."""

BEHAVIOURS = {
    "succeeds": "module.exit_json(changed=True)",
    "fails": "module.fail_json(msg='no', rc=3)",
    "fails with a traceback": "try:\n    inner()\nexcept ValueError as e:\n"
    "    module.fail_json(msg=str(e), exception=format_exc())",
    "warns": "warnings.warn('careful'); module.warn('w'); module.deprecate('old', version='9', collection_name='a.b')\n"
    "module.exit_json()",
    "crashes": "inner()",
    "crashes again": "try:\n    inner()\nexcept ValueError as e:\n    raise RuntimeError('later') from e",
    "crashes in a thread": "t = threading.Thread(target=inner, name='T'); t.start(); t.join()\n"
    "print('{}'); sys.exit(0)",
    "prints garbage": "sys.stdout.buffer.write(b'some \\xff garbage\\n{\"half\": '); sys.exit(0)",
    "prints garbage around": "print('before'); print('{\"changed\": true}'); print('after'); sys.exit(0)",
    "prints to standard error": "sys.stderr.write('words\\n'); print('{\"changed\": true}'); sys.exit(0)",
    "prints nothing": "sys.exit(0)",
    "never exits": "pass",
    "exits with a text": "sys.exit('a reason')",
    "exits with a large number": "sys.exit(300)",
    "exits early": "print('{\"x\": 1}'); sys.stdout.flush(); os._exit(7)",
    "exits before it flushes": "print('{}'); os._exit(0)",
    "kills itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "ends itself": "os.kill(os.getpid(), signal.SIGTERM)",
    "interrupts itself": "os.kill(os.getpid(), signal.SIGINT)",
    "breaks its memory": "os.kill(os.getpid(), signal.SIGSEGV)",
    "has an exit handler": 'atexit.register(print, \'{"from": "atexit"}\'); sys.exit(0)',
    "has a thread": 'threading.Thread(target=print, args=(\'{"from": "thread"}\',)).start(); sys.exit(0)',
    "has a daemon that speaks": "subprocess.Popen(['sh', '-c', 'sleep 0.3; echo {}']); os._exit(0)",
    "closes its output": "os.close(1); sys.exit(0)",
    "opens a session": "os.setsid(); print('{\"changed\": true}'); sys.exit(0)",
    "opens a group": "os.setpgid(0, 0); print('{\"changed\": true}'); sys.exit(0)",
    "changes all it can": "os.chdir('/'); os.environ['LEAK'] = '1'; os.umask(0); json.dumps = 1\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('{\"changed\": true}'); sys.exit(0)",
    "leaks descriptors": "[os.open('/dev/null', 0) for _ in range(40)]; print('{\"changed\": true}'); sys.exit(0)",
}
HEAD = """
#!/usr/bin/python
import atexit, gc, json, os, resource, runpy, signal, stat, subprocess, sys, threading, warnings
from traceback import format_exc
from ansible.module_utils.basic import AnsibleModule
OPEN = sorted(os.readlink(f"/proc/self/fd/{n}").partition(":")[0] for n in "0123456789"
              if os.path.lexists(f"/proc/self/fd/{n}"))
def inner():
    raise ValueError("bad")
""".lstrip()
LOOK = """
module = AnsibleModule(argument_spec={})
main = sys.modules["__main__"]
try:
    module.exit_json(
        open=OPEN, environ=list(os.environ.items()), cwd=os.getcwd(), umask=os.umask(0),
        argv=sys.argv, orig=sys.orig_argv,
        of_child=os.popen("env").read(), stdin=[repr(sys.stdin), sys.stdin.read()],
        outputs=[repr(sys.stdout), repr(sys.stderr), sys.stdout.errors, sys.stderr.errors],
        buffering=[sys.stdout.line_buffering, sys.stderr.line_buffering],
        signals={s.name: str(signal.getsignal(s)) for s in signal.Signals}, nice=os.nice(0),
        limits={n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
        main=sorted(vars(main)), file=__file__, package=__package__, spec=str(__spec__), loader=str(__loader__),
        path=sys.path, executable=sys.executable, hooks=[h.__class__.__name__ for h in sys.path_hooks],
        meta=[str(m) for m in sys.meta_path], tmpdir=module.tmpdir, there=sorted(os.listdir(module.tmpdir)),
        leader=[os.getpid() == os.getpgrp(), os.getpid() == os.getsid(0)], name=open("/proc/self/comm").read(),
        collector=[gc.isenabled(), gc.get_threshold()], filters=[str(f) for f in warnings.filters],
        threads=threading.active_count(), limit=sys.getrecursionlimit(),
        masks=[line for line in open("/proc/self/status") if line.startswith(("SigBlk", "SigIgn", "SigCgt", "Umask"))],
    )
except OSError as e:
    module.fail_json(msg=str(e))
"""
PARENT = """
module = AnsibleModule(argument_spec={})
module.exit_json(parent=open(f"/proc/{os.getppid()}/comm").read().strip())
"""
CALLBACK = """
import json, os
from ansible.plugins.callback import CallbackBase
class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "notification", "recorder"
    def _keep(self, result, ended):
        with open(os.environ["RECORD"], "a") as file:
            result_as_json = json.loads(self._dump_results(result._result))
            file.write(json.dumps([result._task.get_name(), ended, result_as_json]) + "\\n")
    def v2_runner_on_ok(self, result):
        self._keep(result, "ok")
    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._keep(result, "failed")
    def v2_runner_on_unreachable(self, result):
        self._keep(result, "unreachable")
"""
_TIMED = ("runs out of time", "is asynchronous")
VARYING = (
    (r"ansible-tmp-[\d.]+-\d+-\d+", "ansible-tmp-N"),
    (r"_payload_[a-z0-9_]{8}", "_payload_N"),
    (r"moduletmp-[\d.]+-\w{8}", "moduletmp-N"),
    (r"0x[0-9a-f]{8,}", "0xN"),
)


@dataclass(frozen=True, kw_only=True)
class Results:
    """What one play gave, by task, and all that it printed."""

    tasks: Mapping[str, Any]
    output: str


def _write_content(folder: Path) -> Path:
    library = folder / "library"
    library.mkdir()
    tasks: list[dict[str, Any]] = []

    def add(name: str, body: str, **keywords: Any) -> None:
        module = f"case_{len(tasks)}"
        if body:
            (library / f"{module}.py").write_text(f"{HEAD}if True:\n{indent(dedent(body), '    ')}\n")
        tasks.append({"name": name, module if body else name: {}, "ignore_errors": True, **keywords})

    for name, body in BEHAVIOURS.items():
        add(name, f"module = AnsibleModule(argument_spec={{}})\n{body}")
    add("looks around", LOOK)
    add("looks around with pipelining", LOOK, vars={"ansible_pipelining": True})
    add("crashes with pipelining", "inner()", vars={"ansible_pipelining": True})
    add("looks around with variables", LOOK, environment={"A": "b c"})
    add("is killed with variables", "os.kill(os.getpid(), signal.SIGKILL)", environment={"A": "b c"})
    add("knows its parent", PARENT)
    tasks.append({
        "name": "runs out of time",
        "ansible.builtin.command": "sleep 60",
        "timeout": 1,
        "ignore_errors": True,
    })
    tasks.append({"name": "prints variables", "ansible.builtin.command": "env"})
    tasks.append({"name": "is asynchronous", "case_0": {}, "async": LIMIT, "poll": 1})
    callbacks = folder / "callback_plugins"
    callbacks.mkdir()
    (callbacks / "recorder.py").write_text(CALLBACK)
    playbook = folder / "play.json.yml"
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    return playbook


def _played(mode: str, *, python: str, playbook: Path) -> Results:
    record = playbook.parent / "record"
    record.unlink(missing_ok=True)
    scratch = playbook.parent / mode
    scratch.mkdir()
    environ = {
        **environment(),
        "RECORD": str(record),
        "ANSIBLE_CALLBACKS_ENABLED": "recorder",
        "ANSIBLE_OPERATOR_RUN": "0" * 19,
        "ANSIBLE_NOCOLOR": "1",
        "PATH": f"{Path(python).parent}:{environment()['PATH']}",
    }
    inventory = f"localhost ansible_connection=local ansible_python_interpreter={python}"
    (playbook.parent / "hosts").write_text(inventory)
    command = [python, "-P", str(DRIVER), mode, str(scratch), str(playbook), "-i", "hosts", "-vvv"]
    ended = subprocess.run(
        command, env=environ, cwd=playbook.parent, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    tasks = {name: [end, result] for name, end, result in map(json.loads, _same(record.read_text()).splitlines())}
    return Results(tasks=tasks, output=_same(ended.stdout))


def _same(text: str) -> str:
    for pattern, constant in VARYING:
        text = re.sub(pattern, constant, text)
    return text


@pytest.fixture(scope="module", params=CORES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Results]:
    """The same play, cold and warm, on each ansible-core."""
    python = interpreter_of(request.param)
    playbook = _write_content(tmp_path_factory.mktemp("modules"))
    return _played("cold", python=python, playbook=playbook), _played("warm", python=python, playbook=playbook)


@pytest.mark.parametrize("behaviour", [*BEHAVIOURS, "crashes with pipelining", "is killed with variables"])
def test_whatever_a_module_does_its_result_is_the_same(both: tuple[Results, Results], behaviour: str) -> None:
    """A module that ends in any way gives the same result, warm and cold."""
    cold, warm = both
    assert warm.tasks[behaviour] == cold.tasks[behaviour]


@pytest.mark.parametrize(
    "look", ["looks around", "looks around with pipelining", "looks around with variables", "prints variables"]
)
def test_a_module_finds_itself_in_the_same_surroundings(both: tuple[Results, Results], look: str) -> None:
    """Descriptors, environment, folder, umask, limits, signals, arguments, streams and `__main__` are those of cold."""
    cold, warm = both
    for results in both:
        for varies in ("start", "end", "delta"):
            results.tasks[look][1].pop(varies, None)
    assert warm.tasks[look] == cold.tasks[look]
    assert cold.tasks[look][0] == "ok"


def test_a_module_is_forked_from_the_module_server(both: tuple[Results, Results]) -> None:
    """The parent of a warm module is the module server, that of a cold one a shell."""
    cold, warm = both
    assert cold.tasks["knows its parent"][1]["parent"] == "sh"
    assert warm.tasks["knows its parent"][1]["parent"] == "warm-modules"


def test_the_module_after_a_bad_one_is_clean(both: tuple[Results, Results]) -> None:
    """What an earlier module did to its process is nowhere to be seen in a later one's."""
    variables = dict(both[1].tasks["looks around"][1]["environ"])
    assert "LEAK" not in variables
    assert both[1].tasks["looks around"][1]["open"] == ["pipe", "pipe", "pipe"]


def test_verbose_output_is_the_same(both: tuple[Results, Results]) -> None:
    """With -vvv, Ansible tells of the same commands and files, warm and cold."""
    cold, warm = ([line for line in _steady(results.output) if line.startswith("<localhost>")] for results in both)
    assert len(cold) > len(BEHAVIOURS)
    assert sorted(_without_numbers(warm)) == sorted(_without_numbers(cold))


def _steady(output: str) -> Iterator[str]:
    """Yield the lines of *output* but for tasks of which time decides how many commands they need."""
    task = ""
    for line in output.splitlines():
        if line.startswith("TASK ["):
            task = line.removeprefix("TASK [").partition("]")[0]
        if task not in _TIMED:
            yield line


def _without_numbers(lines: list[str]) -> list[str]:
    return [re.sub(r"ansible-local-\w+/tmp\w+|j?\d{6,}(?:\.\d+)?", "N", line) for line in lines]


def test_tasks_that_time_out_or_are_asynchronous_go_the_ordinary_way(both: tuple[Results, Results]) -> None:
    """A task that runs out of time fails as ever, and an asynchronous one succeeds."""
    for results in both:
        assert results.tasks["runs out of time"][0] == "failed"
        assert results.tasks["is asynchronous"][0] == "ok"
    assert both[1].tasks["runs out of time"][1]["msg"] == both[0].tasks["runs out of time"][1]["msg"]
