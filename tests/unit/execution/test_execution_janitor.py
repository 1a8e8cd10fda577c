"""Run folders of objects that are gone: what is removed, and all that must not be."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from runner.errors import ExecutionError
from runner.execution.files import held, private_folder, unheld
from runner.execution.janitor import INTERVAL, LIMIT, Janitor, KnownObjects
from runner.kube.objects import GVK
from runner.testing.clock import FakeClock
from runner.testing.waiting import eventually

PROBE = GVK("bugs.example.com", "v1", "Probe")
NAMESPACES = GVK("", "v1", "Namespace")


class Yard:
    """A root with run folders of long ago."""

    def __init__(self, root: Path) -> None:
        """Sweep *root* by a clock that stands still."""
        self.root = root
        self.clock = FakeClock()
        self.janitor = Janitor(root=root, clock=self.clock)

    def folder(self, place: str, *, unused: float = LIMIT + 1) -> Path:
        """Make the run folder at *place*, last used *unused* seconds ago."""
        path = private_folder(self.root / place)
        (path / "artifacts/1").mkdir(parents=True)
        (path / "artifacts/latest").symlink_to(path / "artifacts/1")
        stamp = self.clock.now().timestamp() - unused
        os.utime(path, (stamp, stamp))
        return path

    async def sweep(
        self,
        *,
        gvk: GVK = PROBE,
        namespaced: bool = True,
        namespaces: tuple[str, ...] = (),
        living: Collection[tuple[str, str]] = (),
    ) -> list[str]:
        """Sweep one kind, of which *living* objects are known; return the places that went."""
        known = KnownObjects(
            gvk=gvk,
            namespaced=namespaced,
            namespaces=namespaces,
            lives=lambda namespace, name: (namespace, name) in living,
        )
        swept = await self.janitor.sweep([known])
        assert swept.failed == ()
        return [str(path.relative_to(self.root)) for path in swept.removed]


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    """Give an empty root, below a folder of somebody else's."""
    return Yard(private_folder(tmp_path / "runner"))


async def test_the_folder_of_a_deleted_object_goes_and_empty_parents_with_it(yard: Yard) -> None:
    """Nothing of it stays below the root, which itself stays."""
    yard.folder("bugs.example.com/v1/Probe/shop/web")
    assert await yard.sweep() == ["bugs.example.com/v1/Probe/shop/web"]
    assert list(yard.root.iterdir()) == []


async def test_the_folder_of_a_living_object_stays(yard: Yard) -> None:
    """However long ago it ran; the one beside it goes, and the parents that are in use stay."""
    lives = yard.folder("bugs.example.com/v1/Probe/shop/web")
    yard.folder("bugs.example.com/v1/Probe/shop/old")
    yard.folder("bugs.example.com/v1/Probe/other/web")
    removed = await yard.sweep(living={("shop", "web")})
    assert removed == ["bugs.example.com/v1/Probe/other/web", "bugs.example.com/v1/Probe/shop/old"]
    assert (lives / "artifacts/latest").exists()
    assert not (yard.root / "bugs.example.com/v1/Probe/other").exists()


async def test_a_folder_that_was_used_lately_stays(yard: Yard) -> None:
    """Another operator on the host may have used it; it goes once its time is over, and that is within the hour."""
    yard.folder("bugs.example.com/v1/Probe/shop/web", unused=LIMIT - 1)
    assert await yard.sweep() == []
    await yard.clock.advance(2)
    assert len(await yard.sweep()) == 1
    assert LIMIT + INTERVAL < 3600


async def test_a_folder_with_a_run_under_way_stays(yard: Yard) -> None:
    """As long as a run holds it, however old it looks; when the run has ended its time begins anew."""
    path = yard.folder("bugs.example.com/v1/Probe/shop/web")
    async with held(path, clock=yard.clock):
        os.utime(path, (0, 0))
        assert await yard.sweep() == []
    assert await yard.sweep() == []
    os.utime(path, (0, 0))
    assert len(await yard.sweep()) == 1


async def test_only_watched_namespaces_are_swept(yard: Yard) -> None:
    """What is in other namespaces may be the living object of another operator."""
    yard.folder("bugs.example.com/v1/Probe/shop/web")
    yard.folder("bugs.example.com/v1/Probe/other/web")
    assert await yard.sweep(namespaces=("shop",)) == ["bugs.example.com/v1/Probe/shop/web"]


async def test_other_kinds_are_not_swept(yard: Yard) -> None:
    """Neither another kind, nor another version, nor another group."""
    for place in ("bugs.example.com/v1/Other/shop/web", "bugs.example.com/v2/Probe/shop/web", "v1/Probe/shop/web"):
        yard.folder(place)
    assert await yard.sweep() == []


async def test_kinds_without_group_and_namespace_have_shorter_paths(yard: Yard) -> None:
    """A cluster-scoped kind has its objects' folders right below the kind."""
    yard.folder("v1/Namespace/gone")
    yard.folder("v1/Namespace/there")
    removed = await yard.sweep(gvk=NAMESPACES, namespaced=False, living={("", "there")})
    assert removed == ["v1/Namespace/gone"]


