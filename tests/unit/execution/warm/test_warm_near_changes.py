"""Changes on disk, with real files: what makes a fork server stale, what only moves it, and what is nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runner.execution.chosen import WarmContent
from runner.execution.warm.changes import Change, Changes
from runner.execution.warm.places import Place, package_folders, places
from runner.logs import Logger, RecordingSink
from runner.settings import ExecutionSettings
from runner.testing.waiting import ended, eventually


class Watched:
    """What a reader of changes has heard."""

    def __init__(self, *found: Place) -> None:
        """Watch the places *found*."""
        self.sink = RecordingSink()
        self.heard: list[Change] = []
        self.changes = Changes(lambda: found, logger=Logger(sink=self.sink))

    async def read(self) -> None:
        """Hear for ever."""
        async for change in self.changes:
            self.heard.append(change)

    async def hears(self, wanted: Callable[[Change], bool]) -> None:
        """Return when something *wanted* was heard."""
        await eventually(lambda: any(wanted(change) for change in self.heard))


@asynccontextmanager
async def _watching(*found: Place) -> AsyncIterator[Watched]:
    watched = Watched(*found)
    task = asyncio.create_task(watched.read())
    try:
        await eventually(watched.changes.established.is_set)
        yield watched
    finally:
        await ended(task)


def _file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def _written_until(path: Path, *, heard: Callable[[], bool]) -> None:
    """Write *path* until it is *heard*: a new place is watched soon after it came, and nothing tells when."""
    async with asyncio.timeout(60):
        while not heard():
            _file(path, "pass")
            await asyncio.sleep(0.1)


async def test_tasks_only_move_a_server_and_modules_make_it_stale(tmp_path: Path) -> None:
    """What a play reads anew is one thing, what a server has loaded another."""
    tasks, module = _file(tmp_path / "roles/r/tasks/main.yml"), _file(tmp_path / "roles/r/library/m.py")
    async with _watching(Place(path=tmp_path / "roles")) as watched:
        tasks.write_text("[]")
        await watched.hears(lambda change: change.path == tasks)
        assert [change.stale for change in watched.heard] == [False]
        module.write_text("pass")
        await watched.hears(lambda change: change.path == module and change.stale)


async def test_new_folders_are_watched(tmp_path: Path) -> None:
    """A role that comes later counts with all that is in it."""
    (tmp_path / "roles").mkdir()
    async with _watching(Place(path=tmp_path / "roles")) as watched:
        (tmp_path / "roles/new/tasks").mkdir(parents=True)
        await watched.hears(lambda change: change.path.is_relative_to(tmp_path / "roles/new"))
        assert not any(change.stale for change in watched.heard)
        await _written_until(
            tmp_path / "roles/new/filter_plugins/f.py", heard=lambda: any(change.stale for change in watched.heard)
        )


async def test_byte_code_and_repositories_are_nothing(tmp_path: Path) -> None:
    """Python itself and git write there; a later change is the first that is heard."""
    root = tmp_path / "roles"
    for name in ("r/library/__pycache__/m.pyc", ".git/index", "r/tasks/main.yml.swp", "artifacts/1/rc"):
        _file(root / name)
    barrier = _file(root / "r/tasks/main.yml")
    async with _watching(Place(path=root)) as watched:
        for name in ("r/library/__pycache__/m.pyc", ".git/index", "r/tasks/main.yml.swp", "artifacts/1/rc"):
            (root / name).write_text("x")
        barrier.write_text("[]")
        await watched.hears(lambda change: change.path == barrier)
        assert {change.path for change in watched.heard} == {barrier}


async def test_a_volume_of_a_configmap_changes_by_a_link(tmp_path: Path) -> None:
    """The kubelet puts `..data` to another folder; this may change anything, and later changes are noticed, too."""
    role = tmp_path / "roles/r/tasks"
    for number in (1, 2, 3):
        _file(role / f"..{number}/main.yml", str(number))
    (role / "..data").symlink_to("..1")
    (role / "main.yml").symlink_to("..data/main.yml")
    async with _watching(Place(path=tmp_path / "roles")) as watched:
        for number in (2, 3):
            watched.heard.clear()
            (role / "..data_tmp").symlink_to(f"..{number}")
            (role / "..data_tmp").rename(role / "..data")
            await watched.hears(lambda change: change.stale)


async def test_a_link_to_a_place_may_lead_elsewhere(tmp_path: Path) -> None:
    """A release that is switched by a link is noticed, and what is behind the new one is watched."""
    for name in ("one", "two"):
        _file(tmp_path / name / "ansible_collections/a/b/plugins/modules/m.py")
    link = tmp_path / "current"
    link.symlink_to("one")
    async with _watching(Place(path=link / "ansible_collections", memory=True)) as watched:
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").rename(link)
        await watched.hears(lambda change: change.path == link and change.stale)
        await watched.hears(lambda change: not change.moved)  # told again once the new one is watched
        heard = len(watched.heard)
        (tmp_path / "two/ansible_collections/a/b/plugins/modules/m.py").write_text("pass")
        await eventually(lambda: len(watched.heard) > heard)


async def test_a_place_may_come_later(tmp_path: Path) -> None:
    """Collections that are installed for the first time, below folders that weren't there either."""
    place = Place(path=tmp_path / "home/.ansible/collections/ansible_collections", memory=True)
    async with _watching(place) as watched:
        module = _file(place.path / "a/b/plugins/modules/m.py")
        await watched.hears(lambda change: change.stale and change.path in module.parents)
        await _written_until(module, heard=lambda: any(change.path == module for change in watched.heard))


