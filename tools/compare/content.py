"""Ansible content of the cases, as values: tasks that the cases' roles and playbooks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Task = Mapping[str, Any]

UNDEFINED = "(undefined)"
_FILE = (
    "{{ lookup('ansible.builtin.env', 'COMPARE_SEEN') }}/{{ ansible_operator_meta.name }}"
    ".{{ now(utc=true).strftime('%Y%m%d%H%M%S%f') }}.json"
)


def record(*expressions: str, at: str = "start") -> Task:
    """Return a task that writes down what *expressions* give: variables by name, `NAME . REST` for a part of one."""
    seen = {expression: _value_of(expression) for expression in expressions}
    return {
        "name": "Record what the role sees",
        "ansible.builtin.copy": {"content": "{{ seen | to_json }}", "dest": _FILE, "mode": "0600"},
        "vars": {"seen": {"at": at, **seen}},
    }


def role(name: str, *tasks: Task) -> dict[str, Any]:
    """Return the files of the role *name*."""
    return {f"roles/{name}/tasks/main.yml": list(tasks)}


def playbook(path: str, *tasks: Task) -> dict[str, Any]:
    """Return the file of a playbook with one play on localhost."""
    return {path: [play(tasks)]}


def play(tasks: Sequence[Task], *, hosts: str = "localhost") -> Mapping[str, Any]:
    """Return a play."""
    return {"name": "Play", "hosts": hosts, "gather_facts": False, "tasks": list(tasks)}


def fail(message: str, **keywords: Any) -> Task:
    """Return a task that fails with *message*."""
    return {"name": "Fail", "ansible.builtin.fail": {"msg": message}, **keywords}


def debug(message: str) -> Task:
    """Return a task that says *message*."""
    return {"name": "Say", "ansible.builtin.debug": {"msg": message}}


def _value_of(expression: str) -> str:
    name, dot, rest = expression.partition(" . ")
    value = f"lookup('ansible.builtin.vars', '{name}', default='{UNDEFINED}')"
    return f"{{{{ ({value}).{rest} | default('{UNDEFINED}') }}}}" if dot else f"{{{{ {value} }}}}"
