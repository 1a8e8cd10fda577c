"""A lookup beside a playbook."""

from __future__ import annotations

from typing import Any

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """Always finds the same."""

    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return a word."""
        del terms, variables, kwargs
        return ["looked up"]
