"""What content finds around itself in a run: working directory, configuration, roles, inventory, arguments.

All of it is what the peer's runs have, as content depends on it; two runs are made once, and each test reads one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from runner.execution.executor import Outcome
from runner.watches.model import Content
from tests.integration.execution.bench import Bench, Warm

ROLE = """
- ansible.builtin.command: pwd
  register: cwd
- ansible.builtin.include_role: {name: sibling}
- ansible.builtin.copy: {dest: "{{ out }}", content: "{{ seen | to_json }}"}
  vars:
    seen:
      cwd: "{{ cwd.stdout }}"
      config: "{{ ansible_config_file | default('', true) }}"
      forks: "{{ lookup('config', 'DEFAULT_FORKS') }}"
      sibling: "{{ from_sibling }}"
      beside: "{{ lookup('file', 'beside.txt') }}"
      facts: "{{ ansible_facts | length }}"
      quoted: "{{ quoted }}"
      dynamic: "{{ groups['dynamic'] }}"
      fixed: "{{ groups['fixed'] }}"
      environment: "{{ dict(names | zip(values)) }}"
    names: [ANSIBLE_STDOUT_CALLBACK, ORIGINAL_STDOUT_CALLBACK, ANSIBLE_ROLES_PATH, ANSIBLE_RETRY_FILES_ENABLED,
            ANSIBLE_HOST_KEY_CHECKING, ANSIBLE_CACHE_PLUGIN, AWX_ISOLATED_DATA_DIR]
    values: "{{ query('env', *names) }}"
"""
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
  - ansible.builtin.copy: {dest: "{{ out }}", content: "{{ seen | to_json }}"}
    vars:
      seen:
        beside: "{{ lookup('file', 'beside.txt') }}"
        interpreter: "{{ ansible_python_interpreter }}"
        connection: "{{ ansible_connection }}"
        host_key: "{{ lookup('env', 'ANSIBLE_HOST_KEY_CHECKING') }}"
        config: "{{ ansible_config_file | default('', true) }}"
"""
INVENTORY_PROGRAM = """#!/bin/sh
echo '{"dynamic": {"hosts": ["localhost"]}}'
"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a run found."""

    outcome: Outcome
    root: Path
    values: Mapping[str, Any]

    @property
    def directory(self) -> Path:
        """Return the run's directory."""
        return self.root / "runner/bugs.example.com/v1/Probe/default/probe"

    @property
    def command(self) -> Mapping[str, Any]:
        """Return what ansible-runner started."""
        found: Mapping[str, Any] = json.loads((self.directory / "artifacts/latest/command").read_text())
        return found


async def _run(bench: Bench, content: Content, *, verbosity: int = 2, **settings: Any) -> Seen:
    out = bench.root / "seen.json"
    request = replace(bench.request(content, vars={"out": str(out)}), verbosity=verbosity)
    outcome = await bench.executor(**settings).run(request)
    return Seen(outcome=outcome, root=bench.root, values=json.loads(out.read_text()) if out.exists() else {})


