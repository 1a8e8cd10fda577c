"""The fork server that tests share: what it refuses, so that a test of warm runs can't pass with cold ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.errors import ExecutionError
from runner.settings import ExecutionSettings
from runner.testing.warm import SharedWarm, environ_of_tests
from tests.integration.execution.bench import Bench

_SAYS = "- ansible.builtin.debug: {msg: hello}"


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[SharedWarm]:
    """Give a strict server with the environment of a bench; its stop tells what was started cold, too."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = SharedWarm(settings=_settings(Bench(folder), region="here"), strict=True)
    server.start()
    yield server
    with pytest.raises(ExecutionError, match="Runs are started cold"):
        server.stop()


async def test_a_strict_server_fails_what_it_started_cold(strict: SharedWarm, tmp_path: Path) -> None:
    """A run whose environment differs from the server's is started anew within it, and is an error with the reason."""
    same = Bench(_folder(tmp_path / "same"), warm=strict)
    same.settings = _settings(same, region="here")
    assert (await same.run(same.request(same.tasks(_SAYS)))).success
    other = Bench(_folder(tmp_path / "other"), warm=strict)
    other.settings = _settings(other, region="there")
    with pytest.raises(ExecutionError, match=r"Runs are started cold: variables differ .*: AWS_REGION"):
        await other.run(other.request(other.tasks(_SAYS)))


def _settings(bench: Bench, *, region: str) -> ExecutionSettings:
    return replace(bench.settings, environ={**environ_of_tests("PYTEST_"), "AWS_REGION": region})


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