async def test_a_folder_that_is_replaced_is_watched_again(tmp_path: Path) -> None:
    """A role that was removed and copied anew is no other place."""
    role = tmp_path / "r"
    _file(role / "tasks/main.yml")
    async with _watching(Place(path=role)) as watched:
        role.rename(tmp_path / "old")
        await watched.hears(lambda change: change.path == role and change.moved)
        _file(role / "library/m.py")
        await _written_until(role / "library/m.py", heard=lambda: any(change.stale for change in watched.heard))


async def test_modules_that_come_beside_a_playbook_make_a_server_stale(tmp_path: Path) -> None:
    """The playbook itself is read anew by each run."""
    playbook = _file(tmp_path / "playbook.yml")
    async with _watching(Place(path=playbook, deep=False), Place(path=tmp_path / "library")) as watched:
        playbook.write_text("[]")
        await watched.hears(lambda change: change.path == playbook)
        assert [change.stale for change in watched.heard] == [False]
        (tmp_path / "library").mkdir()
        await watched.hears(lambda change: change.path.name == "library" and change.stale)


async def test_what_changes_while_other_folders_come_to_be_watched_counts_as_everything(tmp_path: Path) -> None:
    """A new folder makes the watch begin anew; what nobody saw between may have been a module."""
    async with _watching(Place(path=tmp_path / "tasks")) as watched:
        (tmp_path / "tasks").mkdir()
        await eventually(lambda: len(watched.heard) == 2)
        assert [change.stale for change in watched.heard] == [False, True]


async def test_an_installation_of_packages_is_noticed(tmp_path: Path) -> None:
    """An installer makes and removes folders beside the packages; what lies within others isn't watched."""
    site = tmp_path / "site-packages"
    _file(site / "boto3/__init__.py")
    async with _watching(Place(path=site, deep=False, listing=True, memory=True)) as watched:
        (site / "boto3/__init__.py").write_text("x = 1")
        (site / "__pycache__").mkdir()
        (site / "boto3-2.0.dist-info").mkdir()
        await watched.hears(lambda change: change.stale)
        assert {change.path.name for change in watched.heard} == {"boto3-2.0.dist-info"}


async def test_a_file_alone_is_watched_by_its_name(tmp_path: Path) -> None:
    """A playbook or an ansible.cfg, written in place or replaced; its neighbours are nothing."""
    config = _file(tmp_path / "ansible.cfg")
    async with _watching(Place(path=config, deep=False, memory=True)) as watched:
        (tmp_path / "other").write_text("x")
        _file(tmp_path / "new", "[defaults]").rename(config)
        await watched.hears(lambda change: change.path == config and change.stale)
        assert {change.path for change in watched.heard} == {config}