@pytest.fixture(scope="module")
def role(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Seen:
    """Run a role of a collection, with an inventory, arguments and an ansible.cfg of the user's."""
    root = tmp_path_factory.mktemp("role")
    home, inventory = root / "home", root / "inventory"
    for folder in (home, inventory):
        folder.mkdir()
    (home / ".ansible.cfg").write_text("[defaults]\nforks = 3\n")
    (root / "ansible.cfg").write_text("[defaults]\nforks = 1\n")
    (inventory / "hosts").write_text(
        "[fixed]\nlocalhost ansible_connection=local ansible_python_interpreter={{ansible_playbook_python}}\n"
    )
    (inventory / "dynamic.sh").write_text(INVENTORY_PROGRAM)
    (inventory / "dynamic.sh").chmod(0o755)
    roles = root / "collections/ansible_collections/my/own/roles"
    for name, tasks in {"probe": ROLE, "sibling": "- ansible.builtin.set_fact: {from_sibling: here}\n"}.items():
        (roles / name / "tasks").mkdir(parents=True)
        (roles / name / "tasks/main.yml").write_text(tasks)
    (roles / "probe/files").mkdir()
    (roles / "probe/files/beside.txt").write_text("of the role")
    environ = {
        "HOME": str(home),
        "ANSIBLE_INVENTORY": str(inventory),
        "ANSIBLE_STDOUT_CALLBACK": "minimal",
        "ANSIBLE_ROLES_PATH": "/elsewhere",
        "ANSIBLE_GATHERING": "explicit",
    }
    bench = Bench(root, environ=environ, warm=warm)
    arguments = '\'-e "quoted=\\"two words\\"" --forks 4\''
    return asyncio.run(_run(bench, Content(role=roles / "probe/"), verbosity=9, ansible_args=arguments))


@pytest.fixture(scope="module")
def playbook(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Seen:
    """Run a playbook with the generated inventory, inside a virtual environment."""
    root = tmp_path_factory.mktemp("playbook")
    (root / "beside.txt").write_text("of the playbook")
    (root / "ansible.cfg").write_text("[defaults]\nforks = 1\n")
    environ = {"VIRTUAL_ENV": sys.prefix, "ANSIBLE_HOST_KEY_CHECKING": "True", "HOME": str(root / "nobody")}
    bench = Bench(root, environ=environ, warm=warm)
    return asyncio.run(_run(bench, bench.playbook(PLAYBOOK)))


def test_a_run_works_in_the_project_folder(role: Seen) -> None:
    """The working directory of Ansible is `project` of the run's directory, and its arguments are the peer's."""
    assert role.outcome.success, role.outcome.failures
    directory = str(role.directory)
    assert (role.values["cwd"], role.command["cwd"]) == (f"{directory}/project", f"{directory}/project")
    command = role.command["command"]
    assert command[:5] == ["ansible-playbook", "-e", 'quoted="two words"', "--forks", "4"]
    assert command[5:-1] == ["-i", f"{directory}/inventory", "-e", f"@{directory}/env/extravars", "-vvvvvvvvv"]


def test_quotes_in_the_arguments_hold_words_together(role: Seen) -> None:
    """--ansible-args is split as a shell would."""
    assert role.values["quoted"] == "two words"


def test_ansible_cfg_is_found_in_the_home_and_never_beside_the_content(role: Seen, playbook: Seen) -> None:
    """`~/.ansible.cfg` counts; one in the image's project folder is not read, as with the peer."""
    assert role.values["config"] == str(role.root / "home/.ansible.cfg")
    assert playbook.outcome.success, playbook.outcome.failures
    assert not playbook.values["config"].startswith(str(playbook.root))


def test_sibling_roles_and_files_of_the_role_resolve(role: Seen) -> None:
    """Beside the role's folder nothing is a roles path: the user's variable is replaced for the run."""
    assert (role.values["sibling"], role.values["beside"]) == ("here", "of the role")
    roles = role.root / "collections/ansible_collections/my/own/roles"
    assert role.values["environment"]["ANSIBLE_ROLES_PATH"] == str(roles)


def test_ansible_runners_settings_are_forced(role: Seen) -> None:
    """Its callback reads the events, the user's own is known by another name; facts are cached as JSON."""
    environment = role.values["environment"]
    assert environment["ANSIBLE_STDOUT_CALLBACK"] == "awx_display"
    assert environment["ORIGINAL_STDOUT_CALLBACK"] == "minimal"
    assert environment["ANSIBLE_RETRY_FILES_ENABLED"] == "False"
    assert environment["ANSIBLE_HOST_KEY_CHECKING"] == "False"
    assert environment["ANSIBLE_CACHE_PLUGIN"] == "jsonfile"
    assert environment["AWX_ISOLATED_DATA_DIR"]


def test_the_users_host_key_checking_stays(playbook: Seen) -> None:
    """It is switched off only where the environment says nothing."""
    assert playbook.values["host_key"] == "True"


def test_facts_are_not_gathered_where_the_environment_says_explicit(role: Seen) -> None:
    """ANSIBLE_GATHERING=explicit becomes --role-skip-facts."""
    assert role.values["facts"] == 0


def test_an_inventory_folder_serves_files_and_programs(role: Seen) -> None:
    """A program in it is executed, as its mode was copied."""
    assert (role.values["dynamic"], role.values["fixed"]) == (["localhost"], ["localhost"])


def test_relative_files_lie_beside_the_playbook(playbook: Seen) -> None:
    """Not beside its copy in the run's directory, which is for people."""
    assert playbook.values["beside"] == "of the playbook"
    assert (playbook.directory / "project/playbook.yaml").read_text() == PLAYBOOK


def test_modules_run_in_the_virtual_environment(playbook: Seen) -> None:
    """The generated inventory names its interpreter, and a local connection."""
    assert playbook.values["interpreter"] == f"{sys.prefix}/bin/python3"
    assert playbook.values["connection"] == "local"


def test_the_throw_away_playbook_is_gone(role: Seen) -> None:
    """ansible-runner's own playbook of a role run leaves nothing in `project`."""
    assert list((role.directory / "project").iterdir()) == []
