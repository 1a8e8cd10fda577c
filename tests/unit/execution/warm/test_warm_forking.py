"""A fork with a past, and a process that was just started: a script can't tell which of them runs it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from runner.execution.warm.far import marking

FORKED = Path(__file__).parent / "scripts" / "forked.py"
ROOT = Path(__file__).parents[4]
IDENT = "1234567890123456789"

ENDS = {
    "returns": "print('done')",
    "exits with a number": "raise SystemExit(3)",
    "exits with a number over 255": "raise SystemExit(1000)",
    "exits with a negative number": "raise SystemExit(-1)",
    "exits with a number that no machine word holds": "raise SystemExit(1 << 80)",
    "exits with nothing": "raise SystemExit",
    "exits with yes": "raise SystemExit(True)",
    "exits with a text": "raise SystemExit('a reason')",
    "exits with a text and no standard error": "import sys; sys.stderr = None; raise SystemExit('a reason')",
    "exits with a list": "raise SystemExit(['a', 'b'])",
    "exits at once": "import os; os._exit(4)",
    "raises": "def inner():\n    raise ValueError('bad')\ninner()",
    "raises with a cause": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise OSError('worse') from error",
    "is interrupted": "raise KeyboardInterrupt",
    "has a hook of its own": "import sys\nsys.excepthook = lambda *_: print('hook')\nraise ValueError('bad')",
    "has a hook that exits": "import sys\nsys.excepthook = lambda *_: sys.exit(9)\nraise ValueError('bad')",
    "kills itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "is asked to end": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupts itself": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
    "aborts": "import os; os.abort()",
}

LAST_DEEDS = {
    "exit handlers, last first": """
        import atexit
        atexit.register(print, 1)
        atexit.register(print, 2)
        raise SystemExit(5)""",
    "an exit handler that raises": """
        import atexit
        def handler():
            raise ValueError('at exit')
        atexit.register(handler)""",
    "threads are awaited": """
        import threading, time
        threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()
        print('main')""",
    "pools are awaited": """
        import concurrent.futures, time
        concurrent.futures.ThreadPoolExecutor(2).submit(lambda: (time.sleep(0.1), print('pool')))
        print('main')""",
    "daemons are not": """
        import threading, time
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        print('main')""",
    "a file that nobody closed is written": """
        leaked = open('leaked', 'w')
        leaked.write('all of it')
        binary = open('binary', 'wb')
        binary.write(b'bytes')""",
    "so are files of classes that are derived from Python's": """
        import io
        class Middle(io.TextIOWrapper): pass
        class Own(Middle): pass
        class Buffer(io.BufferedRandom): pass
        leaked = Own(open('leaked', 'wb'))
        leaked.write('all of it')
        buffer = Buffer(io.FileIO('buffer', 'w+'))
        buffer.write(b'bytes')""",
    "files that have the parent's descriptors hold nothing of the parent's": """
        files = [open(f'file{number}', 'w') for number in range(8)]
        print('main')""",
    "temporary folders go": """
        import tempfile
        folder = tempfile.TemporaryDirectory()
        print(open('name', 'w').write(folder.name) > 0)""",
    "finalizers of multiprocessing run": """
        import multiprocessing.util
        multiprocessing.util.Finalize(None, print, ('finalizer',), exitpriority=1)""",
    "children of multiprocessing are awaited": """
        import multiprocessing, time
        context = multiprocessing.get_context('fork')
        context.Process(target=lambda: (time.sleep(0.1), print('child', flush=True))).start()""",
    "a flush that fails": """
        import os, sys
        sys.stdout.write('nobody reads this')
        os.close(1)
        os.open('/dev/full', os.O_WRONLY)""",
    "standard output that was closed": "import sys; sys.stdout.close()",
}

SURROUNDINGS = {
    "streams": """
        import sys
        for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__):
            print(stream.name, stream.mode, stream.encoding, stream.errors, stream.newlines, stream.line_buffering,
                  stream.write_through, stream.isatty(), stream.fileno(), stream.buffer.name,
                  type(stream.buffer).__name__, stream.buffer.raw.closefd, repr(stream))
        print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)""",
    "input": "import sys; print(repr(sys.stdin.read()))",
    "descriptors": "import os; print(sorted(os.listdir('/proc/self/fd')))",
    "signals": """
        import signal
        print({int(number): signal.getsignal(number) for number in signal.valid_signals()})
        print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))""",
    "environment": """
        import os, time, tempfile, subprocess, sys
        print(dict(os.environ), time.tzname, time.localtime(0).tm_hour, tempfile.gettempdir())
        subprocess.run([sys.executable, '-c', 'import os; print(dict(os.environ))'])""",
    "collector": "import gc; print(gc.isenabled(), gc.get_threshold())",
    "working directory": "import os; print(os.getcwd(), oct(os.umask(0)))",
    "threads": "import threading; print(threading.enumerate(), threading.current_thread() is threading.main_thread())",
    "limits": "import resource; print([resource.getrlimit(limit) for limit in range(16)])",
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a script did."""

    code: int | None
    out: str
    err: str


