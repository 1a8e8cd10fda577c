"""What the start says about the two environments: refusals, notes, and the versions line."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runner.errors import ConfigError
from runner.execution.environment import Facts, check_environments, notes_on, read_facts, refuse
from runner.logs import Logger, RecordingSink
from runner.settings import ExecutionSettings, environment

GOOD = {"ansible-core": "2.19.14", "ansible-runner": "2.4.3", "kubernetes": "33.1.0"}
OWN = Facts(interpreter="/own/python", python="3.11.7")
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"


def _facts(**packages: str | None) -> Facts:
    changes = {name.replace("_", "-"): version for name, version in packages.items()}
    found = {name: version for name, version in {**GOOD, **changes}.items() if version is not None}
    return Facts(interpreter="/opt/python", python="3.12.1", packages=found)


def _package(folder: Path, name: str, *, version: str, needs: tuple[str, ...] = ()) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
    (info / "METADATA").write_text(METADATA.format(name=name, version=version, needs=lines))


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({"ansible_core": None}, "/opt/python has no ansible-core; .*--ansible-python"),
        ({"ansible_runner": None}, "/opt/python has no ansible-runner; .*--ansible-python"),
        ({"ansible_core": None, "ansible_runner": None}, "no ansible-core and no ansible-runner"),
    ],
)
def test_an_interpreter_that_can_run_no_play_is_refused(missing: dict[str, None], words: str) -> None:
    """The refusal names the interpreter, what it lacks and the flag that names another."""
    with pytest.raises(ConfigError, match=words):
        refuse(_facts(**missing))


def test_a_python_that_is_too_old_is_refused() -> None:
    """No supported ansible-core runs on it, so the refusal says which one is needed."""
    with pytest.raises(ConfigError, match=r"/opt/python is Python 3\.9\.18, and 3\.11 is needed"):
        refuse(replace(_facts(), python="3.9.18"))


@pytest.mark.parametrize("version", ["2.18.0", "2.18.19", "2.19.14", "2.19.0rc1"])
def test_a_tested_ansible_core_needs_no_note(version: str) -> None:
    """Both supported series are silent."""
    refuse(_facts(ansible_core=version))
    assert notes_on(_facts(ansible_core=version), own=OWN) == []


@pytest.mark.parametrize(
    ("packages", "words"),
    [
        ({"ansible_core": "2.17.9"}, "ansible-core 2.17.9 is older than what is tested (2.18 and 2.19)"),
        ({"ansible_core": "2.20.0b1"}, "ansible-core 2.20.0b1 is newer than what is tested (2.18 and 2.19)"),
        ({"ansible_core": "3.0"}, "newer than what is tested"),
        ({"ansible_core": ""}, "tells no version"),
        ({"ansible_runner": "2.3.6"}, "ansible-runner 2.3.6 is older than 2.4.1"),
        ({"kubernetes": None}, "/opt/python has no kubernetes client: the modules of kubernetes.core"),
        ({"kubernetes": "11.0.0"}, "the kubernetes client 11.0.0 of /opt/python is too old"),
    ],
)
def test_what_may_go_wrong_later_is_noted_and_not_refused(packages: dict[str, str | None], words: str) -> None:
    """An untested version or a missing client is one sentence with the versions; the operator starts."""
    refuse(_facts(**packages))
    (note,) = notes_on(_facts(**packages), own=OWN)
    assert words in note


@pytest.mark.parametrize("version", ["12.0.0", "37.0.1"])
def test_an_old_client_that_still_works_needs_no_note(version: str) -> None:
    """From 12 on the modules work."""
    assert notes_on(_facts(kubernetes=version), own=OWN) == []


async def test_a_conflict_between_packages_is_named_with_the_remedy(tmp_path: Path) -> None:
    """A package that gets another version than it needs, or none, is told with the interpreter to mend it with."""
    _package(tmp_path, "ansible-core", version="2.18.19", needs=("packaging", "resolvelib<1.1.0,>=0.5.3", "gone>=1"))
    _package(tmp_path, "resolvelib", version="1.2.1", needs=("tests-only; extra == 'test'",))
    settings = ExecutionSettings(environ={**environment(), "PYTHONPATH": str(tmp_path)})
    facts = await read_facts(sys.executable, settings=settings, roots=["ansible-core"])
    assert facts.packages["ansible-core"] == "2.18.19"
    first, second = notes_on(facts, own=OWN)
    assert first == f"ansible-core 2.18.19 needs gone, which is not there; mend it with {sys.executable} -m pip install"
    assert "ansible-core 2.18.19 needs resolvelib<1.1.0,>=0.5.3, but 1.2.1 is there" in second
    without = await read_facts(
        sys.executable, settings=settings, roots=["ansible-core"], leave_out=["gone", "resolvelib"]
    )
    assert without.conflicts == ()


async def test_the_versions_are_one_record() -> None:
    """The record of the start names the interpreter and the versions, and there is nothing else to say."""
    sink = RecordingSink()
    settings = ExecutionSettings(environ=environment(), ansible_python=sys.executable)
    assert await check_environments(settings, logger=Logger(sink=sink))
    record = sink.records[0]
    assert (record["logger"], record["msg"]) == ("cmd", "Versions")
    assert record["ansible-core"].startswith("2.19.")
    assert record["ansiblePython"] == sys.executable
    assert record["kubernetes"] == record["ownKubernetes"]
    assert sink.sentences() == ["Versions"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, r"no Python interpreter .*/python; set --ansible-python"),
        ("#!/nowhere/at/all\n", "cannot start the Python interpreter .*--ansible-python"),
        ("#!/bin/sh\necho 'what is this' >&2; exit 3\n", r"\(what is this\); set --ansible-python"),
        ("#!/bin/sh\nexit 3\n", r"\(exit code 3\); set --ansible-python"),
        ('#!/bin/sh\nexec python3 -S "$@"\n', "has no ansible-core and no ansible-runner; .*--ansible-python"),
    ],
    ids=["missing", "no-interpreter", "complains", "silent", "bare"],
)
async def test_an_interpreter_that_is_none_is_a_start_up_error(tmp_path: Path, script: str | None, words: str) -> None:
    """Each way in which `--ansible-python` may be wrong ends the start with a sentence that names it and the flag."""
    python = tmp_path / "python"
    if script is not None:
        python.write_text(script)
        python.chmod(0o755)
    settings = ExecutionSettings(environ=environment(), ansible_python=str(python))
    with pytest.raises(ConfigError, match=words):
        await check_environments(settings, logger=Logger(sink=RecordingSink()))


async def test_a_note_is_a_warning_in_the_log(tmp_path: Path) -> None:
    """An environment that works and deserves a thought is told after the versions; the start goes on."""
    for name in ("ansible-core", "ansible-runner"):
        _package(tmp_path, name, version="2.17.0" if name == "ansible-core" else "2.4.3")
    sink = RecordingSink()
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    settings = ExecutionSettings(environ=environment(), ansible_python=str(bare))
    await check_environments(settings, logger=Logger(sink=sink))
    assert [record["level"] for record in sink.records] == ["info", "warn", "warn"]
    notes = [record["note"] for record in sink.records if "note" in record]
    assert [
        words in note for words, note in zip(("ansible-core 2.17.0", "no kubernetes client"), notes, strict=True)
    ] == [
        True,
        True,
    ]
