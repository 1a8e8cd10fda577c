"""Fixtures of the tests of the API layer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.kube.lease_cluster import Cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Give a cluster; its instances are stopped."""
    made = Cluster()
    yield made
    for seat in made.seats:
        seat.client.hangs = False
        await seat.stop()
