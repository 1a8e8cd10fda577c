"""Warns of what a run writes without an owner: never in silence, and not for each object anew."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from runner.logs import Logger
from runner.proxy.exchange import Caller
from runner.proxy.request_info import RequestInfo

_MOST_TOLD = 1000


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a write passed without an owner, and what to do."""

    sentence: str
    per_run: bool = True
    """Told for each run, as it is a role's doing; else once, as it is the operator's."""


NOT_READABLE = Reason(
    sentence="An object was written in a format that the proxy can't read, so it got no owner reference and its "
    "changes are not watched. Let the client send JSON (kubectl and oc: create from YAML or JSON files)"
)
NOT_SERVED = Reason(
    sentence="An object was written whose kind API discovery does not list, so it got no owner reference and its "
    "changes are not watched. Where the kind is served by an aggregated API server, correct that one's discovery"
)
MAY_NOT_GET = Reason(
    sentence="An object was replaced or applied that the operator may not read, so nobody knows whose it is: it got no "
    "owner reference. Grant the verb get on it to the operator's service account",
    per_run=False,
)


class Unowned:
    """Writes each warning once per kind, and per run where it is a role's doing."""

    def __init__(self, logger: Logger) -> None:
        """Warn by *logger*."""
        self._logger = logger
        self._seen: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def tell(self, reason: Reason, *, info: RequestInfo, caller: Caller, content_type: str) -> None:
        """Write the warning about a request, unless it was written before."""
        label = f"{info.resource}.{info.group}" if info.group else info.resource
        key = (reason.sentence, label, caller.run if reason.per_run else "")
        if key in self._seen:
            return
        self._seen[key] = None
        if len(self._seen) > _MOST_TOLD:
            self._seen.popitem(last=False)
        self._logger.warning(
            reason.sentence,
            resource=label,
            namespace=info.namespace,
            name=info.name,
            contentType=content_type,
            owner="/".join(part for part in (caller.owner.gvk.kind, caller.owner.namespace, caller.owner.name) if part),
            run=caller.run,
        )
