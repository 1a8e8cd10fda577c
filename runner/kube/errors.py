"""Maps what the HTTP layer answers to our error tree: the only place that reads status codes and Status objects."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from runner import errors
from runner.errors import Call, KubeError

_BY_STATUS: Mapping[int, type[KubeError]] = {
    400: errors.Invalid,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    408: errors.ServerError,
    409: errors.Conflict,
    410: errors.Gone,
    412: errors.Conflict,
    422: errors.Invalid,
    429: errors.TooManyRequests,
}


STATUS_REASONS: Mapping[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The `reason` that the API server's own Status has with each code; for those who answer in its place."""


def error_for(*, status: int, body: bytes, headers: Mapping[str, str], call: Call) -> KubeError:
    """Return the error of our tree for an answer with *status*.

    Args:
        status: the HTTP status, 400 or more.
        body: the answer's body; a Kubernetes Status object where the API server itself answered.
        headers: the answer's headers, for Retry-After.
        call: what was asked.
    """
    document = _status_object(body)
    kind = _BY_STATUS.get(status) or (errors.Invalid if status < 500 else errors.ServerError)
    reason = document.get("reason")
    if reason == "AlreadyExists":
        kind = errors.AlreadyExists
    if reason == "Expired":
        kind = errors.Gone
    message = str(document.get("message") or "") or body[:500].decode(errors="replace").strip() or f"HTTP {status}"
    error = kind(message, call=call, status=status, retry_after=_retry_after(document, headers))
    if isinstance(error, errors.NotFound):
        details = document.get("details")
        error.names_object = isinstance(details, dict) and bool(details.get("name"))
    return error


def _status_object(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _retry_after(document: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    details = document.get("details")
    value = headers.get("Retry-After") or (details.get("retryAfterSeconds") if isinstance(details, dict) else None)
    try:
        seconds = math.nan if value is None else float(value)
    except (TypeError, ValueError):
        return None  # the HTTP-date form: nobody in the field sends it; the default wait serves
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
