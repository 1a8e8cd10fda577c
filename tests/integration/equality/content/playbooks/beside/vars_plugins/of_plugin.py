"""A source of variables beside a playbook."""

from __future__ import annotations

from typing import Any

from ansible.plugins.vars import BaseVarsPlugin

DOCUMENTATION = """
name: of_plugin
short_description: One variable
description: [For tests.]
"""


class VarsModule(BaseVarsPlugin):  # type: ignore[misc]  # Ansible has no types
    """Gives one variable."""

    def get_vars(self, loader: Any, path: str, entities: Any) -> dict[str, str]:
        """Return it."""
        del loader, path, entities
        return {"of_plugin": "plugin"}
