"""A test beside a playbook."""

from __future__ import annotations

from collections.abc import Callable


class TestModule:
    """What Ansible looks for."""

    def tests(self) -> dict[str, Callable[[str], bool]]:
        """Return the tests."""
        return {"doubled_word": lambda word: word.endswith("xx")}