async def ran(*argv: str, cwd: Path, environ: dict[str, str]) -> Seen:
    """Run a program to its end."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=environ,
    )
    out, err = await asyncio.wait_for(process.communicate(b"one\r\ntwo\n"), 60)
    return Seen(code=process.returncode, out=_without_numbers(out.decode()), err=_without_numbers(err.decode()))


def _without_numbers(text: str) -> str:
    """Leave out addresses and ids of threads, which no two processes share."""
    return re.sub(r"0x[0-9a-f]+|started \d+", "", text)


async def both(source: str, folder: Path) -> tuple[Seen, Seen]:
    """Return what *source* does in a process of its own, then what it does in a fork."""
    script = folder / "script.py"
    script.write_text(dedent(source))
    environ = {"PATH": os.environ["PATH"], "COLOUR": "green", "TZ": "Asia/Tokyo", "TMPDIR": str(folder)}
    Path(f"{script}.environ").write_text(json.dumps(environ))
    cold = await ran(sys.executable, str(script), cwd=folder, environ=environ)
    left = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    of_parent = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TZ": "UTC", marking.VARIABLE: marking.ROOM}
    warm = await ran(sys.executable, str(FORKED), str(script), IDENT, str(folder), cwd=Path("/"), environ=of_parent)
    if "name" not in left:
        assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == left
    assert not [path for path in folder.iterdir() if path.is_dir()]
    return cold, warm


@pytest.mark.parametrize("source", ENDS.values(), ids=ENDS.keys())
async def test_fork_ends_as_a_process_of_its_own(source: str, tmp_path: Path) -> None:
    """However a script ends, its exit code or signal, its output and its traceback are those of a new process."""
    cold, warm = await both(source, tmp_path)
    assert warm == cold


@pytest.mark.parametrize("source", LAST_DEEDS.values(), ids=LAST_DEEDS.keys())
async def test_fork_does_at_its_end_what_the_interpreter_does(source: str, tmp_path: Path) -> None:
    """Exit handlers, threads, files that nobody closed: all is done as at the end of a new process."""
    cold, warm = await both(source, tmp_path)
    assert warm == cold


@pytest.mark.parametrize("source", SURROUNDINGS.values(), ids=SURROUNDINGS.keys())
async def test_fork_finds_what_a_process_of_its_own_finds(source: str, tmp_path: Path) -> None:
    """Streams, descriptors, signal handlers, variables, time zone, collector: nothing of the parent is to be seen."""
    cold, warm = await both(source, tmp_path)
    assert warm == cold
    assert warm.code == 0


async def test_forks_do_not_share_random_numbers(tmp_path: Path) -> None:
    """Two forks of one parent, whose generator was seeded, draw different numbers."""
    (tmp_path / "script.py").write_text("import random, uuid; print(random.random(), uuid.uuid4())")
    (tmp_path / "script.py.environ").write_text("{}")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), marking.VARIABLE: marking.ROOM}
    argv = (sys.executable, str(FORKED), str(tmp_path / "script.py"), IDENT, "/")
    first, second = [await ran(*argv, cwd=tmp_path, environ=environ) for _ in range(2)]
    assert (first.code, second.code) == (0, 0)
    assert not set(first.out.split()) & set(second.out.split())


async def test_mark_of_a_fork_is_what_the_system_says_of_it(tmp_path: Path) -> None:
    """The mark of a fork, and of what it forks, can be read in /proc; what it executes inherits its variables."""
    script = tmp_path / "script.py"
    script.write_text(
        dedent("""
        import os, subprocess
        def marks():
            variables = open('/proc/self/environ', 'rb').read().split(b'\\0')
            return [text.decode() for text in variables if text.startswith(b'ANSIBLE_OPERATOR_RUN')]
        print(marks(), flush=True)
        if os.fork() == 0:
            print(marks(), flush=True)
            os._exit(0)
        os.wait()
        subprocess.run(['sh', '-c', 'echo $ANSIBLE_OPERATOR_RUN'])""")
    )
    Path(f"{script}.environ").write_text(json.dumps({marking.VARIABLE: "77", "PATH": os.environ["PATH"]}))
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), marking.VARIABLE: marking.ROOM}
    seen = await ran(sys.executable, str(FORKED), str(script), "77", "/", cwd=tmp_path, environ=environ)
    assert seen == Seen(code=0, out="['ANSIBLE_OPERATOR_RUN=77']\n['ANSIBLE_OPERATOR_RUN=77']\n77\n", err="")


@pytest.mark.parametrize("ident", ["", IDENT + "0"])
async def test_mark_that_has_no_room_is_refused(ident: str, tmp_path: Path) -> None:
    """A fork that can't be marked does not become a run."""
    (tmp_path / "script.py").write_text("print('ran')")
    (tmp_path / "script.py.environ").write_text("{}")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), marking.VARIABLE: marking.ROOM}
    argv = (sys.executable, str(FORKED), str(tmp_path / "script.py"), ident, "/")
    seen = await ran(*argv, cwd=tmp_path, environ=environ)
    assert "ran" not in seen.out
    assert "MarkError: a mark of" in seen.err


