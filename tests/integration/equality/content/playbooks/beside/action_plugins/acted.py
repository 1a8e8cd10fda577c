"""An action beside a playbook."""

from __future__ import annotations

import os
from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Works on the controller, and runs a module and a command."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Return what it saw."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        os.environ["FROM_ACTION"] = "seen by what it starts"
        shell = self._low_level_execute_command("echo $FROM_ACTION; umask; exit 3")
        module = self._execute_module("equality.tools.probe", module_args={"only": "environment"}, task_vars=task_vars)
        of_action = {key: value for key, value in module["environment"].items() if key.startswith("FROM_")}
        return {**result, "shell": shell, "environment": of_action, "word": self._task.args["word"]}
