"""What the role ec2_instance stores before a launch has the types of its CRD, on each series of ansible-core."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from runner.settings import environment
from tests.integration.environments.conftest import Plays
from tests.integration.environments.interpreters import ROOT

_LAUNCH = ROOT / "roles" / "ec2_instance" / "tasks" / "launch.yml"
_RECORD = {
    "launchAttempt": 2,
    "launchRequestedAt": "2026-01-01T00:00:00Z",
    "launchDigests": {"tags": "12", "storage": "a'b"},
    "clusterId": "0e2",
    "instanceId": None,
}


def _play(target: Path) -> list[dict[str, Any]]:
    """Return a play that shows the status as the module that writes it would get it."""
    (stored,) = [task for task in yaml.safe_load(_LAUNCH.read_text()) if task["name"] == "Store the attempt"]
    write = {"content": "{{ aws_common_write.status | to_json }}", "dest": str(target)}
    task = {"ansible.builtin.copy": write, "vars": stored["vars"]}
    planned = {"ec2_instance_plan": {"record": _RECORD}}
    return [{"hosts": "localhost", "gather_facts": False, "vars": planned, "tasks": [task]}]


def test_the_number_of_an_attempt_is_stored_as_a_number(plays: Plays, tmp_path: Path) -> None:
    """ansible-core 2.18 would make a text of it, which the API server refuses; what is a text stays one."""
    playbook, seen = tmp_path / "play.yml", tmp_path / "seen.json"
    playbook.write_text(yaml.safe_dump(_play(seen)))
    own = {name: value for name, value in environment().items() if not name.startswith("ANSIBLE_")}
    interpreter = f"ansible_python_interpreter={plays.python}"
    command = [plays.python, "-m", "ansible", "playbook", "-c", "local", "-i", "localhost,", "-e", interpreter]
    done = subprocess.run(
        [*command, str(playbook)], env={**own, "HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(seen.read_text()) == _RECORD
