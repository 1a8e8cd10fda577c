"""Plugins and modules in configured folders are in each warm run what they are on disk, though nobody watches them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.environments.interpreters import CORES, interpreter_of
from tests.integration.execution.runner_output import whole
from tests.integration.execution.warm_lab import Lab, Left, lab

MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.said import SAID
AnsibleModule(argument_spec={}, supports_check_mode=True).exit_json(said=SAID + "WORD")
"""
LOOKUP = """
from ansible.plugins.lookup import LookupBase
class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        return ["WORD"]
"""
FILTER = """
class FilterModule:
    def filters(self):
        return {"one": lambda value: "WORD"}
"""
ACTION = """
from ansible.plugins.action import ActionBase
class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {"said": "WORD"}
"""
KINDS = {
    "library": MODULE,
    "module_utils": "SAID = 'WORD'",
    "lookup_plugins": LOOKUP,
    "filter_plugins": FILTER,
    "action_plugins": ACTION,
}
USES: dict[str, dict[str, Any]] = {
    "library": {"NAME": {}},
    "lookup_plugins": {"set_fact": {"said": "{{ lookup('NAME') }}"}},
    "filter_plugins": {"set_fact": {"said": "{{ 1 | one }}"}},
    "action_plugins": {"NAME": {}},
}


@pytest.fixture(scope="module", params=CORES)
def core(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Give a lab on one ansible-core, with a folder for each kind; only those of modules exist at its start."""
    folder = tmp_path_factory.mktemp("configured")
    variables = {"library": "LIBRARY", "module_utils": "MODULE_UTILS"}
    named = {f"ANSIBLE_{variables.get(kind, kind.upper())}": str(folder / kind) for kind in KINDS}
    write(folder, "module_utils", name="said", word="utility ")
    write(folder, "library", name="early", word="early")
    with lab(interpreter_of(request.param), folder=folder, **named) as made:
        yield made


def write(folder: Path, kind: str, *, name: str, word: str) -> None:
    """Put a plugin or module there, or change it."""
    (folder / kind).mkdir(exist_ok=True)
    (folder / kind / f"{name}.py").write_text(KINDS[kind].replace("WORD", word))


def said(left: Left) -> list[str]:
    """Return what the run's tasks said."""
    results = [event["event_data"].get("res", {}) for event in left.events if event["event"] == "runner_on_ok"]
    return [result.get("ansible_facts", result).get("said", "") for result in results]


def uses(core: Lab, kind: str, *, name: str) -> Path:
    """Return a playbook that uses *name*."""
    task = {key.replace("NAME", name): value for key, value in USES[kind].items()}
    if kind == "lookup_plugins":
        task = {"set_fact": {"said": f"{{{{ lookup('{name}') }}}}"}}
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]
    return core.content(play, name=f"{kind}-{name}")


@pytest.mark.parametrize("kind", USES)
def test_warm_run_finds_configured_plugins_as_they_are_now(core: Lab, kind: str) -> None:
    """A module or plugin that came, or changed, after the server looked is in the next warm run what it is on disk."""
    name = f"of_{kind}"
    write(core.folder, kind, name=name, word="first")
    playbook = uses(core, kind, name=name)
    for word in ("first", "second", "third"):
        write(core.folder, kind, name=name, word=word)
        cold, warm = core.both(playbook)
        assert said(warm) == said(cold)
        assert said(warm)[0].endswith(word)


def test_warm_run_finds_configured_utilities_as_they_are_now(core: Lab) -> None:
    """A module is sent with the utilities that are there when it runs, not with those of an earlier run."""
    playbook = uses(core, "library", name="early")
    for word in ("utility ", "another "):
        write(core.folder, "module_utils", name="said", word=word)
        assert said(core.run(playbook, warm=True)) == [f"{word}early"]


def test_warm_run_finds_no_plugin_that_is_gone(core: Lab) -> None:
    """A module that was removed is missed in the same words as cold."""
    write(core.folder, "library", name="leaving", word="there")
    playbook = uses(core, "library", name="leaving")
    assert said(core.run(playbook, warm=True))[0].endswith("there")
    (core.folder / "library/leaving.py").unlink()
    cold, warm = core.both(playbook)
    assert warm.code == cold.code
    assert whole(warm.stdout, events=warm.events) == whole(cold.stdout, events=cold.events)
    assert cold.code != 0


def test_warm_run_lets_a_configured_plugin_come_before_ansibles_own(core: Lab) -> None:
    """A plugin that has the name of one that the server had loaded is the one that runs."""
    write(core.folder, "action_plugins", name="debug", word="not Ansible's")
    try:
        play = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"debug": {"msg": "x"}}]}]
        cold, warm = core.both(core.content(play, name="shadowed"))
        assert said(warm) == said(cold) == ["not Ansible's"]
    finally:
        (core.folder / "action_plugins/debug.py").unlink()
