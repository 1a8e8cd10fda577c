"""What goes at once when the operator cannot wait, and what the next operator clears away; with real processes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.execution.leftovers import (
    PREFIX,
    SERVER_PREFIX,
    kill_all_runs,
    new_scratch,
    new_server_scratch,
    run_is_over,
    server_is_over,
    sweep_leftovers,
)
from runner.execution.processes import MARK, OWNER_MARK, SERVER_IDENT
from runner.owner import identity, own_identity
from runner.testing.leftovers import no_other_servers

GONE = "999999999-1"


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """Make *tmp_path* the folder for temporary files, where scratch folders are made."""
    previous, tempfile.tempdir = tempfile.tempdir, str(tmp_path)
    with no_other_servers():
        yield tmp_path
    tempfile.tempdir = previous


@contextlib.contextmanager
def _sleeping(environ: dict[str, str], *, cwd: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "1000"], env=environ, cwd=cwd, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _marks(ident: str, *, owner: str | None = None) -> dict[str, str]:
    return {MARK: ident, OWNER_MARK: owner or own_identity()}


def _folder(root: Path, name: str, *, owner: str | None) -> Path:
    path = root / name
    path.mkdir()
    (path / "kubeconfig").write_text("secret")
    if owner is not None:
        (path / "owner").write_text(owner)
    return path


def _owned_by(process_identity: str) -> str:
    return json.dumps({"pid": int(process_identity.partition("-")[0]), "identity": process_identity})


def test_all_runs_are_killed_and_their_files_removed(temporary: Path) -> None:
    """A run under way loses its processes, the descendants that hid their mark too, and its scratch folder."""
    scratch = new_scratch("11")
    (scratch / "kubeconfig").write_text("secret")
    shell = ["/bin/sh", "-c", f"{MARK}= {OWNER_MARK}= /bin/sleep 1000 & echo $!; wait"]
    with subprocess.Popen(shell, env=_marks("11"), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert kill_all_runs() == 2
            assert process.wait() == -9
            assert identity(child) == ""
            assert list(temporary.iterdir()) == []
            assert kill_all_runs() == 0
        finally:
            process.kill()
            run_is_over("11")


def test_fork_servers_are_killed_with_all_runs(temporary: Path) -> None:
    """Their folders go, too, and their end is known to be meant; what a run that is over detached lives on."""
    killed = new_server_scratch()
    marks = {**_marks(SERVER_IDENT), "TMPDIR": str(killed / "tmp")}
    with _sleeping(marks) as server, _sleeping({**marks, MARK: "7"}) as detached, _sleeping(_marks("0" * 19)) as other:
        assert kill_all_runs() == 1
        assert server.wait() == -9
        assert (detached.poll(), other.poll()) == (None, None)
    assert not server_is_over(killed)
    assert list(temporary.iterdir()) == []


def test_a_fork_server_that_is_over_is_nobodys_to_kill(temporary: Path) -> None:
    """Its end was known before."""
    path = new_server_scratch()
    assert path.parent == temporary
    assert server_is_over(path)
    with _sleeping(_marks(SERVER_IDENT)) as other:
        assert kill_all_runs() == 0
        assert other.poll() is None


def test_processes_of_others_live_on(temporary: Path) -> None:
    """Those of another operator process, and detached ones of a run that is over, are not touched."""
    scratch = [new_scratch(ident) for ident in ("21", "22")]
    run_is_over("22")
    try:
        with _sleeping(_marks("21", owner=GONE)) as of_another, _sleeping(_marks("22")) as detached:
            assert kill_all_runs() == 0
            assert (of_another.poll(), detached.poll()) == (None, None)
        assert [path.exists() for path in scratch] == [False, True]
        assert scratch[1].parent == temporary
    finally:
        run_is_over("21")


def test_a_scratch_folder_that_vanished_is_no_error(temporary: Path) -> None:
    """The run may be clearing up itself meanwhile."""
    scratch = new_scratch("31")
    try:
        for path in (scratch / "tmp", scratch / "owner"):
            path.rmdir() if path.is_dir() else path.unlink()
        scratch.rmdir()
        assert kill_all_runs() == 0
        assert sweep_leftovers(temporary) == 0
        assert sweep_leftovers(temporary / "nosuch") == 0
    finally:
        run_is_over("31")


def test_folders_of_dead_operators_are_swept(tmp_path: Path) -> None:
    """The owner is gone, or another process has its id by now."""
    _folder(tmp_path, f"{PREFIX}dead-1", owner=_owned_by(GONE))
    _folder(tmp_path, f"{PREFIX}dead-2", owner=_owned_by(f"{os.getpid()}-1"))
    _folder(tmp_path, f"{SERVER_PREFIX}dead", owner=_owned_by(GONE))
    assert sweep_leftovers(tmp_path) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("owner", [None, "", "{", "[]", "7", "{}", '{"pid": "x", "identity": "y"}'])
def test_a_folder_without_a_readable_owner_is_left_alone(tmp_path: Path, owner: str | None) -> None:
    """Nobody knows whose it is."""
    path = _folder(tmp_path, f"{PREFIX}1", owner=owner)
    assert sweep_leftovers(tmp_path) == 0
    assert (path / "kubeconfig").exists()


def test_folders_of_the_living_and_of_others_are_left_alone(temporary: Path) -> None:
    """A living operator's run, a demo, a plane, and what a link points to stay."""
    living = new_scratch("41")
    run_is_over("41")
    demo = _folder(temporary, "ansible-operator-demo-1", owner=_owned_by(GONE))
    link = temporary / f"{PREFIX}link"
    link.symlink_to(demo)
    assert sweep_leftovers(temporary) == 0
    assert living.name.startswith(PREFIX)
    assert {path.name for path in temporary.iterdir()} == {living.name, demo.name, link.name}
    assert (demo / "kubeconfig").exists()


def test_a_folder_in_use_is_swept_once_its_last_process_has_ended(tmp_path: Path) -> None:
    """A task that was detached on purpose may outlive the operator: by its variables or its working directory."""
    path = _folder(tmp_path, f"{PREFIX}in-use", owner=_owned_by(GONE))
    with _sleeping({"TMPDIR": str(path / "tmp")}):
        assert sweep_leftovers(tmp_path) == 0
    with _sleeping({}, cwd=path):
        assert sweep_leftovers(tmp_path) == 0
    assert sweep_leftovers(tmp_path) == 1
