"""A strategy beside a playbook."""

from __future__ import annotations

from typing import Any

from ansible.plugins.strategy.linear import StrategyModule as Linear
from ansible.utils.display import Display

display = Display()

DOCUMENTATION = """
name: own_strategy
short_description: The linear one, announced
description: [For tests.]
"""


class StrategyModule(Linear):  # type: ignore[misc]  # Ansible has no types
    """Announces itself."""

    def run(self, iterator: Any, play_context: Any) -> Any:
        """Print, and go on."""
        display.display("a strategy of its own")
        return super().run(iterator, play_context)