async def test_trouble_with_watching_is_a_warning_with_a_remedy(tmp_path: Path) -> None:
    """The operator works on; the reader waits, and nobody waits for the watch to come up."""

    def find() -> list[Place]:
        raise OSError(28, "OS file watch limit reached")

    sink = RecordingSink()
    changes = Changes(find, logger=Logger(sink=sink))

    async def read() -> None:
        async for _ in changes:
            raise AssertionError

    task = asyncio.create_task(read())
    await eventually(changes.established.is_set)
    assert not task.done()
    await ended(task)
    (record,) = sink.records
    assert "fs.inotify.max_user_watches" in record["remedy"]


def test_the_places_of_an_operator(tmp_path: Path) -> None:
    """Roles with their neighbours, playbooks with what is beside them, collections, ansible.cfg, packages."""
    site = tmp_path / "site-packages"
    (site / "ansible").mkdir(parents=True)
    settings = ExecutionSettings(
        environ={"HOME": "/home/me", "ANSIBLE_CONFIG": "/etc/my.cfg"},
        roles_path="/more",
        collections_path="~/c:{{CWD}}",
    )
    content = WarmContent(roles=(Path("/opt/roles/a"), Path("/srv/b")), playbooks=(Path("/opt/p.yml"),))
    found = {place.path: place for place in places(content, settings=settings, packages=[site])}
    plain = ("/opt/roles", "/srv/b", "/more", "/opt/p.yml", "/opt/library")
    assert [found[Path(path)].memory for path in plain] == [False] * len(plain)
    loaded = ("/home/me/c/ansible_collections", "/etc/my.cfg", str(site), str(site / "ansible"))
    assert [found[Path(path)].memory for path in loaded] == [True] * len(loaded)
    assert Path("/opt") not in found
    assert found[site].listing


@pytest.mark.parametrize("python", ["", sys.executable, "/bin/true"])
async def test_the_packages_of_plays_are_where_their_interpreter_says(python: str) -> None:
    """One that says nothing has none; that is for the fork server to complain about."""
    settings = ExecutionSettings(ansible_python=python, environ={"PATH": "/usr/bin:/bin"})
    expected = {Path(entry) for entry in sys.path if Path(entry).name == "site-packages"}
    assert set(await package_folders(settings)) == (set() if python == "/bin/true" else expected)


async def test_the_packages_of_another_interpreter_are_asked_for(tmp_path: Path) -> None:
    """`--ansible-python` may name an environment of its own."""
    site = tmp_path / "site-packages"
    site.mkdir()
    python = _file(tmp_path / "python", f'#!/bin/sh\necho \'["{site}", "/nosuch/site-packages", "/usr/lib"]\'\n')
    python.chmod(0o700)
    settings = ExecutionSettings(ansible_python=str(python), environ={"PATH": "/usr/bin:/bin"})
    assert await package_folders(settings) == [site]


async def test_what_names_no_other_module_is_no_change(tmp_path: Path) -> None:
    """Templates, variables and another wording of a task are read anew by each run; a task more may need a module."""
    role = tmp_path / "roles/r"
    tasks = _file(role / "tasks/main.yml", "- debug:\n    msg: a b\n")
    quiet = [
        _file(role / name, "a: 1\n") for name in ("templates/x.yml", "files/x.yml", "defaults/main.yml", "README.md")
    ]
    async with _watching(Place(path=role)) as watched:
        _replaced(tasks, "- copy:\n    content: a b\n")
        await watched.hears(lambda change: change.path == tasks)
        known = len(watched.heard)

        for path in quiet:
            _replaced(path, "b: 1\n")
        _replaced(tasks, "- copy:\n    content: a d\n")
        barrier = role / "tasks/other.yml"
        _replaced(barrier, "- file:\n    path: /x\n")
        await watched.hears(lambda change: change.path == barrier)
    assert [change.path for change in watched.heard[known:]] == [barrier]


def _replaced(path: Path, text: str) -> None:
    """Write *path* in one step, so that nobody sees half of it."""
    whole = path.with_suffix(".whole")
    whole.write_text(text)
    whole.replace(path)
