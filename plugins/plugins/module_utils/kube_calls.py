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
    return {"code": code, "reason": str(found.get("reason") or ""), "message": str(found.get("message") or error)}


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
    there is no such pod any more. 500 comes where more than one budget protects a pod.
    """
    try:
        evict()
    except ApiException as error:
        status = status_of(error)
        return _VERDICTS.get(status["code"], FAILED), _with_causes(error, status["message"])
    return "evicted", ""


_VERDICTS = {404: "gone", 409: "gone", 429: "blocked", 500: "blocked"}


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
