"""Fixtures of the proxy's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.unit.proxy.proxy_upstream import Upstream


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """Give a stand-in for the API server."""
    async with Upstream() as upstream:
        yield upstream


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """Give a client that leaves answers as they are."""
    async with aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session
