"""Plainer forms of our conditions, for a CRD whose schema refuses the usual ones: the writer's way out.

A schema may bound a message, demand that a reason is not empty (that of most generated CRDs does), or list the
reasons that it knows. Each form says less than the one before, and the last one hardly more than True or False; what
others put into the list is never touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from runner.kube.objects import Object
from runner.status.conditions import FAILURE, OURS, cut_message

_LIMIT_TOLD = re.compile(r"message: Too long: may not be (?:more|longer) than (\d+)")
_USUAL_LIMIT = 1024
_SHORT_LIMIT = 32
_ROOM_FOR_A_MARK = 64


def plainer_forms(wanted: Sequence[Any], *, refusal: str) -> Iterator[list[Any]]:
    """Give less and less demanding forms of the conditions *wanted*, which the API server refused with *refusal*."""
    limit = min([int(number) for number in _LIMIT_TOLD.findall(refusal)], default=_USUAL_LIMIT)
    forms = [
        [_plain(entry, failing=_failing(wanted), limit=limit) for entry in wanted],
        [_plain(entry, failing=_failing(wanted), limit=min(limit, _SHORT_LIMIT)) for entry in wanted],
        [_bare(entry, keys=("type", "status", "lastTransitionTime", "reason", "message")) for entry in wanted],
        [_bare(entry, keys=("type", "status", "lastTransitionTime")) for entry in wanted],
    ]
    previous: list[Any] = list(wanted)
    for form in forms:
        if form != previous:
            yield form
        previous = form


def _failing(wanted: Sequence[Any]) -> bool:
    return any(_is_ours(entry) and entry["type"] == FAILURE and entry.get("status") == "True" for entry in wanted)


def _plain(entry: Any, *, failing: bool, limit: int) -> Any:
    """Return one of ours without the recap, with a reason and a message that are never empty."""
    if not _is_ours(entry):
        return entry
    reason = entry.get("reason") or ("Failed" if failing else "Successful")
    message = entry.get("message") or reason
    kept = {key: value for key, value in entry.items() if key != "ansibleResult"}
    return {**kept, "reason": reason, "message": _shorten(message, limit=limit)}


def _bare(entry: Any, *, keys: tuple[str, ...]) -> Any:
    """Return one of ours with *keys* alone, and no message."""
    if not _is_ours(entry):
        return entry
    bare: Object = {key: entry[key] for key in keys if key in entry}
    return {**bare, "message": ""} if "message" in bare else bare


def _shorten(message: str, *, limit: int) -> str:
    if limit >= _ROOM_FOR_A_MARK:
        return cut_message(message, limit=limit)
    return message.encode(errors="replace")[:limit].decode(errors="ignore")


def _is_ours(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("type") in OURS
