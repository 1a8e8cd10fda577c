"""The Lease as the election reads and writes it: pure functions on the object, in client-go's form."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.settings import LeaderElectionSettings

LEASES = Resource(gvk=GVK("coordination.k8s.io", "v1", "Lease"), plural="leases")


def spec_of(lease: Object) -> Object:
    """Return the spec; empty where somebody made the Lease without one."""
    found = lease.get("spec")
    return found if isinstance(found, dict) else {}


def holder_of(lease: Object) -> str:
    """Return the holder's identity, empty for none."""
    return str(spec_of(lease).get("holderIdentity") or "")


def duration_of(lease: Object) -> int:
    """Return for how many seconds the holder may be silent; 0 where nothing is said."""
    return int(spec_of(lease).get("leaseDurationSeconds") or 0)


def new_lease(settings: LeaderElectionSettings) -> Object:
    """Return a Lease that nobody holds, to be `held`."""
    head = {"name": settings.id, "namespace": settings.namespace}
    return {"apiVersion": LEASES.gvk.api_version, "kind": LEASES.gvk.kind, "metadata": head}


def held(lease: Object, *, identity: str, duration: float, now: datetime) -> Object:
    """Return *lease* with *identity* as its holder from *now* on; whatever else is in it stays.

    A part of a second is rounded up: others must not count less than the holder does.
    """
    old = spec_of(lease)
    ours = holder_of(lease) == identity
    transitions = int(old.get("leaseTransitions") or 0)
    is_first = not lease["metadata"].get("resourceVersion")
    spec = {
        **old,
        "holderIdentity": identity,
        "leaseDurationSeconds": math.ceil(duration),
        "acquireTime": (ours and old.get("acquireTime")) or _stamp(now),
        "renewTime": _stamp(now),
        "leaseTransitions": transitions if ours or is_first else transitions + 1,
    }
    return {**lease, "spec": spec}


def freed(lease: Object, *, now: datetime) -> Object:
    """Return *lease* without a holder, as client-go's release leaves it."""
    moment = _stamp(now)
    free = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": moment, "renewTime": moment}
    return {**lease, "spec": {**spec_of(lease), **free}}


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
