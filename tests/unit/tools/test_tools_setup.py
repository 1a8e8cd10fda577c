"""`make setup`: which parts of an environment are made again, and which are left alone."""

from __future__ import annotations

import io
import json
import shutil
import stat
from pathlib import Path

import pytest

from tools import setup
from tools.steps import StepError, Steps

FAKE_PYTHON = """#!/bin/sh
echo "$@" >> "{calls}"
if [ -n "$FAIL_ON" ]; then case "$*" in *"$FAIL_ON"*) echo "broken on purpose"; exit 1;; esac; fi
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with lock files and an environment whose interpreter only writes down how it was called."""
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "dev.txt").write_text("thing==1\n")
    (tmp_path / "requirements" / "collections.txt").write_text("ansible==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "requirements" / "ansible-2.18.txt").write_text("older==1\n")
    make_environment(tmp_path)
    return tmp_path


def make_environment(tree: Path, *, name: str = ".venv", program: str = "ansible-operator") -> None:
    """Write the environment *name* with the fake interpreter and what a finished set-up leaves."""
    venv = tree / name
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text(FAKE_PYTHON.format(calls=tree / "calls"))
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    (venv / "bin" / program).touch()
    for collection in ("amazon/aws", "kubernetes/core"):
        folder = venv / "lib" / "python3.11" / "site-packages" / "ansible_collections" / collection
        folder.mkdir(parents=True)
        (folder / "MANIFEST.json").write_text("{}")


def run(tree: Path, *, other: bool = False) -> list[str]:
    """Run the set-up of *tree* and return the parts that were made, in order."""
    (tree / "calls").unlink(missing_ok=True)
    make = setup.setup_ansible if other else setup.setup
    make(root=tree, steps=Steps(cache=tree / "cache", out=io.StringIO()))
    calls = (tree / "calls").read_text().splitlines() if (tree / "calls").exists() else []
    marks = {"--require-hashes": "packages", "--editable": "project", "tools.install_collections": "collections"}
    return [part for call in calls for mark, part in marks.items() if mark in call]


def test_an_environment_without_a_stamp_gets_every_part_once(tree: Path) -> None:
    """The first set-up makes packages, project and collections in this order; the second one makes nothing."""
    assert run(tree) == ["packages", "project", "collections"]
    assert run(tree) == []


@pytest.mark.parametrize(
    ("changed", "made"),
    [
        ("requirements/dev.txt", ["packages", "project"]),
        ("pyproject.toml", ["project"]),
        ("requirements/collections.txt", ["collections"]),
    ],
)
def test_a_changed_file_makes_only_what_depends_on_it(tree: Path, changed: str, made: list[str]) -> None:
    """A new lock file reinstalls, a new pyproject.toml installs the project again, and nothing else runs."""
    run(tree)
    (tree / changed).write_text("changed\n")
    assert run(tree) == made


def test_a_stopped_set_up_goes_on_where_it_stopped(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done stays done: after the failure of the last part only that part runs."""
    monkeypatch.setenv("FAIL_ON", "tools.install_collections")
    with pytest.raises(StepError, match="broken on purpose"):
        run(tree)
    monkeypatch.delenv("FAIL_ON")
    assert run(tree) == ["collections"]


def test_links_into_an_emptied_cache_are_made_again(tree: Path) -> None:
    """A stamp is not believed against what is to be seen."""
    run(tree)
    shutil.rmtree(tree / ".venv" / "lib" / "python3.11" / "site-packages" / "ansible_collections" / "amazon")
    assert "collections" in run(tree)


def test_a_damaged_stamp_is_as_good_as_none(tree: Path) -> None:
    """A half-written stamp leads to a whole set-up."""
    run(tree)
    (tree / ".venv" / "setup.json").write_text('{"pack')
    assert run(tree) == ["packages", "project", "collections"]


def test_a_moved_tree_is_linked_again(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The editable install and our collection point at the tree's path, so a moved tree makes both again."""
    run(tree)
    moved = tmp_path_factory.mktemp("moved") / "tree"
    shutil.move(tree, moved)
    python = moved / ".venv" / "bin" / "python"
    python.write_text(FAKE_PYTHON.format(calls=moved / "calls"))
    assert run(moved) == ["project", "collections"]


def test_an_interpreter_that_does_not_run_is_replaced(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment whose Python went away with a system upgrade is made anew."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tree / ".venv" / "bin" / "python").write_text("#!/nowhere/python\n")
    steps = Steps(cache=tree / "cache", out=io.StringIO())
    assert not setup.usable(tree / ".venv")
    with pytest.raises(StepError):  # the new environment is a real one, and `thing==1` cannot be had
        setup.setup(root=tree, steps=steps)
    assert setup.usable(tree / ".venv")
    assert json.loads((tree / "cache" / "durations.json").read_text()).keys() == {"setup: environment"}


def test_the_other_environment_has_ansible_and_nothing_of_ours(tree: Path) -> None:
    """Packages of its own lock file and the collections, each once; a changed lock makes only the packages again."""
    make_environment(tree, name=".venv-2.18", program="ansible-playbook")
    assert run(tree, other=True) == ["packages", "collections"]
    assert run(tree, other=True) == []
    (tree / "requirements" / "ansible-2.18.txt").write_text("changed\n")
    assert run(tree, other=True) == ["packages"]
    assert str(tree / "requirements" / "ansible-2.18.txt") in (tree / "calls").read_text()


def test_a_clone_without_the_other_environment_never_gets_it_by_the_usual_set_up(tree: Path) -> None:
    """`make setup`, and so `make test`, leaves the second environment to `make test-full`."""
    run(tree)
    assert not (tree / ".venv-2.18").exists()
