"""What a request is about, read from its method and URL by the rules of kube-apiserver's RequestInfo. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, unquote

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SPECIAL = frozenset({"watch", "proxy"})
"""First segments that are verbs."""
_OF_NAMESPACES = frozenset({"status", "finalize"})
"""What follows a namespace's name and belongs to the Namespace itself."""
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*://[^/?]*", re.IGNORECASE)
_TERM = re.compile(r"(?:\\.|[^\\,])+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TRUE_UNLESS = frozenset({"false", "0"})


@dataclass(frozen=True, kw_only=True)
class RequestInfo:
    """One request, taken apart; all but `path`, `verb` and `method` are empty where it is about no resource."""

    is_resource: bool
    path: str
    """Percent-decoded, without the query."""
    method: str
    verb: str
    """As RBAC names it (get, list, watch, create, update, patch, delete, deletecollection), or `proxy`; else the method
    in lower case."""
    prefix: str = ""
    """`api` or `apis`."""
    group: str = ""
    version: str = ""
    namespace: str = ""
    """Of a Namespace its own name, as kube-apiserver has it."""
    resource: str = ""
    """The plural, as in the URL."""
    subresource: str = ""
    name: str = ""
    parts: tuple[str, ...] = ()
    """Resource, name, subresource and whatever follows."""

    @property
    def namespaced(self) -> bool:
        """Tell whether the URL is that of something in a namespace."""
        return bool(self.namespace) and (self.group, self.resource) != ("", "namespaces")


def parse(method: str, target: str) -> RequestInfo:
    """Return what *method* and the raw *target* (path and query) ask for; never raises."""
    raw_path, _, query = _without_host(target).partition("?")
    path, method = unquote(raw_path), method.upper()
    other = RequestInfo(is_resource=False, path=path, method=method, verb=method.lower())
    prefix, *rest = path.strip("/").split("/")
    head = {"api": 1, "apis": 2}.get(prefix)
    if head is None or len(rest) < head + 1:
        return other
    group, version, parts = "" if head == 1 else rest[0], rest[head - 1], rest[head:]
    verb = _VERBS.get(method, method.lower())
    if parts[0] in _SPECIAL:
        verb, *parts = parts
        if not parts:
            return other
    namespace, parts = _split_namespace(parts)
    info = replace(
        other,
        is_resource=True,
        verb=verb,
        prefix=prefix,
        group=group,
        version=version,
        namespace=namespace,
        resource=parts[0],
        name=parts[1] if len(parts) > 1 else "",
        subresource=parts[2] if len(parts) > 2 and verb != "proxy" else "",
        parts=tuple(parts),
    )
    return info if info.name else _of_collection(info, query=query)


def _without_host(target: str) -> str:
    """Return the part from the path on: a client that takes us for its HTTP proxy sends the whole URL."""
    absolute = _ABSOLUTE.match(target)
    return target[absolute.end() :] if absolute else target


def _split_namespace(parts: list[str]) -> tuple[str, list[str]]:
    if parts[0] != "namespaces" or len(parts) < 2:
        return "", parts
    inside = len(parts) > 2 and parts[2] not in _OF_NAMESPACES
    return parts[1], parts[2:] if inside else parts


def _of_collection(info: RequestInfo, *, query: str) -> RequestInfo:
    """Return *info*, whose URL names no object, with the verb of a collection."""
    if info.verb == "delete":
        return replace(info, verb="deletecollection")
    if info.verb != "get":
        return info
    parameters: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        parameters.setdefault(key, value)
    watches = parameters.get("watch", "false").lower() not in _TRUE_UNLESS
    name = _selected_name(parameters.get("fieldSelector", ""))
    return replace(info, verb="watch" if watches else "list", name=name)


def _selected_name(selector: str) -> str:
    """Return the one name that a field selector allows, empty where it is no selector or names none."""
    found = ""
    for field, operator, value in _terms(selector):
        if not operator:
            return ""
        if field == "metadata.name" and operator != "!=" and not found:
            found = value
    return "" if found in {".", ".."} or "/" in found or "%" in found else found


def _terms(selector: str) -> Iterator[tuple[str, str, str]]:
    for term in _TERM.findall(selector):
        parts = re.split(r"(!=|==|=)", term, maxsplit=1)
        field, operator, value = parts if len(parts) == 3 else (term, "", "")
        yield field, operator, _ESCAPED.sub(r"\1", value)
