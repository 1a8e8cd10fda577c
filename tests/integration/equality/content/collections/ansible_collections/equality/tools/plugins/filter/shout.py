"""A filter of a collection."""

from __future__ import annotations

from collections.abc import Callable


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[[str], str]]:
        """Return the filters."""
        return {"shout": str.upper}
