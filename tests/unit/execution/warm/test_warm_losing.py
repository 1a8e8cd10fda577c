"""The end of a run of which nobody knows how a module ended: a real play's process, and a worker of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from runner.execution.warm.far import losing, marking

_ROOT = Path(__file__).parents[4]
_PLAY = """
import os, signal, sys, time
from runner.execution.warm.far import losing
address, whose = sys.argv[1:]
losing.Playbook.pid = os.getpid()
if whose == "other":
    losing.Playbook.pid = other = os.fork()
    if other == 0:
        time.sleep(3600)
ready, go = os.pipe()
workers = []
for number in range(8 if whose == "many" else 1):
    workers.append(os.fork())
    if workers[-1] == 0:
        os.close(go)
        os.read(ready, 1)
        losing.lose_run("ended", address=address)
os.close(ready)
os.close(go)
if whose == "other":
    ended = os.waitstatus_to_exitcode(os.waitpid(workers[0], 0)[1])
    print(ended, os.waitpid(other, os.WNOHANG)[0], flush=True)
    os.kill(other, signal.SIGKILL)
else:
    time.sleep(3600)
"""


def _play(folder: Path, *, whose: str = "own") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PLAY, str(folder / "socket"), whose],
        cwd=_ROOT,
        env={marking.VARIABLE: "12"},
        stdout=subprocess.PIPE if whose == "other" else None,
        text=True,
        check=False,
    )


def test_the_play_ends_at_once_and_the_word_is_read_once(tmp_path: Path) -> None:
    """Nothing after the module runs; who asks for the run's loss gets it, and takes the word away."""
    assert _play(tmp_path).returncode == -9
    assert losing.reason_of(str(tmp_path), ident="13") == ""
    assert losing.reason_of(str(tmp_path), ident="12") == "ended"
    assert losing.reason_of(str(tmp_path), ident="12") == ""


def test_only_the_play_itself_is_ended(tmp_path: Path) -> None:
    """A worker whose play has ended has another parent, and the play's number may be another process's: both live."""
    ended = _play(tmp_path, whose="other")
    assert (ended.returncode, ended.stdout) == (0, "1 0\n")


def test_a_word_that_cannot_be_left_does_not_keep_the_play_alive(tmp_path: Path) -> None:
    """Without its folder the run ends all the same, as one that was killed."""
    assert _play(tmp_path / "gone").returncode == -9


def test_of_many_workers_the_first_one_leaves_the_word(tmp_path: Path) -> None:
    """It is never half of one, and nothing else is left."""
    assert _play(tmp_path, whose="many").returncode == -9
    assert losing.reason_of(str(tmp_path), ident="12") == "ended"


def test_the_silence_of_a_module_server_is_noted_in_its_folder(tmp_path: Path) -> None:
    """Where the folder is gone there is nobody to read it."""
    assert not losing.is_silent(str(tmp_path))
    losing.note_silence(address=str(tmp_path / "gone/socket"))
    losing.note_silence(address=str(tmp_path / "socket"))
    assert losing.is_silent(str(tmp_path))
