"""An action plugin of a collection: runs two modules one after the other."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Calls `hello` twice."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Return what both said."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        said = [
            self._execute_module("equality.tools.hello", module_args={"name": name}, task_vars=task_vars)
            for name in ("first", "second")
        ]
        return {**result, "words": [entry.get("word") for entry in said]}
