"""What to do for one EC2Instance object: object and described instances in, a `Plan` out. Pure.

The role's task files only carry a plan out. Whatever can't be told apart from a launch that is still under way waits;
only a termination that was seen, or an instance that stayed invisible for longer than the grace period, leads to a new
attempt and so to a new instance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import (
    TagChanges,
    attempt_of,
    client_token,
    tag_changes,
    wanted_tags,
)
from ansible_collections.aws_operator.core.plugins.module_utils.instances import (
    ENDED,
    Drift,
    Instance,
    drift_of,
    is_settled,
    launch_digests,
    live,
    select,
    state_of,
)
from ansible_collections.aws_operator.core.plugins.module_utils.owned import Owned
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, render


@dataclass(frozen=True, kw_only=True)
class View(Owned):  # type: ignore[misc]  # mypy does not follow imports by the collection's name
    """What is known at the start of a run."""

    instances: Sequence[Instance]

    @property
    def recorded_id(self) -> str:
        """Return the instance id of the status, empty where none is recorded."""
        return str(self.status.get("instanceId") or "")

    @property
    def attempt(self) -> int:
        """Return the highest attempt known: from the status, or from the tokens of described instances."""
        uid = self.owner.uid
        seen = [attempt_of(instance.get("client_token") or "", uid=uid) for instance in self.instances]
        recorded = int(self.status.get("launchAttempt") or 0)
        return int(max([recorded, *seen]))

    @property
    def wants_running(self) -> bool:
        """Return whether the machine has to run."""
        return bool(self.spec.get("powerState", "Running") == "Running")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run has to do."""

    phase: str
    """`Launch`, `Wait` (invisible so far), `Hold` (ended, and not to be replaced), `Replace` or `Present`."""
    attempt: int
    token: str
    replaced_id: str = ""
    """The instance whose end is the reason for this launch."""
    instance: Instance = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    tag_changes: TagChanges = field(default_factory=TagChanges)
    drift: Sequence[Drift] = ()
    surplus: Sequence[str] = ()
    """Other live instances that carry the object's UID."""
    power: str = ""
    """`start`, `stop` or nothing."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes to set in place, by the argument names of `ec2_modify`."""
    out_of_band: bool = False
    """Whether what differs was changed by somebody else, not by an edit of the spec."""


def record_of(view: View, *, attempt: int) -> dict[str, Any]:
    """Return what to store before a launch; `missingSince` is about one attempt, and goes with it."""
    moved_on = {"missingSince": None} if attempt != int(view.status.get("launchAttempt") or 0) else {}
    return {
        "launchAttempt": attempt,
        "launchRequestedAt": render(view.now),
        "launchDigests": launch_digests(view.spec),
        "clusterId": view.cluster_id,
        "instanceId": None,
        **moved_on,
    }


def make_plan(view: View) -> Plan:
    """Decide."""
    chosen = select(view.instances, recorded_id=view.recorded_id, uid=view.owner.uid)
    return _absent(view) if chosen is None else _present(view, chosen)


def _absent(view: View) -> Plan:
    """Decide where no live instance is seen."""
    if view.attempt == 0:
        return _launch(view, attempt=1)
    ended = _ended(view)
    if ended is None and not view.recorded_id:
        return _repeat(view)
    if ended is None and not _invisible_too_long(view):
        return _plan(view, phase="Wait", attempt=view.attempt)
    if not view.wants_running:
        return _plan(view, phase="Hold", attempt=view.attempt, instance=ended or {})
    replaced = ended["instance_id"] if ended else view.recorded_id
    return _launch(view, attempt=view.attempt + 1, replaced_id=replaced)


def _repeat(view: View) -> Plan:
    """Decide for a launch without a known answer: ask again with the same token.

    `missingSince` is set where AWS said that the token was used for another request: that instance has to show up.
    """
    refused = view.status.get("missingSince")
    spent = bool(refused) and age(refused, now=view.now) >= view.grace
    return _launch(view, attempt=view.attempt + 1 if spent else view.attempt)


def _ended(view: View) -> Instance | None:
    """Return the instance of the newest attempt where it's seen to have ended."""
    token = client_token(uid=view.owner.uid, attempt=view.attempt)
    for instance in view.instances:
        is_newest = instance["instance_id"] == view.recorded_id or (instance.get("client_token") or "") == token
        if is_newest and state_of(instance) in ENDED:
            return instance
    return None


def _invisible_too_long(view: View) -> bool:
    since_launch = age(view.status.get("launchRequestedAt"), now=view.now)
    missing_since = view.status.get("missingSince")
    return bool(missing_since) and min(since_launch, age(missing_since, now=view.now)) >= view.grace


def _launch(view: View, *, attempt: int, replaced_id: str = "") -> Plan:
    return _plan(view, phase="Launch", attempt=attempt, replaced_id=replaced_id)


def _present(view: View, instance: Instance) -> Plan:
    """Decide for an instance that is there."""
    applied = view.status.get("tagKeys") or []
    wanted = wanted_tags(view.owner, view.spec.get("tags"))
    tags = tag_changes(current=instance.get("tags") or {}, wanted=wanted, applied=applied)
    drift = [
        *drift_of(view.spec, instance, launched=view.status.get("launchDigests")),
        *_power_drift(view, instance),
        *_tag_drift(tags),
    ]
    others = [other["instance_id"] for other in live(view.instances) if other is not instance]
    phase = "Replace" if _replaces(view, drift) else "Present"
    touch = phase == "Present" and is_settled(instance)
    return _plan(
        view,
        phase=phase,
        attempt=max(view.attempt, 1),
        instance=instance,
        drift=drift,
        surplus=others,
        power=_power(view, instance) if touch else "",
        changes=_changes(view.spec, drift) if touch else {},
        tag_changes=tags,
        out_of_band=view.was_right and bool(drift),
    )


def _power_drift(view: View, instance: Instance) -> list[Drift]:
    expected = "Running" if view.wants_running else "Stopped"
    state = state_of(instance)
    if not view.was_right or state == expected.lower():
        return []
    return [Drift(field="powerState", expected=expected, actual=state, action="Repair")]


def _tag_drift(changes: TagChanges) -> list[Drift]:
    if not changes.add and not changes.remove:
        return []
    expected = ",".join(sorted(changes.add)) or "no other tags"
    return [Drift(field="tags", expected=expected, actual=",".join(sorted(changes.remove)), action="Repair")]


def _replaces(view: View, drift: Sequence[Drift]) -> bool:
    immutable = any(item.action == "Immutable" for item in drift)
    return immutable and view.wants_running and view.spec.get("replacementPolicy") == "OnImmutableChange"


def _power(view: View, instance: Instance) -> str:
    state = state_of(instance)
    if view.wants_running:
        return "start" if state == "stopped" else ""
    return "stop" if state == "running" else ""


def _changes(spec: Mapping[str, Any], drift: Sequence[Drift]) -> dict[str, Any]:
    names = {
        "instanceType": "instance_type",
        "securityGroupIds": "security_group_ids",
        "iamInstanceProfile": "iam_instance_profile",
    }
    return {names[item.field]: spec[item.field] for item in drift if item.field in names and item.action == "Repair"}


def _plan(view: View, *, phase: str, attempt: int, **parts: Any) -> Plan:
    return Plan(
        phase=phase,
        attempt=attempt,
        token=client_token(uid=view.owner.uid, attempt=attempt),
        tags=wanted_tags(view.owner, view.spec.get("tags")),
        **parts,
    )
