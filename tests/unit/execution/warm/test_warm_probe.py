"""Which libraries a fork server may import is found out where it does no harm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from runner.execution.warm.far.probe import probe
found = probe(sys.argv[2:], each=3.0)
print(json.dumps([list(found.good), list(found.failed), dict(found.odd)]))
print([name for name in sys.argv[2:] if name in sys.modules])
"""
BAD = {
    "exits": ("raise SystemExit(3)", "exits"),
    "threads": ("from threading import Event, Thread\nThread(target=Event().wait, daemon=True).start()", "a thread"),
    "crashes": ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "(-11)"),
    "leaves": ("import os\nos._exit(0)", "(0)"),
    "hangs": ("import signal\nsignal.pause()", "too long"),
    "prints": ("print('hello')", "prints"),
    "complains": ("import os\nos.write(2, b'hello')", "prints"),
}


def probed(folder: Path, *names: str) -> tuple[list[str], list[str], dict[str, str]]:
    """Return what is found of *names* by a process that has nothing else to do."""
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), *names], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said[1] == "[]", "nothing is imported in the process itself"
    good, failed, odd = json.loads(said[0])
    return good, failed, odd


@pytest.mark.parametrize("kind", BAD)
def test_a_library_that_misbehaves_at_import_is_left_out_alone(tmp_path: Path, kind: str) -> None:
    """Whatever one library does, those before and after it are found to be good, and it is said why that one isn't."""
    text, why = BAD[kind]
    (tmp_path / f"r1_{kind}.py").write_text(text)
    for name in ("r1_before", "r1_after"):
        (tmp_path / f"{name}.py").write_text("")
    good, failed, odd = probed(tmp_path, "r1_before", f"r1_{kind}", "r1_after")
    assert (good, failed, list(odd)) == (["r1_before", "r1_after"], [], [f"r1_{kind}"])
    assert why in odd[f"r1_{kind}"]


def test_a_library_that_is_missing_is_no_oddity(tmp_path: Path) -> None:
    """What isn't installed, or raises an error, is told apart from what misbehaves."""
    (tmp_path / "r1_raises.py").write_text("raise ValueError")
    (tmp_path / "r1_good.py").write_text("")
    assert probed(tmp_path, "r1_missing", "r1_good", "r1_raises") == (["r1_good"], ["r1_missing", "r1_raises"], {})


def test_a_library_that_imports_a_bad_one_is_left_out_too(tmp_path: Path) -> None:
    """A thread is a thread, whoever asked for the library that starts it."""
    (tmp_path / "r1_threads.py").write_text(BAD["threads"][0])
    (tmp_path / "r1_needs_it.py").write_text("import r1_threads")
    (tmp_path / "r1_good.py").write_text("")
    good, failed, odd = probed(tmp_path, "r1_needs_it", "r1_threads", "r1_good")
    assert (good, failed, sorted(odd)) == (["r1_good"], [], ["r1_needs_it", "r1_threads"])
