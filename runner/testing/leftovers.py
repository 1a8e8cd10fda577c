"""`kill_all_runs` in a test: fork servers that the rest of the session uses are spared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from runner.execution.leftovers import servers


@contextlib.contextmanager
def no_other_servers() -> Iterator[None]:
    """During the block this process has no fork servers but those that are started in it."""
    others = set(servers)
    servers.clear()
    try:
        yield
    finally:
        servers.update(others)
