"""What the operators under test run: the kinds, watches.yaml and the roles, as values. Pure but for `write`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
EC2_GROUP, EC2_VERSION, EC2_KIND = "aws.ansible-operator.io", "v1alpha1", "EC2Instance"
ONE_TASK, THREE_TASKS, TWO_WORKERS, EIGHT_WORKERS, HELD = "OneTask", "ThreeTasks", "TwoWorkers", "EightWorkers", "Held"
_ROLES = {
    ONE_TASK: "one_task",
    THREE_TASKS: "three_tasks",
    TWO_WORKERS: "three_tasks",
    EIGHT_WORKERS: "three_tasks",
    HELD: "held",
}
KINDS = tuple(_ROLES)
_NAME, _NAMESPACE = "{{ ansible_operator_meta.name }}", "{{ ansible_operator_meta.namespace }}"
_WORKERS = {TWO_WORKERS: 2, EIGHT_WORKERS: 8}

Task = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Project:
    """The folder that an operator starts in."""

    folder: Path
    group: str
    """Of the kinds; the EC2Instance has its own."""
    held: int
    """How many runs are held open at once."""
    ec2: bool
    """Serve EC2Instances too."""

    @property
    def over(self) -> Path:
        """Return the file whose appearance ends the held runs."""
        return self.folder / "over"

    @property
    def reached(self) -> Path:
        """Return the folder with a file for each run that waits."""
        return self.folder / "reached"

    def workers(self) -> dict[str, str]:
        """Return the variables that say how many objects of a kind are reconciled at once."""
        suffix = self.group.upper().replace(".", "_")
        counts = {**_WORKERS, HELD: self.held}
        return {f"MAX_CONCURRENT_RECONCILES_{kind.upper()}_{suffix}": str(count) for kind, count in counts.items()}

    def watches(self) -> list[dict[str, Any]]:
        """Return the content of watches.yaml."""
        ours = [
            {"group": self.group, "version": "v1", "kind": kind, "role": role, "vars": {"own_kind": kind}}
            for kind, role in _ROLES.items()
        ]
        return [*ours, self._ec2_watch()] if self.ec2 else ours

    def roles(self) -> dict[str, Sequence[Task]]:
        """Return the tasks of each role."""
        return {"one_task": [_say()], "three_tasks": self._three_tasks(), "held": self._held()}

    def write(self) -> Path:
        """Write it all, and return the folder of watches.yaml."""
        project = self.folder / "project"
        files: dict[str, Any] = {f"roles/{role}/tasks/main.yml": list(tasks) for role, tasks in self.roles().items()}
        for path, content in {"watches.yaml": self.watches(), **files}.items():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(yaml.safe_dump(content, sort_keys=False))
        self.reached.mkdir(exist_ok=True)
        return project

    def _ec2_watch(self) -> dict[str, Any]:
        """Return the watch of this repository's operator, with its role by path."""
        found: list[dict[str, Any]] = yaml.safe_load((ROOT / "watches.yaml").read_text())
        (watch,) = (entry for entry in found if entry["kind"] == EC2_KIND)
        return {**watch, "role": str(ROOT / "roles" / watch["role"])}

    def _three_tasks(self) -> list[Task]:
        status = {
            "api_version": f"{self.group}/v1",
            "kind": "{{ own_kind }}",
            "name": _NAME,
            "namespace": _NAMESPACE,
            "status": {"size": "{{ found.resources[0].data.size }}"},
        }
        return [*_config_map(), {"name": "Tell it in the status", "operator_sdk.util.k8s_status": status}]

    def _held(self) -> list[Task]:
        mark = {"path": f"{self.reached}/{_NAME}", "state": "touch", "mode": "0600"}
        return [
            *_config_map(),
            {"name": "Say that it waits", "ansible.builtin.file": mark},
            {"name": "Wait", "ansible.builtin.wait_for": {"path": str(self.over), "timeout": 3600}},
        ]


def _say() -> Task:
    return {"name": "Say the size", "ansible.builtin.debug": {"msg": "{{ size }}"}}


def _config_map() -> list[Task]:
    """Return two tasks: a ConfigMap of the object's name is kept, and read."""
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _NAME, "namespace": _NAMESPACE},
        "data": {"size": "{{ size | string }}"},
    }
    sought = {"api_version": "v1", "kind": "ConfigMap", "name": _NAME, "namespace": _NAMESPACE}
    return [
        {"name": "Keep a ConfigMap", "kubernetes.core.k8s": {"state": "present", "definition": config_map}},
        {"name": "Read it", "kubernetes.core.k8s_info": sought, "register": "found"},
    ]
