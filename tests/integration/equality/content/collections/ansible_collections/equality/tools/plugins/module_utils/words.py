"""A module utility of a collection."""

from __future__ import annotations

GREETING = "hello"
counter: list[int] = []
"""Grows with each use: what one module leaves here must not be there for the next."""


def greet(name: str) -> str:
    """Return a greeting, and how often this was called in this process."""
    counter.append(len(counter))
    return f"{GREETING} {name} {len(counter)}"
