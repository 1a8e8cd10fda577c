"""The fixtures of the whole suite: see `runner.testing.fixtures` (fixtures) and `runner.testing.cluster` (helpers)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.execution.chosen import WarmContent
from runner.settings import ExecutionSettings
from runner.testing.warm import SharedWarm, environ_of_tests

pytest_plugins = ["runner.testing.fixtures", "pytester"]

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def warm_server() -> Iterator[SharedWarm]:
    """Start the session's fork server for tests whose runs are warm; it has what the bundled roles need."""
    server = SharedWarm(
        settings=ExecutionSettings(environ=environ_of_tests(), kill_grace=2.0),
        content=WarmContent(roles=tuple(sorted((ROOT / "roles").iterdir()))),
    )
    server.start()
    yield server
    server.stop()