@pytest.mark.parametrize(
    "link", ["bugs.example.com", "bugs.example.com/v1/Probe", "bugs.example.com/v1/Probe/shop/web"]
)
async def test_links_are_never_followed(yard: Yard, link: str) -> None:
    """Neither a link in place of a folder nor what it leads to is touched, at any level."""
    place = "bugs.example.com/v1/Probe/shop/web"
    elsewhere = yard.root.parent / "elsewhere"
    below = Path(place).relative_to(link)
    real = Yard(elsewhere).folder(str(below)) if str(below) != "." else Yard(elsewhere.parent).folder("elsewhere")
    (yard.root / link).parent.mkdir(parents=True, exist_ok=True)
    (yard.root / link).symlink_to(elsewhere)
    assert await yard.sweep() == []
    assert (real / "artifacts/1").exists()
    assert (yard.root / link).is_symlink()


async def test_links_within_a_folder_go_without_what_they_lead_to(yard: Yard) -> None:
    """A role may have left a link to anywhere."""
    precious = yard.root.parent / "precious"
    precious.mkdir()
    path = yard.folder("bugs.example.com/v1/Probe/shop/web")
    (path / "artifacts/1/link").symlink_to(precious)
    os.utime(path, (0, 0))
    assert len(await yard.sweep()) == 1
    assert precious.is_dir()


async def test_files_between_the_folders_are_left_alone(yard: Yard) -> None:
    """What is no folder was not made by a run."""
    note = private_folder(yard.root / "bugs.example.com/v1/Probe/shop") / "note"
    note.write_text("x")
    os.utime(note, (0, 0))
    assert await yard.sweep() == []
    assert note.exists()


async def test_a_folder_that_cannot_be_removed_holds_up_no_other(yard: Yard) -> None:
    """The others go, and why that one stays is told."""
    stuck = yard.folder("bugs.example.com/v1/Probe/shop/stuck")
    yard.folder("bugs.example.com/v1/Probe/shop/web")

    def lives(_: str, name: str) -> bool:
        if name == "stuck":  # somebody puts a file in its place while we look
            shutil.rmtree(stuck)
            stuck.write_text("x")
        return False

    swept = await yard.janitor.sweep([KnownObjects(gvk=PROBE, namespaced=True, lives=lives)])
    assert [path.name for path in swept.removed] == ["web"]
    assert len(swept.failed) == 1
    assert stuck.read_text() == "x"


async def test_a_root_that_is_not_there_is_no_trouble(yard: Yard) -> None:
    """Before the first run there is nothing to be swept."""
    yard.root.rmdir()
    assert await yard.sweep() == []


async def test_living_objects_leave_turns_to_others(yard: Yard) -> None:
    """However many folders are of living objects, between two of them the event loop turns."""
    names = [f"web-{number}" for number in range(20)]
    for name in names:
        yard.folder(f"bugs.example.com/v1/Probe/shop/{name}")
    turns, seen = 0, list[int]()

    async def turn() -> None:
        nonlocal turns
        while len(seen) < len(names):
            turns += 1
            await asyncio.sleep(0)

    def lives(_namespace: str, _name: str) -> bool:
        seen.append(turns)
        return True

    async with asyncio.TaskGroup() as group:
        group.create_task(turn())
        await yard.janitor.sweep([KnownObjects(gvk=PROBE, namespaced=True, lives=lives)])
    assert len(set(seen)) == len(names)


async def test_a_run_makes_its_folder_anew_after_a_sweep(tmp_path: Path) -> None:
    """Whoever comes between the removal and the lock finds a folder that is there, private and its own."""
    path = private_folder(tmp_path / "runner/kind/web")
    with unheld(path) as free:
        assert free
        shutil.rmtree(path.parent)
    async with held(path, clock=FakeClock()):
        assert path.is_dir()
        with unheld(path) as free:
            assert not free
    with unheld(path) as free:
        assert free


async def test_a_run_that_waited_for_a_sweep_gets_a_folder_that_is_there(tmp_path: Path) -> None:
    """It waits without holding up the event loop, and holds the folder of then, not the one that was removed."""
    path, clock = private_folder(tmp_path / "runner/kind/web"), FakeClock()

    async def hold() -> bool:
        async with held(path, clock=clock):
            with unheld(path) as free:
                return path.is_dir() and not free

    with unheld(path):
        run = asyncio.create_task(hold())
        await eventually(lambda: clock.sleeping or run.done())
        assert not run.done()
        shutil.rmtree(path)
        private_folder(path)  # another run was quicker
        await clock.advance(1)
        await eventually(lambda: clock.sleeping or run.done())
    await clock.advance(1)
    assert await run


async def test_two_runs_may_hold_one_folder(tmp_path: Path) -> None:
    """A lock keeps sweeps away, not another operator's run."""
    clock = FakeClock()
    async with held(tmp_path / "web", clock=clock), held(tmp_path / "web", clock=clock):
        assert clock.sleeping == 0
        with unheld(tmp_path / "web") as free:
            assert not free


async def test_a_link_is_not_held(tmp_path: Path) -> None:
    """Somebody who may write to the parent cannot send our files elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "web").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ExecutionError, match="is a link"):
        await held(tmp_path / "web", clock=FakeClock()).__aenter__()
