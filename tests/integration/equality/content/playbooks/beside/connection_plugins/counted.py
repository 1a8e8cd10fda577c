"""A connection beside a playbook."""

from __future__ import annotations

from typing import Any

from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = """
name: counted
short_description: The local one, counted
description: [For tests.]
options:
  pipelining:
    type: bool
    default: false
    description: As everywhere.
    vars: [{name: ansible_pipelining}]
"""


class Connection(Local):  # type: ignore[misc]  # Ansible has no types
    """Marks what it runs."""

    transport = "counted"

    def exec_command(self, cmd: str, **others: Any) -> Any:
        """Run *cmd* with a variable more."""
        return super().exec_command(f"COUNTED=1 {cmd}" if cmd.startswith("/bin/sh") else cmd, **others)
