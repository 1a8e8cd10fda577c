"""The layer that finds out who speaks, and counts."""

from __future__ import annotations

import json
from collections import Counter

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from runner.kube.objects import GVK
from runner.proxy.exchange import Exchange, Owner
from runner.proxy.identify import identify
from runner.proxy.kubeconfig import username_of
from runner.proxy.request_info import parse
from runner.proxy.runs import Runs

WEB = Owner(gvk=GVK("apps.example.com", "v1", "Web"), namespace="shop", name="front", uid="8d7f0f0c")


class Inner:
    """A handler that answers, or fails, and keeps what it got."""

    def __init__(self, *, status: int = 200, error: Exception | None = None) -> None:
        """Answer with *status*, or raise *error*."""
        self._status = status
        self._error = error
        self.exchanges: list[Exchange] = []

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        """Keep the exchange."""
        self.exchanges.append(exchange)
        if self._error is not None:
            raise self._error
        return web.Response(status=self._status)


class Counted:
    """Counts by caller and code."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.by: Counter[tuple[str, str]] = Counter()

    def __call__(self, *, caller: str, code: str) -> None:
        """Count one request."""
        self.by[caller, code] += 1


def exchange(authorization: str = "") -> Exchange:
    """Return a GET with this header."""
    headers = {"Authorization": authorization} if authorization else {}
    return Exchange(request=make_mocked_request("GET", "/api", headers=headers), info=parse("GET", "/api"))


async def test_a_run_goes_on_with_its_owner() -> None:
    """What comes behind the layer knows the caller, and the answer is counted as a run's."""
    runs, inner, counted = Runs(), Inner(status=201), Counted()
    with runs.open(owner=WEB, run="7") as secret:
        header = aiohttp.encode_basic_auth(username_of(WEB), secret)
        answer = await identify(runs=runs, count=counted)(inner)(exchange(header))
    (seen,) = inner.exchanges
    assert seen.caller is not None
    assert (seen.caller.owner, seen.caller.run) == (WEB, "7")
    assert (answer.status, dict(counted.by)) == (201, {("run", "201"): 1})


@pytest.mark.parametrize("header", ["", "Bearer abc"])
async def test_nobody_goes_on_without_a_caller(header: str) -> None:
    """A request that claims no owner is passed unowned, and counted as such."""
    inner, counted = Inner(), Counted()
    await identify(runs=Runs(), count=counted)(inner)(exchange(header))
    assert [seen.caller for seen in inner.exchanges] == [None]
    assert dict(counted.by) == {("none", "200"): 1}


@pytest.mark.parametrize("other", ["Bearer abc", "", None])
async def test_two_authorizations_are_refused(other: str | None) -> None:
    """Whoever sends a second one, even the same again, could mean either."""
    runs, inner, counted = Runs(), Inner(), Counted()
    with runs.open(owner=WEB, run="7") as secret:
        mine = aiohttp.encode_basic_auth(username_of(WEB), secret)
        for pair in [(mine, mine if other is None else other), (mine if other is None else other, mine)]:
            headers = CIMultiDict(("Authorization", value) for value in pair)
            request = make_mocked_request("GET", "/api", headers=headers)
            answer = await identify(runs=runs, count=counted)(inner)(
                Exchange(request=request, info=parse("GET", "/api"))
            )
            assert answer.status == 403
    assert inner.exchanges == []


async def test_who_is_refused_gets_no_further() -> None:
    """The answer is a Status with the sentence, nothing behind the layer sees the request, and it is counted."""
    inner, counted = Inner(), Counted()
    header = aiohttp.encode_basic_auth(username_of(WEB), "unused")
    answer = await identify(runs=Runs(), count=counted)(inner)(exchange(header))
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    status = json.loads(answer.body)
    assert (answer.status, status["kind"], status["reason"]) == (403, "Status", "Forbidden")
    assert "no live run" in status["message"]
    assert inner.exchanges == []
    assert dict(counted.by) == {("refused", "403"): 1}


async def test_a_request_without_an_answer_is_counted() -> None:
    """Where the connection breaks the code is the one that the client metrics have for that."""
    counted = Counted()
    with pytest.raises(ConnectionResetError):
        await identify(runs=Runs(), count=counted)(Inner(error=ConnectionResetError()))(exchange())
    assert dict(counted.by) == {("none", "<error>"): 1}
