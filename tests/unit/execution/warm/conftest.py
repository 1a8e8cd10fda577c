"""What the tests of the near side share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.testing.leftovers import no_other_servers
from tests.unit.execution.warm.warm_near_bench import NearBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[NearBench]:
    """Give a bench, whose temporary files are below `tmp`."""
    previous, tempfile.tempdir = tempfile.tempdir, str(tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    with no_other_servers():
        yield NearBench(tmp_path)
    tempfile.tempdir = previous
