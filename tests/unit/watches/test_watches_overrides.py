"""Workers and verbosity of one watch from the environment (field case CC1)."""

from __future__ import annotations

import pytest

from runner.kube.objects import GVK
from runner.settings import Settings
from runner.watches.overrides import Chosen, verbosity, workers
from tests.unit.watches.conftest import Project

PROBE = GVK("bugs.example.com", "v1", "Probe")
MAX = "MAX_CONCURRENT_RECONCILES_PROBE_BUGS_EXAMPLE_COM"
OLD = "WORKER_PROBE_BUGS_EXAMPLE_COM"
VERBOSITY = "ANSIBLE_VERBOSITY_PROBE_BUGS_EXAMPLE_COM"
EIGHT, TWO = Chosen(value=8, source="eight"), Chosen(value=2, source="two")
DEPRECATED = f"Environment variable {OLD} is deprecated, use {MAX} instead"


def refused(name: str, *, text: str, wanted: str = "of at least 1", default: int = 8) -> str:
    """Return the note about a value that does not count."""
    return f'Environment variable {name}="{text}" is not an integer {wanted}; using the default {default}'


@pytest.mark.parametrize(
    ("environ", "expected", "notes"),
    [
        ({}, EIGHT, []),
        ({MAX: "3"}, Chosen(value=3, source=MAX), []),
        ({MAX: "+3"}, Chosen(value=3, source=MAX), []),
        ({OLD: "2"}, Chosen(value=2, source=OLD), [DEPRECATED]),
        ({MAX: "3", OLD: "2"}, Chosen(value=3, source=MAX), []),
        ({MAX: "0"}, EIGHT, [refused(MAX, text="0")]),
        ({MAX: "-1"}, EIGHT, [refused(MAX, text="-1")]),
        ({MAX: "many"}, EIGHT, [refused(MAX, text="many")]),
        ({MAX: " 3"}, EIGHT, [refused(MAX, text=" 3")]),
        ({MAX: "3_0"}, EIGHT, [refused(MAX, text="3_0")]),
        ({MAX: "9" * 5000}, EIGHT, [refused(MAX, text="9" * 5000)]),
        ({MAX: "", OLD: "2"}, EIGHT, [refused(MAX, text="")]),
        ({OLD: "x"}, EIGHT, [DEPRECATED, refused(OLD, text="x")]),
    ],
)
def test_workers_come_from_the_variable_then_the_old_one_then_the_flag(
    environ: dict[str, str], expected: Chosen, notes: list[str]
) -> None:
    """A value that is no positive number gives way to the default, with a note; where it comes from is kept."""
    written: list[str] = []

    assert workers(PROBE, environ=environ, default=EIGHT, notes=written) == expected
    assert written == notes


def test_a_watch_has_a_thousand_workers_at_most() -> None:
    """Each is a task from the start; a note tells that there are fewer than asked for."""
    notes: list[str] = []

    chosen = workers(PROBE, environ={MAX: "999999999999999999"}, default=EIGHT, notes=notes)
    assert chosen == Chosen(value=1000, source=MAX)
    assert notes == [f"{MAX} asks for 999999999999999999 workers; using the most, 1000"]
    assert workers(PROBE, environ={MAX: "1000"}, default=EIGHT, notes=[]) == Chosen(value=1000, source=MAX)


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("7", 7), ("+3", 3)])
def test_verbosity_may_be_0_to_7(text: str, expected: int) -> None:
    """The variable's value counts."""
    notes: list[str] = []

    chosen = verbosity(PROBE, environ={VERBOSITY: text}, default=TWO, notes=notes)
    assert chosen == Chosen(value=expected, source=VERBOSITY)
    assert notes == []


@pytest.mark.parametrize("text", ["8", "-1", "x", "", "1.5"])
def test_another_verbosity_gives_way_to_the_default(text: str) -> None:
    """The note names the variable, its value and what counts instead."""
    notes: list[str] = []

    assert verbosity(PROBE, environ={VERBOSITY: text}, default=TWO, notes=notes) == TWO
    assert notes == [refused(VERBOSITY, text=text, wanted="from 0 to 7", default=2)]


def test_a_hyphen_in_the_group_may_be_written_as_an_underscore() -> None:
    """No shell can set the peer's name of such a group; the peer's own name goes first."""
    gvk = GVK("my-group.io", "v1", "Web")
    underscore, hyphen = "MAX_CONCURRENT_RECONCILES_WEB_MY_GROUP_IO", "MAX_CONCURRENT_RECONCILES_WEB_MY-GROUP_IO"

    assert workers(gvk, environ={underscore: "3"}, default=EIGHT, notes=[]).value == 3
    both = workers(gvk, environ={underscore: "3", hyphen: "4"}, default=EIGHT, notes=[])
    assert both == Chosen(value=4, source=hyphen)
    assert verbosity(gvk, environ={"ANSIBLE_VERBOSITY_WEB_MY_GROUP_IO": "5"}, default=TWO, notes=[]).value == 5


def test_the_core_group_leaves_a_trailing_underscore() -> None:
    """The peer's rule for an empty group."""
    environ = {"MAX_CONCURRENT_RECONCILES_SECRET_": "3", "MAX_CONCURRENT_RECONCILES_SECRET": "5"}

    assert workers(GVK("", "v1", "Secret"), environ=environ, default=EIGHT, notes=[]).value == 3


def test_the_environment_beats_the_flags_for_its_own_kind_only(project: Project) -> None:
    """Other kinds keep the flags' values; notes reach the caller."""
    text = """
- {group: bugs.example.com, version: v1, kind: Probe, role: web}
- {group: bugs.example.com, version: v1, kind: Other, role: web}
"""
    settings = Settings(max_concurrent_reconciles=8, ansible_verbosity=1)
    loaded = project.load(text, environ={OLD: "3", VERBOSITY: "4"}, settings=settings)

    assert [(w.max_concurrent_reconciles, w.ansible_verbosity) for w in loaded.watches] == [(3, 4), (8, 1)]
    assert loaded.notes == (DEPRECATED,)
