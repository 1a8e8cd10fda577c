"""What the far side does to ansible-core's private parts has the effect that its docstrings tell, on each core."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.settings import environment
from tests.integration.environments.interpreters import CORES, interpreter_of

FAR = Path(__file__).parents[3] / "runner/execution/warm/far"
SCRIPT = Path(__file__).with_name("warm_internals_script.py")


@pytest.fixture(scope="module", params=CORES)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Give what the script found on one ansible-core."""
    folder = tmp_path_factory.mktemp("internals")
    environ = {name: value for name, value in environment().items() if not name.startswith("ANSIBLE_")}
    command = [interpreter_of(request.param), "-P", str(SCRIPT), str(FAR), str(folder)]
    done = subprocess.run(
        command, env=environ, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {**json.loads((folder / "found.json").read_text()), "folder": str(folder), "core": request.param}


def test_warm_internals_know_what_is_loaded(found: dict[str, Any]) -> None:
    """Whether Ansible is imported, and which, is told."""
    assert found["loaded"] == [False, True]
    assert found["version"].startswith(f"{found['core']}.")


def test_warm_internals_find_settings_that_depend_on_the_folder(found: dict[str, Any]) -> None:
    """A relative path in the environment is found, as it was resolved against the working directory."""
    assert found["settings"]["mentioned"] == ["DEFAULT_FILTER_PLUGIN_PATH", "DEFAULT_LOCAL_TMP", "DEFAULT_LOG_PATH"]
    assert found["settings"]["config"] is None
    assert (found["settings"]["debug"], found["settings"]["verbosity"]) == (False, 0)


def test_warm_internals_renew_settings(found: dict[str, Any]) -> None:
    """Temporary folder, roles' path and fact cache follow the environment."""
    assert found["settings"]["local"] == ["first", "second", True]
    assert found["settings"]["others"] == [["/roles/second"], "/facts"]


def test_warm_internals_renew_identifiers(found: dict[str, Any]) -> None:
    """Ids count from the start again, and their random part is another."""
    first, second, renewed = (identifier.rsplit("-", 3) for identifier in found["identifiers"])
    assert int(second[-1], 16) == int(first[-1], 16) + 1
    assert int(renewed[-1], 16) == 1
    assert renewed[1:3] != first[1:3] == second[1:3]


def test_warm_internals_renew_the_display(found: dict[str, Any]) -> None:
    """A warning is shown once more on the new streams, which take any text; verbosity and width start anew."""
    shown = found["display"]
    assert (shown["counts"], shown["verbosity"], shown["columns"]) == ([1, 1], 0, 79)
    assert shown["errors"] == "_replacing_warning_handler"


def test_warm_internals_renew_the_log(found: dict[str, Any]) -> None:
    """The log file is opened anew."""
    assert found["log"] == ["one", "two"]


def test_warm_internals_renew_locks(found: dict[str, Any]) -> None:
    """A lock that somebody else holds is free for the next run; ansible-core 2.18 has some."""
    assert found["locks"]["free"]
    assert bool(found["locks"]["held"]) == (found["core"] == "2.18")


def test_warm_internals_renew_the_names_of_workers(found: dict[str, Any]) -> None:
    """The first worker of each run has the same name."""
    assert found["workers"][0] == found["workers"][1]
    assert found["workers"][0].endswith("-1")


def test_warm_internals_keep_the_parser(found: dict[str, Any]) -> None:
    """A parser that was built once parses each time as one that was built for it."""
    assert found["parser"] == {"same": [True, True], "one": True, "prog": found["parser"]["prog"]}


def test_warm_internals_forget_a_play(found: dict[str, Any]) -> None:
    """After it a command line starts as the first of its process: no arguments, no secrets, no finder, no warning."""
    assert found["play"] == {"arguments": {}, "kept": True, "warned": [], "finder": True}


def test_warm_internals_let_plugins_beside_content_come_first(found: dict[str, Any]) -> None:
    """A plugin in an added directory stands in for one that was loaded before, and the directory is told of once."""
    assert found["plugins"] == {"copied": True, "told": ["action_plugins"], "mine": True}


def test_warm_internals_shadow_the_local_connection(found: dict[str, Any]) -> None:
    """Our connection plugin comes before Ansible's and after anybody else's."""
    assert found["connection"] == {"shadowed": True, "first": "ours", "second": "theirs", "again": False}


def test_warm_internals_prepare_for_templates(found: dict[str, Any]) -> None:
    """Ansible's own filters and tests are loaded once; where a folder of others is there, all are looked for anew."""
    assert found["templating"] == {"loaded": [True, True, True], "kept": True, "own": True}
