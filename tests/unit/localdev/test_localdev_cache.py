"""The cache's place, key, lock and remembered durations."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from runner.errors import LocalPlaneError
from runner.localdev.cache import SOURCES, Cache, key, kubernetes_version


def copied_sources(target: Path) -> Path:
    """Return a copy of the Go sources."""
    return Path(shutil.copytree(SOURCES, target))


def test_the_cache_is_below_xdg_cache_home(tmp_path: Path) -> None:
    """An absolute XDG_CACHE_HOME is the base of the cache."""
    assert Cache.of({"XDG_CACHE_HOME": str(tmp_path)}).root == tmp_path / "ansible-operator-runner" / "localplane"


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_without_a_usable_xdg_cache_home_it_is_below_home(tmp_path: Path, value: str) -> None:
    """An empty or relative XDG_CACHE_HOME is ignored, as its specification asks."""
    found = Cache.of({"XDG_CACHE_HOME": value, "HOME": str(tmp_path)}).root
    assert found == tmp_path / ".cache" / "ansible-operator-runner" / "localplane"


def test_the_key_names_the_version_and_changes_with_the_sources(tmp_path: Path) -> None:
    """A changed Go source is another cache folder; an unchanged copy is the same one."""
    sources = copied_sources(tmp_path / "sources")
    assert key(sources) == key()
    assert kubernetes_version() in key()
    (sources / "main.go").write_text((sources / "main.go").read_text() + "\n// changed\n")
    assert key(sources) != key()


def test_files_that_are_no_sources_do_not_change_the_key(tmp_path: Path) -> None:
    """An editor's backup beside the sources costs no build."""
    sources = copied_sources(tmp_path / "sources")
    (sources / "main.go~").write_text("old")
    assert key(sources) == key()


def test_a_go_mod_without_kubernetes_is_named(tmp_path: Path) -> None:
    """Damaged sources are reported with the file's path."""
    (tmp_path / "go.mod").write_text("module localplane\n")
    with pytest.raises(LocalPlaneError, match=str(tmp_path / "go.mod")):
        kubernetes_version(tmp_path)


def test_durations_are_remembered(tmp_path: Path) -> None:
    """The time that a task took is known the next time, beside those of other tasks."""
    Cache(tmp_path / "new").remember_duration("build", seconds=606.3)
    Cache(tmp_path / "new").remember_duration("toolchain", seconds=11)
    assert Cache(tmp_path / "new").last_duration("build") == 606.3
    assert Cache(tmp_path / "new").last_duration("other") is None


@pytest.mark.parametrize("content", ["{", "[]", '{"build": "long"}'])
def test_a_damaged_durations_file_costs_only_the_estimate(tmp_path: Path, content: str) -> None:
    """A durations file that can't be read means that nobody knows."""
    (tmp_path / "durations.json").write_text(content)
    assert Cache(tmp_path).last_duration("build") is None


def test_the_second_writer_waits_and_says_so(tmp_path: Path) -> None:
    """Two who want to build at once do it one after the other."""
    cache, order, waits = Cache(tmp_path), list[str](), threading.Event()

    def second() -> None:
        with cache.lock(report=lambda _: waits.set()):
            order.append("second")

    with cache.lock(report=order.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]
