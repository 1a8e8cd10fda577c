"""The fork server of the roles' tests: its environment is that of their runs, so that these are warm, and must be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.execution.chosen import WarmContent
from runner.settings import ExecutionSettings
from runner.testing.warm import SharedWarm
from tests.content.ec2_instance.role_harness import ROOT, environ_of_runs


@pytest.fixture(scope="module")
def role_server(ec2: str) -> Iterator[SharedWarm]:
    """Start a fork server for the runs of a module's tests, with what the bundled roles need."""
    server = SharedWarm(
        settings=ExecutionSettings(environ=environ_of_runs(ec2), kill_grace=2.0),
        content=WarmContent(roles=tuple(sorted((ROOT / "roles").iterdir()))),
        strict=True,
    )
    server.start()
    yield server
    server.stop()
