"""Plainer forms of our conditions, for a CRD whose schema refuses the usual ones: the writer's way out.

A schema may bound a message, demand that a reason is not empty (that of most generated CRDs does), or list the
reasons that it knows. Each form says less than the one before, and the last one hardly more than True or False; what
others put into the list is never touched. Where the schema has no room for all of ours, fewer are written: `Running`
and the one that tells the outcome; at last those alone that are there already, so that none tells what is over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from runner.kube.objects import Object
from runner.kube.texts import cut_message
from runner.status.conditions import FAILURE, OURS, RUNNING, SUCCESSFUL, is_ours

_LIMIT_TOLD = re.compile(r"message: Too long: may not be (?:more|longer) than (\d+)")
_ROOM_TOLD = re.compile(r"conditions: Too many: \d+: must have at most (\d+)")
_USUAL_LIMIT = 1024
_SHORT_LIMIT = 32
_ROOM_FOR_A_MARK = 64


def plainer_forms(wanted: Sequence[Any], *, found: Sequence[Any], refusal: str) -> Iterator[list[Any]]:
    """Give less and less demanding forms of the conditions *wanted*, which the API server refused with *refusal*.

    Args:
        wanted: the conditions, those of others among them.
        found: the conditions on the object.
        refusal: the API server's words.
    """
    limit = min([int(number) for number in _LIMIT_TOLD.findall(refusal)], default=_USUAL_LIMIT)
    room = min([int(number) for number in _ROOM_TOLD.findall(refusal)], default=len(wanted))
    given: list[Sequence[Any]] = [wanted]
    for entries in _fewer_and_fewer(wanted, found=found):
        for form in (entries, *_forms(entries, failing=_failing(wanted), limit=limit)):
            if len(form) <= room and form not in given:
                given.append(form)
                yield form


def _fewer_and_fewer(wanted: Sequence[Any], *, found: Sequence[Any]) -> Iterator[list[Any]]:
    """Give *wanted*, then with fewer and fewer of ours; never without any of ours."""
    there = {entry["type"] for entry in found if is_ours(entry)}
    outcome = {_outcome(wanted)}
    for types in (set(OURS), {RUNNING} | outcome, there | outcome, there):
        entries = [entry for entry in wanted if not is_ours(entry) or entry["type"] in types]
        if any(is_ours(entry) for entry in entries):
            yield entries


def _outcome(wanted: Sequence[Any]) -> str:
    """Return the type that tells how the last run ended; `Running` where there was none."""
    told = (entry["type"] for entry in wanted if is_ours(entry) and entry.get("status") == "True")
    return next((type_ for type_ in told if type_ in {FAILURE, SUCCESSFUL}), RUNNING)


def _forms(wanted: Sequence[Any], *, failing: bool, limit: int) -> Iterator[list[Any]]:
    yield [_plain(entry, failing=failing, limit=limit) for entry in wanted]
    yield [_plain(entry, failing=failing, limit=min(limit, _SHORT_LIMIT)) for entry in wanted]
    yield [_bare(entry, keys=("type", "status", "lastTransitionTime", "reason", "message")) for entry in wanted]
    yield [_bare(entry, keys=("type", "status", "lastTransitionTime")) for entry in wanted]


def _failing(wanted: Sequence[Any]) -> bool:
    return any(is_ours(entry) and entry["type"] == FAILURE and entry.get("status") == "True" for entry in wanted)


def _plain(entry: Any, *, failing: bool, limit: int) -> Any:
    """Return one of ours without the recap, with a reason and a message that are never empty."""
    if not is_ours(entry):
        return entry
    reason = entry.get("reason") or ("Failed" if failing else "Successful")
    message = entry.get("message") or reason
    kept = {key: value for key, value in entry.items() if key != "ansibleResult"}
    return {**kept, "reason": reason, "message": _shorten(message, limit=limit)}


def _bare(entry: Any, *, keys: tuple[str, ...]) -> Any:
    """Return one of ours with *keys* alone, and no message."""
    if not is_ours(entry):
        return entry
    bare: Object = {key: entry[key] for key in keys if key in entry}
    return {**bare, "message": ""} if "message" in bare else bare


def _shorten(message: str, *, limit: int) -> str:
    if limit >= _ROOM_FOR_A_MARK:
        return cut_message(message, limit=limit)
    return message.encode(errors="replace")[:limit].decode(errors="ignore")
