"""The fork server that tests share: what it refuses, so that a test of warm runs can't pass with cold ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.errors import ExecutionError
from runner.testing.warm import SharedWarm
from tests.integration.execution.bench import Bench

_SAYS = "- ansible.builtin.debug: {msg: hello}"


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[SharedWarm]:
    """Give a strict server with the environment of a bench; its stop tells what was started cold, too."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = SharedWarm(settings=Bench(folder, environ={"AWS_REGION": "here"}).settings, strict=True)
    server.start()
    yield server
    with pytest.raises(ExecutionError, match="Runs are started cold"):
        server.stop()


async def test_a_strict_server_fails_what_it_started_cold(strict: SharedWarm, tmp_path: Path) -> None:
    """A run whose environment differs from the server's is started anew within it, and is an error with the reason."""
    same = Bench(_folder(tmp_path / "same"), environ={"AWS_REGION": "here"}, warm=strict)
    assert (await same.run(same.request(same.tasks(_SAYS)))).success
    other = Bench(_folder(tmp_path / "other"), environ={"AWS_REGION": "there"}, warm=strict)
    with pytest.raises(ExecutionError, match=r"Runs are started cold: variables differ .*: AWS_REGION"):
        await other.run(other.request(other.tasks(_SAYS)))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
