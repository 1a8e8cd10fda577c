"""Two answers to one request, compared: status, the headers that a client acts on, and the body. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tools.proxy_bench.case import Case
from tools.proxy_bench.target import Answer

_HEADERS = (
    "Allow", "Cache-Control", "Content-Encoding", "Content-Type", "ETag", "Location", "Retry-After", "Vary", "Warning",
    "X-Content-Type-Options", "X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID",
)  # fmt: skip
_SHOWN = 3
_WIDTH = 120


def differences(case: Case, direct: Answer, proxied: Answer, *, owned: bool) -> list[str]:  # noqa: PLR0917 - the pair
    """Return what differs, in words; *owned*: a live run asked, so that owner references are added.

    Args:
        case: tells what may differ.
        direct: the API server's answer.
        proxied: the answer through the proxy.
        owned: of the second one.
    """
    found = []
    if direct.status != proxied.status:
        found.append(f"status: direct {direct.status}, proxy {proxied.status}: {proxied.body[:_WIDTH]!r}")
    names = (*_HEADERS, "Content-Length") if case.method == "HEAD" else _HEADERS
    for name in names:
        values = [_values(answer.headers, name) for answer in (direct, proxied)]
        if values[0] != values[1]:
            found.append(f"header {name}: direct {values[0]}, proxy {values[1]}")
    injected = owned and case.injected and proxied.status < 300
    bodies = [_comparable(answer.body, case=case, injected=injected) for answer in (direct, proxied)]
    found += list(_unequal(bodies[0], bodies[1], at=""))[:_SHOWN]
    if injected and b"ownerReferences" not in proxied.body:
        found.append("body: no owner reference was added")
    return found


def _values(headers: Mapping[str, str], name: str) -> list[str]:
    return sorted(value for key, value in headers.items() if key.lower() == name.lower())


def _comparable(body: bytes, *, case: Case, injected: bool) -> Any:
    if case.names_only:
        return sorted({line.split(b"{")[0].split(b" ")[0] for line in body.splitlines() if not line.startswith(b"#")})
    masked = frozenset((*case.masked, *(("fieldsV1",) if injected else ())))
    dropped = frozenset({"ownerReferences"} if injected else ())
    try:
        if case.lines:
            return sorted(_line(line, masked=masked) for line in body.splitlines())
        value = json.loads(body)
    except ValueError:
        return body
    if case.of_list and isinstance(value, dict) and value.get("kind") != "Status":
        value["metadata"] = {key: bool(found) if key in _MOVING else found for key, found in value["metadata"].items()}
    return _masked(value, masked=masked, dropped=dropped)


_MOVING = ("resourceVersion", "continue")


def _line(line: bytes, *, masked: frozenset[str]) -> str:
    event = json.loads(line)
    if event.get("type") == "BOOKMARK":
        event["object"]["metadata"]["resourceVersion"] = "masked"
    return json.dumps(_masked(event, masked=masked, dropped=frozenset()), sort_keys=True)


def _masked(value: Any, *, masked: frozenset[str], dropped: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_masked(one, masked=masked, dropped=dropped) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(cells := value.get("cells"), list):  # a Table's row: the last one is the age
        value = {**value, "cells": cells[:-1]}
    return {
        key: "masked" if key in masked else _masked(one, masked=masked, dropped=dropped)
        for key, one in value.items()
        if key not in dropped
    }


def _unequal(direct: Any, proxied: Any, *, at: str) -> Iterator[str]:
    if isinstance(direct, dict) and isinstance(proxied, dict):
        for key in direct.keys() | proxied.keys():
            yield from _unequal(direct.get(key), proxied.get(key), at=f"{at}.{key}")
    elif isinstance(direct, list) and isinstance(proxied, list) and len(direct) == len(proxied):
        for number, pair in enumerate(zip(direct, proxied, strict=True)):
            yield from _unequal(*pair, at=f"{at}[{number}]")
    elif direct != proxied:
        yield f"body{at}: direct {_short(direct)}, proxy {_short(proxied)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}... ({len(text)} characters)"
