"""What must be the same for a playbook to be forked, and whether a program is ansible-playbook on this interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runner.execution.warm.far.sameness import (
    OF_A_PLAYBOOK,
    OF_A_RUN,
    Imported,
    differing,
    interpreter_of_playbook,
    state_of,
)

ENTRY = "import sys\nfrom ansible.cli.playbook import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


def test_warm_sameness_names_variables_and_never_values() -> None:
    """A difference is told by the variable's name, whether it is changed, added or missing."""
    names = differing({"A": "secret", "B": "1", "D": "4"}, {"A": "other", "B": "1", "C": "3"}, known=frozenset())
    assert names == ["A", "C", "D"]


def test_warm_sameness_lets_variables_of_a_run_differ() -> None:
    """What the operator and ansible-runner give each run doesn't keep it from being forked."""
    given = dict.fromkeys(OF_A_PLAYBOOK, "one")
    assert differing(given, {}, known=OF_A_PLAYBOOK) == []
    assert "KUBECONFIG" in differing(given, {}, known=OF_A_RUN)


def test_warm_sameness_refuses_another_variable(tmp_path: Path) -> None:
    """A playbook with a variable that the server doesn't have is started."""
    imported = Imported(environ={"HOME": "/home"})
    assert imported.why_not({"HOME": "/home"}, cwd=str(tmp_path)) is None
    assert imported.why_not({"HOME": "/other"}, cwd=str(tmp_path)) == "variables differ from the fork server's: HOME"


def test_warm_sameness_refuses_a_folder_with_a_configuration(tmp_path: Path) -> None:
    """A playbook is started where an ansible.cfg in its folder would be read."""
    imported = Imported(environ={})
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    assert imported.why_not({}, cwd=str(tmp_path)) == f"there is {tmp_path / 'ansible.cfg'}"


def test_warm_sameness_refuses_a_configuration_that_changed(tmp_path: Path) -> None:
    """A playbook is started where the ansible.cfg that the server read is another one by now, or gone."""
    config = tmp_path / "operator.cfg"
    config.write_text("[defaults]\n")
    imported = Imported(environ={}, config=str(config), config_state=state_of(str(config)))
    assert imported.why_not({}, cwd=str(tmp_path)) is None
    config.write_text("[defaults]\nforks = 1\n")
    assert imported.why_not({}, cwd=str(tmp_path)) == f"{config} changed"
    config.unlink()
    assert imported.why_not({}, cwd=str(tmp_path)) == f"{config} changed"


def test_warm_sameness_refuses_settings_of_the_server_s_folder(tmp_path: Path) -> None:
    """A setting that was resolved against the working directory keeps every playbook from being forked."""
    imported = Imported(environ={}, of_folder=("DEFAULT_FILTER_PLUGIN_PATH",))
    reason = imported.why_not({}, cwd=str(tmp_path))
    assert reason == "settings depend on the working directory: DEFAULT_FILTER_PLUGIN_PATH"


def own(name: str = "python3") -> str:
    """Return an interpreter beside this one, as an installer may spell it."""
    return str(Path(sys.executable).with_name(name))


@pytest.mark.parametrize(
    "first",
    [f"#!{own()}", f"#!/bin/sh\n'''exec' \"{own()}\" \"$0\" \"$@\"\n' '''"],
    ids=["plain", "long path"],
)
def test_warm_sameness_knows_ansible_playbook(tmp_path: Path, first: str) -> None:
    """The program that an installer made for this interpreter is known, with the interpreter as it is spelt there."""
    program = tmp_path / "ansible-playbook"
    program.write_text(f"{first}\n{ENTRY}")
    assert interpreter_of_playbook(str(program)) == own()


@pytest.mark.parametrize(
    "text",
    [
        f"#!/usr/bin/env python3\n{ENTRY}",
        f"#!/nowhere/python3\n{ENTRY}",
        f"#!{own()}\nfrom ansible.cli.adhoc import main\nmain()\n",
        f'#!/bin/sh\nexec {own()} -m ansible.cli.playbook "$@"\n',
        "",
    ],
    ids=["found in PATH", "another interpreter", "another program", "a wrapper", "empty"],
)
def test_warm_sameness_knows_no_other_program(tmp_path: Path, text: str) -> None:
    """A program that isn't known to be ansible-playbook on this interpreter is started."""
    program = tmp_path / "ansible-playbook"
    program.write_text(text)
    assert interpreter_of_playbook(str(program)) is None
    assert interpreter_of_playbook(str(tmp_path / "missing")) is None
