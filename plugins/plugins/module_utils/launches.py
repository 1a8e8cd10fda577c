"""Which machines a pool launches, and which it gives up. Pure; a part of the pool's plan.

Never more machines than wanted and one above, those that are still ending counted. After a machine that never became a
node the next one waits, longer each time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.durations import backoff, seconds
from ansible_collections.aws_operator.core.plugins.module_utils.offerings import (
    Offering,
    Shortage,
    choose,
    offerings_of,
    shown,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import BOOTING, LAUNCH_FAILED, Member
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import POOL_LABEL, POOL_UID_LABEL
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import CREATE, Action, PoolView
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, parse, render

SURGE = 1
REGISTRATION_TIMEOUT = 600.0
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 1800.0
_ROOT_DEVICE = "/dev/xvda"
_PASSED_ON = (
    "region",
    "credentialsSecretRef",
    "imageId",
    "iamInstanceProfile",
    "keyName",
    "securityGroupIds",
    "associatePublicIp",
    "tags",
    "deletionPolicy",
)


@dataclass(frozen=True, kw_only=True)
class Registration:
    """How often in a row a machine never became a node."""

    failures: int = 0
    last: str = ""

    def pause_ends(self) -> datetime | None:
        """Return when the next machine may be launched, None for at any time."""
        failed = parse(self.last)
        if not self.failures or failed is None:
            return None
        pause: float = backoff(self.failures, first=FIRST_PAUSE, most=LONGEST_PAUSE)
        end: datetime = failed + timedelta(seconds=pause)
        return end


def never_registered(view: PoolView) -> list[Member]:
    """Return the machines that run for longer than the timeout and became no node."""
    timeout = seconds(view.spec.get("registrationTimeout"), default=REGISTRATION_TIMEOUT)
    return [
        member
        for member in view.members
        if timeout and member.phase == BOOTING and age(member.launched, now=view.now) >= timeout
    ]


def useless(view: PoolView) -> list[Member]:
    """Return the failed launches that nothing can come of: no capacity there, or the pool was edited since.

    Others stay: their EC2Instance tries again by itself, and a person reads why it fails.
    """
    return [
        member
        for member in view.members
        if member.phase == LAUNCH_FAILED
        and (member.lacks_capacity or _is_outdated(view, member))
        and not view.may_be_a_node(member)
    ]


def registration_of(view: PoolView, *, failed_now: bool) -> Registration:
    """Return how often registration failed in a row; a node that joined after the last failure ends the row."""
    last, failures = str(view.status.get("lastRegistrationFailure") or ""), 0
    joined = [parse(member.node["metadata"].get("creationTimestamp")) for member in view.members if member.node]
    failed = parse(last)
    if failed and not any(time and time > failed for time in joined):
        failures = int(view.status.get("registrationFailures") or 0)
    if failed_now:
        return Registration(failures=failures + 1, last=render(view.now))
    return Registration(failures=failures, last=last if failures else "")


def launches(
    view: PoolView, *, missing: int, shortages: Mapping[Offering, Shortage], registration: Registration
) -> list[Action]:
    """Return the machines to launch now, at most *missing*."""
    pause = registration.pause_ends()
    if view.obstacle or (pause and pause > view.now):
        return []
    number = min(missing, view.wanted + SURGE - len(view.members))
    chosen = choose(
        max(0, number),
        offerings=offerings_of(view.spec),
        shortages=shortages,
        members=view.members,
        now=view.now,
    )
    first = last_serial(view) + 1
    return [
        Action(
            kind=CREATE,
            name=_name(view, serial),
            why=f"{view.wanted} nodes are wanted: {shown(offering)}",
            body=instance_object(view, name=_name(view, serial), offering=offering),
        )
        for serial, offering in enumerate(chosen, start=first)
    ]


def last_serial(view: PoolView, created: Sequence[Action] = ()) -> int:
    """Return the highest number that a machine of the pool has had, so that no name is used twice."""
    prefix = f"{view.pool['metadata']['name']}-"
    names = [*(member.name for member in view.members), *(action.name for action in created)]
    tails = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return max([int(view.status.get("lastSerial") or 0), *(int(tail) for tail in tails if tail.isdigit())])


def instance_object(view: PoolView, *, name: str, offering: Offering) -> dict[str, Any]:
    """Return the EC2Instance to create; the pool owns it."""
    meta = view.pool["metadata"]
    owner = {
        "apiVersion": view.pool["apiVersion"],
        "kind": view.pool["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": view.pool["apiVersion"],
        "kind": "EC2Instance",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {POOL_LABEL: str(meta["name"])[:63], POOL_UID_LABEL: meta["uid"]},
            "ownerReferences": [owner],
        },
        "spec": _instance_spec(view, offering),
    }


def _instance_spec(view: PoolView, offering: Offering) -> dict[str, Any]:
    spec = view.spec
    disk = [{"deviceName": spec.get("rootDeviceName") or _ROOT_DEVICE, "sizeGiB": spec.get("diskSizeGiB")}]
    parts = {
        **{name: spec.get(name) for name in _PASSED_ON},
        "instanceType": offering[0],
        "subnetId": offering[1],
        "storage": disk if spec.get("diskSizeGiB") else None,
        "userDataSecretRef": {"name": view.user_data_secret} if view.user_data_secret else None,
    }
    return {name: value for name, value in parts.items() if value not in (None, "", [], {})}


def _is_outdated(view: PoolView, member: Member) -> bool:
    """Return whether the pool would launch something else today; what the API server added doesn't count."""
    if member.offering not in offerings_of(view.spec):
        return True
    return not _covers(member.obj.get("spec") or {}, _instance_spec(view, member.offering))


def _covers(there: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and isinstance(there, Mapping):
        return all(name in there and _covers(there[name], value) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(there, list):
        pairs = zip(there, wanted, strict=False)
        return len(there) == len(wanted) and all(_covers(*pair) for pair in pairs)
    return bool(there == wanted)


def _name(view: PoolView, serial: int) -> str:
    return f"{view.pool['metadata']['name']}-{serial}"


def names_of(members: Collection[Member]) -> set[str]:
    """Return the members' names."""
    return {member.name for member in members}
