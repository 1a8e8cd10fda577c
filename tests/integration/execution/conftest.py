"""Each test that asks for `warm` runs twice: with cold runs, and with runs of the session's fork server."""

from __future__ import annotations

import pytest

from runner.testing.warm import SharedWarm
from tests.integration.execution.bench import Warm


@pytest.fixture(scope="module", params=["cold", "warm"])
def warm(request: pytest.FixtureRequest) -> Warm:
    """Give what starts the runs; the server is only started where a test is selected that needs it."""
    if request.param == "cold":
        return None
    server: SharedWarm = request.getfixturevalue("warm_server")
    return server
