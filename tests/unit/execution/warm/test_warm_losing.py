"""The end of a run of which nobody knows how a module ended: a real play's process, and a worker of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runner.execution.warm.far import losing, marking

_ROOT = Path(__file__).parents[4]
_PLAY = """
import os, sys, time
from runner.execution.warm.far import losing
losing.Playbook.pid = os.getpid() if sys.argv[2] == "own" else os.getppid()
if os.fork() == 0:
    losing.lose_run(losing.Loss(reason="died", hung=True), address=sys.argv[1])
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def _play(folder: Path, *, whose: str = "own") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PLAY, str(folder / "socket"), whose],
        cwd=_ROOT,
        env={marking.VARIABLE: "12"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_play_ends_at_once_and_the_word_is_read_once(tmp_path: Path) -> None:
    """Nothing after the module runs; who asks for the run's loss gets it, and takes the word away."""
    ended = _play(tmp_path)
    assert (ended.returncode, ended.stdout) == (-9, "")
    assert losing.reason_of(str(tmp_path), ident="13") is None
    assert losing.reason_of(str(tmp_path), ident="12") == losing.Loss(reason="died", hung=True)
    assert losing.reason_of(str(tmp_path), ident="12") is None


def test_only_the_play_itself_is_ended(tmp_path: Path) -> None:
    """A worker whose play has ended has another parent, which is left alone."""
    ended = _play(tmp_path, whose="other")
    assert (ended.returncode, ended.stdout) == (0, "1\n")


def test_a_word_that_cannot_be_left_does_not_keep_the_play_alive(tmp_path: Path) -> None:
    """Without its folder the run ends all the same, as one that was killed."""
    assert _play(tmp_path / "gone").returncode == -9


@pytest.mark.parametrize("text", ["", "{", '{"else": 1}', "[]"])
def test_a_broken_word_is_a_loss_too(tmp_path: Path, text: str) -> None:
    """A disk that was full may have taken half of it."""
    (tmp_path / "lost-12").write_text(text)
    loss = losing.reason_of(str(tmp_path), ident="12")
    assert loss is not None
    assert "while it ran a module" in loss.reason
    assert list(tmp_path.iterdir()) == []
