"""A filter of a role."""

from __future__ import annotations

from collections.abc import Callable


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[[int], int]]:
        """Return the filters."""
        return {"halved": lambda number: number // 2}
