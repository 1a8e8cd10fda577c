"""A lookup of a collection."""

from __future__ import annotations

from typing import Any

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """Gives back its terms."""

    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[Any]:
        """Return *terms*."""
        del variables, kwargs
        return terms
