"""A filter beside a playbook."""

from __future__ import annotations

from collections.abc import Callable


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[[str], str]]:
        """Return the filters."""
        return {"doubled": lambda word: word * 2}
