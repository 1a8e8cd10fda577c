"""The reason of a failure in words for everybody."""

from __future__ import annotations

import aiohttp
import pytest

from runner.kube.documents import reason_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("two\nlines"), "two lines"),
        (TimeoutError(), "TimeoutError"),
        (
            aiohttp.ConnectionTimeoutError("Connection timeout to host http://me:hunter2@proxy:1/api"),
            "Connection timeout to host http://proxy:1/api",
        ),
        (OSError("http://me:x@hunter2@proxy and https://hunter2@host"), "http://proxy and https://host"),
        (OSError("https://host/a@b"), "https://host/a@b"),
        (
            aiohttp.InvalidURL("http://me:hunter2/x@"),
            "the URL of the API server, or of the proxy on the way to it, is none",
        ),
    ],
)
def test_a_reason_is_one_line_without_passwords(error: Exception, reason: str) -> None:
    """Whoever repeats a URL, user and password are left out; an error without a text is told by its class."""
    assert reason_of(error) == reason
