"""Around each call of a handler: failures are counted, and results reach no object."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import kopf
import pytest

from runner.handlers.calls import Calls
from runner.handlers.kopf_internals import Registered, is_async_fn


def handler(function: Callable[..., Any], *, decorator: str = "on.event") -> Registered:
    """Return *function* as a registered handler."""
    return Registered(id=function.__name__, decorator=decorator, function=function)


def five(**_: Any) -> int:
    """Return five."""
    return 5


async def five_later(**_: Any) -> int:
    """Return five."""
    return 5


def raises(*_: Any, error: Exception, **__: Any) -> None:
    """Raise what is given."""
    raise error


async def raises_later(*, error: Exception, **_: Any) -> None:
    """Raise what is given."""
    raise error


@pytest.mark.parametrize("decorator", ["on.event", "timer", "daemon"])
async def test_results_that_would_go_into_a_status_are_dropped_with_one_warning(
    caplog: pytest.LogCaptureFixture, decorator: str
) -> None:
    """The person is told once for each handler that results go nowhere."""
    calls = Calls(failed=lambda _: None)
    sync = calls.wrapped(handler(five, decorator=decorator))
    later = calls.wrapped(handler(five_later, decorator=decorator))
    with caplog.at_level(logging.WARNING):
        assert [sync(), sync(), await later(), await later()] == [None] * 4
    assert [record.args for record in caplog.records] == [("five",), ("five_later",)]


@pytest.mark.parametrize("decorator", ["index", "on.startup", "on.validate"])
async def test_other_results_are_kept(decorator: str) -> None:
    """What an index or an activity returns is kopf's to use."""
    calls = Calls(failed=lambda _: None)
    assert calls.wrapped(handler(five, decorator=decorator))() == 5
    assert await calls.wrapped(handler(five_later, decorator=decorator))() == 5


async def test_each_failure_is_counted_and_raised_but_no_refusal() -> None:
    """A handler that raises has failed, temporarily or not; an admission handler that refuses has done its work."""
    failed: list[str] = []
    calls = Calls(failed=failed.append)
    for error in (ValueError(), kopf.TemporaryError(), kopf.PermanentError(), kopf.AdmissionError()):
        with pytest.raises(type(error)):
            calls.wrapped(handler(raises))(error=error)
        with pytest.raises(type(error)):
            await calls.wrapped(handler(raises_later))(error=error)
    assert failed == ["raises", "raises_later"] * 3


def test_a_filter_that_raises_says_no_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise kopf would hold all objects up; the log has the filter's place; other answers stay what they are."""
    failed: list[str] = []
    calls = Calls(failed=failed.append)
    assert calls.guarded(handler(five), five)() == 5
    assert calls.guarded(handler(five), raises)("a value", error=ValueError("strange")) is False
    assert calls.guarded(handler(five), raises)(error=KeyError("strange")) is False
    assert failed == ["five", "five"]
    assert f"{__file__}:" in caplog.messages[0]


def test_kopf_takes_a_wrapped_function_for_what_it_is() -> None:
    """A coroutine function stays one, and a plain function runs in a thread."""
    calls = Calls(failed=lambda _: None)
    assert is_async_fn(calls.wrapped(handler(five_later)))
    assert not is_async_fn(calls.wrapped(handler(five)))
