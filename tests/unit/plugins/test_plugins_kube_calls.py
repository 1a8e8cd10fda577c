"""What the API server's answers to a creation and an eviction mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.kube_calls import created, evicted, status_of
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ProtocolError

OWNED = {"metadata": {"name": "workers-1", "ownerReferences": [{"uid": "1"}]}}
BUDGET = {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 1 healthy pods"}]}


def answering(code: int, reason: str = "", **parts: Any) -> Callable[[], NoReturn]:
    """Return a request that is answered with an error."""

    def request() -> NoReturn:
        error = ApiException(status=code, reason=reason)
        error.body = json.dumps({"code": code, "reason": reason, "message": "no", **parts})
        raise error

    return request


@pytest.mark.parametrize(
    ("there", "verdict"),
    [
        (OWNED, "existed"),
        ({"metadata": {"name": "workers-1", "ownerReferences": [{"uid": "2"}]}}, "taken"),
        ({"metadata": {"name": "workers-1"}}, "taken"),
    ],
)
def test_what_is_there_already_is_told_apart(there: dict[str, Any], verdict: str) -> None:
    """An object of that name is done where it has the same owner, and somebody else's otherwise."""
    assert created(OWNED, create=answering(409, "AlreadyExists"), read=lambda: there) == verdict


def test_other_refusals_of_a_creation_are_raised() -> None:
    """A conflict of another kind, a quota or a missing right isn't taken for an object that is there."""
    for code, reason in ((409, "Conflict"), (403, "Forbidden"), (500, "")):
        with pytest.raises(ApiException):
            created(OWNED, create=answering(code, reason), read=lambda: OWNED)
    assert created(OWNED, create=lambda: None, read=dict) == "created"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(404, "gone"), (409, "gone"), (429, "blocked"), (500, "blocked"), (403, "failed"), (400, "failed")],
)
def test_refused_evictions(code: int, verdict: str) -> None:
    """A budget blocks for now, a pod that isn't there is gone, and what a person has to mend has failed (N3)."""
    assert evicted(answering(code)) == (verdict, "no")


def test_blocked_eviction_names_the_budget() -> None:
    """What the API server says of the budget is in the message."""
    message = "no The disruption budget web needs 1 healthy pods"
    assert evicted(answering(429, details=BUDGET)) == ("blocked", message)
    assert evicted(lambda: None) == ("evicted", "")


def test_connection_that_fails_tells_no_url() -> None:
    """The address of a run's API server has a secret in it, which no message repeats."""
    error = ProtocolError("http://user:CANARY@127.0.0.1/api")
    assert status_of(error)["message"] == "the API server gave no answer (ProtocolError)"