async def test_process_without_room_for_a_mark_is_refused(tmp_path: Path) -> None:
    """A server that was started without room for marks says so at once."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    seen = await ran(sys.executable, str(FORKED), "a", "b", "c", cwd=tmp_path, environ=environ)
    assert "MarkError: ANSIBLE_OPERATOR_RUN is not in the environment" in seen.err


@pytest.mark.parametrize(
    ("inherited", "wanted"), [(signal.SIG_IGN, "SIG_IGN"), (signal.SIG_DFL, "default_int_handler")]
)
async def test_interrupts_are_ignored_only_where_whoever_started_the_parent_ignored_them(
    inherited: signal.Handlers, wanted: str, tmp_path: Path
) -> None:
    """A program started in the background of a shell ignores SIGINT, and so do its forks; others don't."""
    script = tmp_path / "script.py"
    script.write_text("import signal; print(signal.getsignal(signal.SIGINT))")
    Path(f"{script}.environ").write_text("{}")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), marking.VARIABLE: marking.ROOM}
    start = f"import os, signal, sys; signal.signal(2, {int(inherited)}); os.execv(sys.argv[1], sys.argv[1:])"
    argv = (sys.executable, "-c", start, sys.executable, str(FORKED), str(script), IDENT, "/")
    seen = await ran(*argv, cwd=tmp_path, environ=environ)
    assert wanted in seen.out or str(signal.Handlers[wanted].value) in seen.out
