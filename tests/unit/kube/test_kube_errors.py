"""What the API server's answers become in our error tree."""

from __future__ import annotations

import json

import pytest

from runner import errors
from runner.errors import Call, KubeError, Verdict
from runner.kube.errors import error_for

CALL = Call(verb="get", resource="things.example.com", namespace="ns", name="a")


def answer(status: int, *, reason: str = "", headers: dict[str, str] | None = None, **more: object) -> KubeError:
    """Build the error for a Status object."""
    body = json.dumps({"kind": "Status", "code": status, "reason": reason, "message": "server says", **more})
    return error_for(status=status, body=body.encode(), headers=headers or {}, call=CALL)


@pytest.mark.parametrize(
    ("status", "reason", "expected", "verdict"),
    [
        (400, "BadRequest", errors.Invalid, Verdict.TERMINAL),
        (401, "Unauthorized", errors.Unauthorized, Verdict.RETRY),
        (403, "Forbidden", errors.Forbidden, Verdict.RETRY_AT),
        (404, "NotFound", errors.NotFound, Verdict.TERMINAL),
        (405, "MethodNotAllowed", errors.Invalid, Verdict.TERMINAL),
        (408, "Timeout", errors.ServerError, Verdict.RETRY),
        (409, "Conflict", errors.Conflict, Verdict.RETRY),
        (409, "AlreadyExists", errors.AlreadyExists, Verdict.TERMINAL),
        (410, "Expired", errors.Gone, Verdict.RETRY),
        (410, "Gone", errors.Gone, Verdict.RETRY),
        (412, "", errors.Conflict, Verdict.RETRY),
        (413, "RequestEntityTooLarge", errors.Invalid, Verdict.TERMINAL),
        (415, "UnsupportedMediaType", errors.Invalid, Verdict.TERMINAL),
        (422, "Invalid", errors.Invalid, Verdict.TERMINAL),
        (429, "TooManyRequests", errors.TooManyRequests, Verdict.RETRY_AT),
        (500, "InternalError", errors.ServerError, Verdict.RETRY),
        (503, "ServiceUnavailable", errors.ServerError, Verdict.RETRY),
        (504, "Timeout", errors.ServerError, Verdict.RETRY),
    ],
)
def test_each_status_has_its_class_and_verdict(
    status: int, reason: str, expected: type[KubeError], verdict: Verdict
) -> None:
    """The HTTP status, refined by the reason, decides what happens next."""
    error = answer(status, reason=reason)
    assert type(error) is expected
    assert error.verdict is verdict
    assert error.status == status


def test_the_text_names_the_call_and_what_the_server_said() -> None:
    """A person sees verb, resource, object and the server's own message."""
    assert str(answer(404)) == "get things.example.com a in namespace ns: server says"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"upstream connect error", "upstream connect error"),
        (b"", "HTTP 502"),
        (b"[1]", "[1]"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"details": "text"}', '{"details": "text"}'),
    ],
)
def test_an_answer_that_is_no_status_object_is_still_told(body: bytes, expected: str) -> None:
    """What a proxy in between says is passed on."""
    error = error_for(status=502, body=body, headers={}, call=CALL)
    assert error.message == expected
    assert isinstance(error, errors.ServerError)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"kind": "Status", "reason": "NotFound", "details": {"name": "a", "kind": "things"}}', True),
        (b'{"kind": "Status", "reason": "NotFound", "details": {}}', False),
        (b'{"kind": "Status", "reason": "NotFound", "details": "a"}', False),
        (b"404 page not found\n", False),
    ],
)
def test_a_404_tells_whether_it_is_the_object_s(body: bytes, expected: bool) -> None:  # noqa: FBT001 - a parameter
    """An answer that names the object comes from who knows the kind; any other one may be the whole kind's."""
    error = error_for(status=404, body=body, headers={}, call=CALL)
    assert isinstance(error, errors.NotFound)
    assert error.names_object is expected


def test_a_long_foreign_answer_is_cut() -> None:
    """An HTML page does not end up whole in a message."""
    assert len(error_for(status=502, body=b"x" * 10_000, headers={}, call=CALL).message) == 500


def test_retry_after_comes_from_the_header_or_the_details() -> None:
    """The wait that the server asks for is kept, the header first."""
    details = {"retryAfterSeconds": 3}
    assert answer(429, headers={"Retry-After": "7"}, details=details).retry_after == 7.0
    assert answer(503, details=details).retry_after == 3.0
    assert answer(503).retry_after is None


@pytest.mark.parametrize("value", ["Wed, 21 Oct 2026 07:28:00 GMT", "nan", "inf", "-5", "soon"])
def test_a_retry_after_that_is_no_wait_is_ignored(value: str) -> None:
    """The default wait serves where the header cannot be used."""
    assert answer(429, headers={"Retry-After": value}).retry_after == 1.0
    assert answer(503, headers={"Retry-After": value}).retry_after is None


def test_a_refusal_waits_for_a_person() -> None:
    """A missing right is tried again after half a minute at the earliest."""
    assert answer(403).retry_after == 30.0
    assert answer(403, headers={"Retry-After": "60"}).retry_after == 60.0
