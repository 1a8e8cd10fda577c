"""Payloads of an earlier run are there for the next one of the same content, and only then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.execution.warm.far.payload_cache import FOLDER, PayloadCache, key_of

ROLE = ["python", "-P", "-m", "ansible_runner", "run", "/data", "--role", "one", "--roles-path", "/roles", "-i", "17"]


def built(local_temp: Path, *names: str) -> None:
    """Write what Ansible would have built."""
    (local_temp / FOLDER).mkdir(parents=True, exist_ok=True)
    for name in names:
        (local_temp / FOLDER / name).write_text(name)


@pytest.fixture(autouse=True)
def source(tmp_path: Path) -> Path:
    """Give the file that payloads are made of; it is older than any run."""
    path = tmp_path / "source.py"
    path.write_text("1")
    return path


def cache_of(store: Path, *, began_later_ns: int = 10**10) -> PayloadCache:
    """Return the cache of a run that takes the source for old enough."""
    source = store.parent / "source.py"

    class Later(PayloadCache):
        def put(self, local_temp: Path) -> None:
            super().put(local_temp)
            self._began_ns += began_later_ns

    def sources(path: Path) -> Sequence[Path] | None:
        return None if path.name.startswith("unknown") else [source]

    return Later(store, find_sources=sources)


def run(store: Path, local_temp: Path, *, builds: tuple[str, ...] = (), given: tuple[str, ...] = ()) -> list[str]:
    """Go through a run; return the payloads that were there at its end."""
    local_temp.mkdir()
    cache = cache_of(store)
    cache.put(local_temp)
    for folder in given:
        cache.spoil(folder)
    built(local_temp, *builds)
    cache.keep()
    return sorted(path.name for path in (local_temp / FOLDER).iterdir())


def test_warm_payloads_are_handed_to_the_next_run(tmp_path: Path) -> None:
    """What one run built is there in the next, whose own are added."""
    run(tmp_path / "store", tmp_path / "1", builds=("stat",))
    assert run(tmp_path / "store", tmp_path / "2", builds=("copy",)) == ["copy", "stat"]
    assert run(tmp_path / "store", tmp_path / "3") == ["copy", "stat"]


def test_warm_payloads_in_the_making_are_not_kept(tmp_path: Path) -> None:
    """A lock, and a file that was being written, stay where they are."""
    run(tmp_path / "store", tmp_path / "1", builds=("stat-part", "stat.lock"))
    assert run(tmp_path / "store", tmp_path / "2", builds=("copy",)) == ["copy"]


def test_warm_payloads_are_taken_back_from_content_with_own_modules(tmp_path: Path) -> None:
    """Where a role brings modules or their utilities, nothing old is left, and nothing it builds is kept."""
    run(tmp_path / "store", tmp_path / "1", builds=("stat",))
    for number, folder in enumerate(("library", "module_utils")):
        assert run(tmp_path / "store", tmp_path / f"own{number}", builds=("copy",), given=(folder,)) == ["copy"]
    assert run(tmp_path / "store", tmp_path / "3") == ["stat"]


def test_warm_payloads_stay_where_other_plugins_are_added(tmp_path: Path) -> None:
    """Filters beside a role don't change modules."""
    run(tmp_path / "store", tmp_path / "1", builds=("stat",))
    assert run(tmp_path / "store", tmp_path / "2", given=("filter_plugins",)) == ["stat"]


def test_warm_payload_that_a_run_rewrites_stays_as_it_was_for_others(tmp_path: Path) -> None:
    """A payload that is built anew replaces its name in that run only, as Ansible renames a finished file there."""
    run(tmp_path / "store", tmp_path / "1", builds=("stat",))
    (tmp_path / "2").mkdir()
    cache_of(tmp_path / "store").put(tmp_path / "2")
    (tmp_path / "2" / FOLDER / "new").write_text("rebuilt")
    (tmp_path / "2" / FOLDER / "new").replace(tmp_path / "2" / FOLDER / "stat")
    run(tmp_path / "store", tmp_path / "3")
    assert (tmp_path / "3" / FOLDER / "stat").read_text() == "stat"


def test_warm_payloads_are_apart_by_content() -> None:
    """Runs share payloads where they play the same role or playbook, whatever the object."""
    assert key_of(ROLE) == key_of([*ROLE[:-1], "18", "-v"])
    assert key_of(ROLE) != key_of([*ROLE[:7], "two", *ROLE[8:]])
    assert key_of([*ROLE[:6], "-p", "/play.yml"]) != key_of([*ROLE[:6], "-p", "/other.yml"])


def test_warm_payloads_do_without_a_store(tmp_path: Path) -> None:
    """A run goes on where nothing can be kept."""
    (tmp_path / "store").write_text("a file")
    assert run(tmp_path / "store", tmp_path / "1", builds=("stat",)) == ["stat"]


def test_warm_payloads_do_not_bring_back_the_folder_of_a_server_that_is_gone(tmp_path: Path) -> None:
    """A play may outlive its fork server, whose folder was removed by then: nobody would remove it again."""
    gone = tmp_path / "gone" / "payloads"
    (tmp_path / "gone").mkdir()
    (tmp_path / "source.py").rename(tmp_path / "gone/source.py")
    cache = cache_of(gone)
    cache.put(tmp_path)
    built(tmp_path, "stat")
    shutil.rmtree(tmp_path / "gone")
    cache.keep()
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("change", ["size", "content of the same size and time", "gone"])
def test_warm_payloads_go_with_what_they_were_made_of(tmp_path: Path, source: Path, change: str) -> None:
    """A payload isn't put where one of its sources changed, whether or not anything watches it; it is built anew."""
    run(tmp_path / "store", tmp_path / "1", builds=("stat",))
    before = source.stat()
    if change == "gone":
        source.unlink()
    else:
        source.write_text("22" if change == "size" else "2")
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(tmp_path / "store", tmp_path / "2", builds=("copy",)) == ["copy"]
    if change != "gone":
        run(tmp_path / "store", tmp_path / "3", builds=("stat",))
        assert run(tmp_path / "store", tmp_path / "4") == ["copy", "stat"]


def test_warm_payloads_are_not_kept_where_their_sources_may_have_changed_meanwhile(tmp_path: Path) -> None:
    """What was written during a run, or just before it, may be another thing than what the run read."""
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        cache = cache_of(tmp_path / "store", began_later_ns=0)
        cache.put(tmp_path / str(number))
        built(tmp_path / str(number), "stat")
        cache.keep()
    assert run(tmp_path / "store", tmp_path / "3", builds=("copy",)) == ["copy"]


def test_warm_payloads_of_unknown_sources_are_not_kept(tmp_path: Path) -> None:
    """Where nobody can tell what a payload was made of, it is built in each run."""
    run(tmp_path / "store", tmp_path / "1", builds=("unknown", "stat"))
    assert run(tmp_path / "store", tmp_path / "2", builds=("copy",)) == ["copy", "stat"]


def test_warm_payloads_are_neither_put_nor_kept_where_modules_are_configured(tmp_path: Path) -> None:
    """A run that is told of modules of its own before it begins gets nothing and leaves nothing."""
    run(tmp_path / "store", tmp_path / "1", builds=("stat",))
    (tmp_path / "2").mkdir()
    cache = cache_of(tmp_path / "store")
    cache.spoil("library")
    cache.put(tmp_path / "2")
    built(tmp_path / "2", "copy")
    cache.keep()
    assert sorted(path.name for path in (tmp_path / "2" / FOLDER).iterdir()) == ["copy"]
    assert run(tmp_path / "store", tmp_path / "3") == ["stat"]
