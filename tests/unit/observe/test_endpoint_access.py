"""Who may read `/metrics`, when RBAC decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from runner.errors import Call, ConnectionFailed, Forbidden
from runner.kube.objects import Object
from runner.logs import Logger, RecordingSink
from runner.observe.endpoint import MetricsServer
from runner.observe.endpoint_access import Access
from runner.testing.clock import FakeClock

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PROMETHEUS = {"username": "prometheus", "uid": "7", "groups": ["scrapers"], "extra": {"pod": ["p"]}}


class Reviews:
    """An API server that answers reviews as a test says, and keeps what it was asked."""

    def __init__(self) -> None:
        """Know everybody and allow everything."""
        self.answers: dict[str, Object | Exception] = {
            TOKENS: {"authenticated": True, "user": PROMETHEUS},
            ACCESS: {"allowed": True},
        }
        self.asked: list[tuple[str, Any]] = []

    async def request(self, method: str, path: str, *, call: Call, body: object = None) -> Object:
        """Answer one review."""
        assert (method, call.verb) == ("POST", "create")
        self.asked.append((call.resource, body))
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return {"status": answer}


@pytest.fixture
def reviews() -> Reviews:
    """Give an API server."""
    return Reviews()


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that stands still."""
    return FakeClock()


@pytest.fixture
def sink() -> RecordingSink:
    """Give the log."""
    return RecordingSink()


@pytest.fixture
async def server(reviews: Reviews, clock: FakeClock, sink: RecordingSink) -> AsyncIterator[MetricsServer]:
    """Serve a page to whom the reviews let in."""
    logger = Logger(sink=sink)
    guard = Access(client=reviews, clock=clock, logger=logger)
    server = MetricsServer(address=("127.0.0.1", 0), text=lambda: "page", logger=logger, guard=guard)
    await server.start()
    yield server
    await server.stop()


async def read(server: MetricsServer, authorization: str | None = "Bearer secret-token") -> tuple[int, str]:
    """Read the page, and return status and text."""
    headers = {} if authorization is None else {"Authorization": authorization}
    url = f"http://127.0.0.1:{server.port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_who_may_read_reads(server: MetricsServer, reviews: Reviews) -> None:
    """The API server is asked who the token belongs to, and whether that one may get the path."""
    assert await read(server) == (200, "page")
    (first, token), (second, access) = reviews.asked
    assert (first, second) == ("tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io")
    assert token == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "secret-token"},
    }
    assert access == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "prometheus",
            "uid": "7",
            "groups": ["scrapers"],
            "extra": {"pod": ["p"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer  ", "Basic abc"])
async def test_without_a_token_nobody_is_asked(
    server: MetricsServer, reviews: Reviews, authorization: str | None
) -> None:
    """A request without a bearer token is answered 401 at once."""
    assert await read(server, authorization) == (401, "Unauthorized\n")
    assert reviews.asked == []


async def test_an_unknown_token_is_401(server: MetricsServer, reviews: Reviews) -> None:
    """A token that the API server doesn't know is told so, whatever reason it gives (500 in the peer)."""
    reviews.answers[TOKENS] = {"authenticated": False, "error": "invalid bearer token"}
    assert await read(server) == (401, "Unauthorized\n")


@pytest.mark.parametrize("decision", [{"allowed": False}, {"allowed": True, "denied": True}, {}])
async def test_who_may_not_is_403(server: MetricsServer, reviews: Reviews, decision: Object) -> None:
    """A known user without the right is told the user's name."""
    reviews.answers[ACCESS] = decision
    assert await read(server) == (403, "Authorization denied for user prometheus\n")


@pytest.mark.parametrize(
    ("path", "text", "logged"),
    [
        (TOKENS, "Authentication failed", "Authentication failed"),
        (ACCESS, "Authorization for user prometheus failed", "Authorization failed"),
    ],
)
async def test_an_api_server_in_trouble_is_500(
    server: MetricsServer, reviews: Reviews, sink: RecordingSink, path: str, text: str, logged: str
) -> None:
    """Nobody gets in while the API server can't be asked; a constant sentence tells it, and the next try asks again."""
    answer = reviews.answers[path]
    for error in (ConnectionFailed("refused", call=Call(verb="create")), Forbidden("no", call=Call(verb="create"))):
        reviews.answers[path] = error
        assert await read(server) == (500, f"{text}\n")
    assert sink.sentences().count(logged) == 2
    reviews.answers[path] = answer
    assert (await read(server))[0] == 200


async def test_answers_are_kept_for_a_short_while(server: MetricsServer, reviews: Reviews, clock: FakeClock) -> None:
    """A yes holds for a minute and a no for ten seconds; another token is another question."""
    await read(server)
    await read(server)
    assert len(reviews.asked) == 2
    reviews.answers[TOKENS] = {"authenticated": False}
    assert (await read(server, "Bearer other"))[0] == 401
    assert (await read(server))[0] == 200
    await clock.advance(60)
    assert (await read(server))[0] == 401
    reviews.answers[TOKENS] = {"authenticated": True, "user": PROMETHEUS}
    assert (await read(server))[0] == 401
    await clock.advance(10)
    assert (await read(server))[0] == 200


async def test_the_token_is_in_no_log(server: MetricsServer, reviews: Reviews, sink: RecordingSink) -> None:
    """Whatever goes wrong, the credentials of a client stay out of the log."""
    reviews.answers[TOKENS] = ConnectionFailed("refused", call=Call(verb="create"))
    await read(server)
    assert "secret-token" not in str(sink.records)


@pytest.mark.parametrize("token", [b"\xff\xfe", b"a\xed\xa0\x80"])
async def test_a_token_that_is_no_text_is_unknown(reviews: Reviews, clock: FakeClock, token: bytes) -> None:
    """Bytes that are no UTF-8 are 401, and the API server is not asked."""
    logger = Logger(sink=RecordingSink())
    guard = Access(client=reviews, clock=clock, logger=logger)
    server = MetricsServer(address=("127.0.0.1", 0), text=lambda: "x 1\n", logger=logger, guard=guard)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
    async with asyncio.timeout(60):
        assert await reader.readline() == b"HTTP/1.1 401 Unauthorized\r\n"
    writer.close()
    await server.stop()
    assert reviews.asked == []
