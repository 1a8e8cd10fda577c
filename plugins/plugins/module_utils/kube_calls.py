"""Single requests to the API server for modules of ours, with the answers that are no failure.

The modules of kubernetes.core look, compare and patch. Here a request is sent as it is, and the API server decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

UNANSWERED = (ApiException, HTTPError)
"""What a request may end with besides an answer that is understood here."""

FAILED = "failed"
_NOT_FOUND = 404
_LONGEST_TEXT = 200


class UnreadError(Exception):
    """The API server's answer doesn't tell what there is; the message says what it answered."""


def status_of(error: Any) -> dict[str, Any]:
    """Return the Status object of an API error: code, reason and message are always there.

    A connection that failed is told by its kind only, as its own text has the URL in it, with what is secret there.
    """
    if not isinstance(error, ApiException):
        return {"code": 0, "reason": "", "message": f"the API server gave no answer ({type(error).__name__})"}
    try:
        body = json.loads(getattr(error, "body", None) or "{}")
    except ValueError:
        body = {}
    found = body if isinstance(body, Mapping) else {}
    code = int(getattr(error, "status", None) or found.get("code") or 0)
    message = str(found.get("message") or "") or _plain_text(error, code)
    return {"code": code, "reason": str(found.get("reason") or ""), "message": message}


def _plain_text(error: Any, code: int) -> str:
    """Return what an answer says that is no Status object, as those of a server that starts aren't."""
    body = getattr(error, "body", None) or ""
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body)
    told = " ".join(text.split())[:_LONGEST_TEXT] or str(getattr(error, "reason", None) or "no reason given")
    return f"the API server answered {code}: {told}"


def listed(kind: str, ask: Callable[[], bytes | str]) -> list[dict[str, Any]]:
    """Return all objects of *kind*; *ask* sends the request and returns the body of its answer.

    Only a whole list counts. A list of a kind that is served is never answered with 404, so that one comes from an API
    server that starts, and says nothing about what there is.

    Raises:
        UnreadError: the answer is no such list, or not all of it.
        ApiException: the API server refuses.
    """
    try:
        body = _document(ask())
    except ApiException as error:
        if status_of(error)["code"] == _NOT_FOUND:
            raise UnreadError(status_of(error)["message"]) from error
        raise
    items = body.get("items")
    if body.get("kind") != f"{kind}List" or "items" not in body or not isinstance(items, list | None):
        raise UnreadError(f"the answer is no {kind}List but {body.get('kind') or 'something else'}")
    meta = body.get("metadata") or {}
    if meta.get("continue"):
        raise UnreadError("the answer is only a part of the list")
    head = {"apiVersion": body.get("apiVersion"), "kind": kind}
    return [{**head, **item} for item in items or []]


def looked_up(name: str, ask: Callable[[], bytes | str]) -> list[dict[str, Any]]:
    """Return the object called *name*, or nothing where the API server says that there is none of this name.

    Raises:
        UnreadError: the answer is another 404, of a kind that isn't served, or no object.
        ApiException: the API server refuses.
    """
    try:
        body = _document(ask())
    except ApiException as error:
        status = status_of(error)
        if status["code"] != _NOT_FOUND:
            raise
        if _missing_name(error) == name:
            return []
        raise UnreadError(status["message"]) from error
    if (body.get("metadata") or {}).get("name") != name:
        raise UnreadError(f"the answer is no object called {name}")
    return [body]


def _document(body: bytes | str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as error:
        raise UnreadError("the answer is no JSON") from error
    if not isinstance(found, dict):
        raise UnreadError("the answer is no JSON object")
    return found


def _missing_name(error: Any) -> str:
    """Return the name of the object that a 404 speaks of; that of a kind which isn't served names none."""
    try:
        details = json.loads(getattr(error, "body", None) or "{}").get("details") or {}
        return str(details.get("name") or "")
    except (ValueError, AttributeError):
        return ""


def created(obj: Mapping[str, Any], *, create: Callable[[], Any], read: Callable[[], Mapping[str, Any]]) -> str:
    """Create *obj* by *create*: `created`, `existed` where it's the owner's already, `taken` where it's another's.

    *read* returns the object of this name that is there; a request error that says nothing of this kind is raised.
    """
    try:
        create()
    except ApiException as error:
        if status_of(error)["reason"] != "AlreadyExists":
            raise
        return "existed" if _owners(obj) <= _owners(read()) else "taken"
    return "created"


def evicted(evict: Callable[[], Any]) -> tuple[str, str]:
    """Send an eviction: `evicted`, `gone`, `blocked` or `failed`, and the API server's message.

    429 is a disruption budget's answer: the eviction is asked for again later. 404, and 409 for the UID, mean that
    there is no such pod any more. 500 comes where more than one budget protects a pod. What else is refused of this
    pod has failed: rights are missing, or an admission forbids it. An answer that is about no pod is raised.
    """
    try:
        evict()
    except ApiException as error:
        status = status_of(error)
        verdict = _VERDICTS.get(status["code"], FAILED)
        if verdict == FAILED and (status["code"] == _UNKNOWN_USER or status["code"] not in _REFUSALS):
            raise
        return verdict, _with_causes(error, status["message"])
    return "evicted", ""


_VERDICTS = {404: "gone", 409: "gone", 429: "blocked", 500: "blocked"}
_UNKNOWN_USER = 401
_REFUSALS = range(400, 500)


def _with_causes(error: Any, message: str) -> str:
    """Return the message with what its causes tell: the name of the disruption budget."""
    try:
        causes = (json.loads(getattr(error, "body", None) or "{}").get("details") or {}).get("causes") or []
    except (ValueError, AttributeError):
        causes = []
    told = [str(cause.get("message")) for cause in causes if cause.get("message")]
    return " ".join([message, *(text for text in told if text not in message)])


def _owners(obj: Mapping[str, Any]) -> set[str]:
    references = (obj.get("metadata") or {}).get("ownerReferences") or []
    return {str(reference.get("uid")) for reference in references}
