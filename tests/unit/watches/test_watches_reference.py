"""docs/watches.md, the reference of the keys, agrees with the loader."""

from __future__ import annotations

import re
from pathlib import Path

from runner.watches import loader, own_keys
from tests.unit.watches.conftest import Project

PAGE = (Path(__file__).resolve().parents[3] / "docs/watches.md").read_text()
ROW = re.compile(r"\| `(?P<key>\w+)` \| (?P<type>[^|]*) \| (?P<default>[^|]*) \| (?P<meaning>[^|]*) \|")
ROWS = {row["key"]: row for row in ROW.finditer(PAGE)}


def test_the_page_has_each_key_of_an_entry_once() -> None:
    """Nothing that the loader knows is missing, nothing else is there; nested keys are named in the type."""
    assert sorted(row["key"] for row in ROW.finditer(PAGE)) == sorted(loader.ENTRY_KEYS)
    nested = {"finalizer": loader.FINALIZER_KEYS, "blacklist": loader.GVK_KEYS}
    for key, names in {**nested, "watchDependentStatus": own_keys.STATUS_KEYS}.items():
        assert set(re.findall(r"`(\w+)`", ROWS[key]["type"])) == set(names)


def test_the_page_marks_the_keys_that_are_ours() -> None:
    """Those that the Go operator doesn't know."""
    ours = {key for key, row in ROWS.items() if "**ours**" in row["meaning"]}
    assert ours == {"runTimeout", "watchDependentStatus", "executor", "handlers"}


def test_the_pages_defaults_are_the_loaders(project: Project) -> None:
    """Each boolean, and the number of kept runs, is what an entry without the key gets."""
    watch = project.one("- {version: v1, kind: Web, role: web}\n")
    told = {key: row["default"].strip("`") for key, row in ROWS.items() if row["type"] in ("boolean", "number")}
    snake = {key: re.sub("([A-Z])", r"_\1", key).lower() for key in told}
    assert told == {key: str(getattr(watch, snake[key])).lower() for key in told}


def test_the_pages_entry_loads_without_a_note(project: Project) -> None:
    """The example can be pasted."""
    project.add("roles/greeting")
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert project.one(example).gvk.kind == "Greeting"
