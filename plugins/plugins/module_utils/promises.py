"""For which pods a node is coming, and whether the node that came took them: no pool grows again where it didn't. Pure.

What a pool's first node will look like is a guess, and so is the zone of the next one where there are several. A pod
that doesn't fit the machine that was launched for it would raise its pool again and again. Pods that ask for the same
count as one: a Deployment's pods, and those that replace them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.conditions import cut
from ansible_collections.aws_operator.core.plugins.module_utils.neighbours import rules_for
from ansible_collections.aws_operator.core.plugins.module_utils.places import Place
from ansible_collections.aws_operator.core.plugins.module_utils.pod_fit import misfit
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import Volumes
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, parse

_ASKS = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
_SIZES = ("targetNodes", "minNodes", "maxNodes")
_KEPT = 200
# A CronJob's next pod asks for the same after the last one has gone: broken promises outlast their pods.
_REMEMBERED = 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A node of one pool that was coming for pods of one likeness."""

    pool: str
    likeness: str
    pod: str
    """Namespace and name of one of them."""
    since: str
    revision: str
    """Of the pool's spec: after an edit it's tried anew."""
    unfit: str = ""
    """Why the nodes that came since then take no such pod, empty while none came, or where one does."""
    is_waited_for: bool = True
    """Whether such a pod waits now; not kept in the status."""

    def entry(self) -> dict[str, str]:
        """Return it as the status has it."""
        entry = {
            "pool": self.pool,
            "pods": self.likeness,
            "pod": self.pod,
            "since": self.since,
            "poolRevision": self.revision,
            "unfit": self.unfit,
        }
        return {name: value for name, value in entry.items() if value}


def promises_of(status: Mapping[str, Any]) -> list[Promise]:
    """Return what the status kept."""
    return [
        Promise(
            pool=str(item.get("pool") or ""),
            likeness=str(item.get("pods") or ""),
            pod=str(item.get("pod") or ""),
            since=str(item.get("since") or ""),
            revision=str(item.get("poolRevision") or ""),
            unfit=str(item.get("unfit") or ""),
        )
        for item in status.get("grownFor") or []
    ]


def judged(
    promises: Iterable[Promise],
    *,
    guests: Iterable[Guest],
    revisions: Mapping[str, str],
    places: Sequence[Place],
    volumes: Volumes,
    now: datetime,
) -> list[Promise]:
    """Return the promises that still matter, each held against the nodes that came.

    *guests* are the pods that still wait, *revisions* those of the pools by name. A broken one is remembered for a day
    though no such pod waits.
    """
    waiting: dict[str, Guest] = {}
    for guest in sorted(guests, key=lambda item: item.key, reverse=True):
        waiting[likeness_of(guest)] = guest
    found = []
    for promise in promises:
        if revisions.get(promise.pool) != promise.revision:
            continue
        if promise.likeness in waiting:
            found.append(_held(promise, waiting[promise.likeness], places=places, volumes=volumes))
        elif promise.unfit and age(promise.since, now=now) < _REMEMBERED:
            found.append(replace(promise, is_waited_for=False))
    return found


def renewed(promises: Sequence[Promise], new: Iterable[Promise]) -> list[Promise]:
    """Return what to keep: old ones before new ones of the same pods and pool, broken ones before all."""
    found = {(item.pool, item.likeness): item for item in [*new, *promises]}
    newest = sorted(found.values(), key=lambda item: (item.since, item.pool, item.likeness), reverse=True)
    kept = sorted(newest, key=lambda item: not item.unfit)[:_KEPT]
    return sorted(kept, key=lambda item: (item.since, item.pool, item.likeness))


def likeness_of(guest: Guest) -> str:
    """Return a digest of what decides where a pod can be, without its name and labels."""
    claims = [
        {name: value for name, value in volume.items() if name in {"persistentVolumeClaim", "ephemeral"}}
        for volume in guest.spec.get("volumes") or []
    ]
    asked = {name: guest.spec[name] for name in _ASKS if guest.spec.get(name)}
    parts = [guest.namespace, dict(guest.requests), sorted(guest.ports), asked, [item for item in claims if item]]
    return _digest(parts)


def revision_of(spec: Mapping[str, Any]) -> str:
    """Return a digest of a pool's spec that doesn't change with its size."""
    return _digest({name: value for name, value in spec.items() if name not in _SIZES})


def _held(promise: Promise, guest: Guest, *, places: Sequence[Place], volumes: Volumes) -> Promise:
    mine = sorted((place for place in places if place.pool == promise.pool), key=lambda place: place.name)
    came = [place for place in mine if _came(place, promise)]
    if not came:
        return promise
    reasons = [_why_unfit(guest, place, places=places, volumes=volumes) for place in came]
    return replace(promise, unfit="" if "" in reasons else cut(f"{came[0].name} {reasons[0]}"))


def _came(place: Place, promise: Promise) -> bool:
    ready, since = parse(place.ready_since), parse(promise.since)
    return bool(place.is_there and place.is_open and ready and since and ready >= since)


def _why_unfit(guest: Guest, place: Place, *, places: Sequence[Place], volumes: Volumes) -> str:
    """Return why the node would take no such pod though it were empty: others on it are what a next node is for."""
    bare = place.copy()
    bare.clear()
    others = [bare if other is place else other for other in places]
    found = misfit(guest, bare, rules=rules_for(guest, others), volumes=volumes)
    return str(found.text) if found else ""


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
