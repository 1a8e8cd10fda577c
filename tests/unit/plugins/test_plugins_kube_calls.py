"""What the API server's answers to a list, a look-up, a creation and an eviction mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.kube_calls import (
    UnreadError,
    created,
    evicted,
    listed,
    looked_up,
    status_of,
)
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


@pytest.mark.parametrize("code", [0, 401, 502, 503, 504])
def test_answer_that_is_about_no_pod_is_raised(code: int) -> None:
    """An API server that is down, or doesn't know who asks, has refused no pod: the whole run is tried again."""
    with pytest.raises(ApiException):
        evicted(answering(code))


def test_blocked_eviction_names_the_budget() -> None:
    """What the API server says of the budget is in the message."""
    message = "no The disruption budget web needs 1 healthy pods"
    assert evicted(answering(429, details=BUDGET)) == ("blocked", message)
    assert evicted(lambda: None) == ("evicted", "")


def test_connection_that_fails_tells_no_url() -> None:
    """The address of a run's API server has a secret in it, which no message repeats."""
    error = ProtocolError("http://user:CANARY@127.0.0.1/api")
    assert status_of(error)["message"] == "the API server gave no answer (ProtocolError)"


def plain_404() -> NoReturn:
    """Answer as an API server that starts, which has no Status object."""
    error = ApiException(status=404, reason="Not Found")
    error.body = "404 page not found\n"
    raise error


def node_list(**parts: Any) -> str:
    """Return the body of a list of Nodes."""
    return json.dumps({"apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": [], **parts})


def test_list_is_what_the_api_server_has() -> None:
    """A whole list gives its objects with their kind, and an empty one none."""
    item = {"metadata": {"name": "n1"}}
    assert listed("Node", lambda: node_list(items=[item])) == [{"apiVersion": "v1", "kind": "Node", **item}]
    assert listed("Node", node_list) == []
    assert listed("Node", lambda: node_list(items=None)) == []


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (plain_404, "the API server answered 404: 404 page not found"),
        (answering(404, "NotFound", details={}), "no"),
        (lambda: json.dumps({"kind": "APIGroupList"}), "the answer is no NodeList but APIGroupList"),
        (lambda: json.dumps({"kind": "NodeList"}), "the answer is no NodeList"),
        (lambda: json.dumps([]), "the answer is no JSON object"),
        (lambda: "<html>", "the answer is no JSON"),
        (lambda: node_list(metadata={"continue": "abc"}), "only a part of the list"),
    ],
)
def test_answer_that_is_no_list_never_counts_as_empty(ask: Callable[[], str], told: str) -> None:
    """A 404, another document or a part of a list is an error, as nobody knows then what there is."""
    with pytest.raises(UnreadError, match=told):
        listed("Node", ask)


def test_refused_lists_are_raised() -> None:
    """Missing rights and a server that is too busy are told by the API server's own words."""
    for code in (401, 403, 429, 500, 503):
        with pytest.raises(ApiException):
            listed("Node", answering(code))
        with pytest.raises(ApiException):
            looked_up("web", answering(code))


def test_look_up_tells_a_missing_object_from_a_missing_kind() -> None:
    """Only a 404 that names the object means that there is none."""
    there = {"kind": "EC2Instance", "metadata": {"name": "web"}}
    assert looked_up("web", lambda: json.dumps(there)) == [there]
    assert looked_up("web", answering(404, "NotFound", details={"name": "web", "kind": "ec2instances"})) == []
    others = [answering(404, "NotFound", details=details) for details in ({}, {"name": "other"})]
    for ask in (plain_404, *others):
        with pytest.raises(UnreadError):
            looked_up("web", ask)
    for body in ("{}", "[]", json.dumps({"metadata": {"name": "other"}})):
        with pytest.raises(UnreadError):
            looked_up("web", lambda body=body: body)
