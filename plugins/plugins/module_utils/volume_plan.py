"""What to do for one EBSVolume object: object, described volumes and the EC2Instance in, a `VolumePlan` out. Pure.

A volume that vanished is never replaced by itself: its data is gone, and a new empty one would hide that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import (
    TagChanges,
    client_token,
    tag_changes,
    wanted_tags,
)
from ansible_collections.aws_operator.core.plugins.module_utils.owned import Owned
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, render
from ansible_collections.aws_operator.core.plugins.module_utils.volume_hook import Hook, hook_of
from ansible_collections.aws_operator.core.plugins.module_utils.volumes import (
    USABLE,
    Volume,
    VolumeDrift,
    drift_of,
    is_foreign,
    live,
    modification_of,
    modify_arguments,
    select,
    state_of,
)


@dataclass(frozen=True, kw_only=True)
class VolumeView(Owned):  # type: ignore[misc]  # mypy does not follow imports by the collection's name
    """What is known at the start of a run."""

    volumes: Sequence[Volume]
    instance: Mapping[str, Any] | None = None
    """The EC2Instance that the spec names, None where there is none."""
    pause: float = 1800.0
    """Seconds for which a change that AWS refused for being too early isn't asked for again."""

    @property
    def recorded_id(self) -> str:
        """Return the volume id of the status, empty where none is recorded."""
        return str(self.status.get("volumeId") or "")

    @property
    def attempt(self) -> int:
        """Return the number of the last creation that was asked for."""
        return int(self.status.get("createAttempt") or 0)

    @property
    def asked(self) -> str:
        """Return the instance that we asked AWS to attach to, empty where there is none."""
        return str(self.status.get("attachRequestedFor") or "")

    @property
    def asked_lately(self) -> bool:
        """Return whether AWS may still hide the attachment that we asked for."""
        return bool(self.asked and age(self.status.get("attachRequestedAt"), now=self.now) < self.grace)

    @property
    def holds_changes(self) -> bool:
        """Return whether AWS refused this very spec's change a short while ago."""
        same_spec = self.status.get("modificationRefusedGeneration") == self.generation
        return same_spec and bool(age(self.status.get("modificationRefusedAt"), now=self.now) < self.pause)


@dataclass(frozen=True, kw_only=True)
class VolumePlan:
    """What a run has to do."""

    phase: str
    """`Create`, `Wait` (invisible so far), `Lost`, `NotOurs` (the recorded volume is somebody else's) or `Present`."""
    attempt: int
    token: str
    record: Mapping[str, Any] = field(default_factory=dict)
    """What to store before AWS is asked to create; None takes a field away."""
    volume: Volume = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    tag_changes: TagChanges = field(default_factory=TagChanges)
    drift: Sequence[VolumeDrift] = ()
    surplus: Sequence[str] = ()
    """Other live volumes that carry the object's UID, copies among them."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What to modify in place, by the argument names of `ebs_modify`."""
    hook: Hook = field(default_factory=Hook)
    asks_modification: bool = False
    """Whether it matters how far AWS is with a change."""
    out_of_band: bool = False
    """Whether what differs was changed by somebody else, not by an edit of the spec."""

    @property
    def acts(self) -> bool:
        """Return whether a run changes anything in AWS."""
        return bool(self.changes) or self.acts_otherwise

    @property
    def acts_otherwise(self) -> bool:
        """Return whether a run changes anything in AWS but size, type and performance."""
        tags = self.tag_changes
        moves = self.hook.attach or self.hook.detach
        return bool(self.phase == "Create" or moves or tags.add or tags.remove)


def make_plan(view: VolumeView) -> VolumePlan:
    """Decide."""
    chosen = select(view.volumes, recorded_id=view.recorded_id, uid=view.owner.uid)
    return _absent(view) if chosen is None else _present(view, chosen)


def _absent(view: VolumeView) -> VolumePlan:
    surplus = [volume["volume_id"] for volume in live(view.volumes) if volume["volume_id"] != view.recorded_id]
    if not view.recorded_id:
        attempt = view.attempt + 1 if view.attempt == 0 or _spent(view) else view.attempt
        record = _record(view, attempt=attempt)
        return _plan(view, phase="Create", attempt=attempt, record=record, surplus=surplus)
    return _plan(view, phase=_fate(view), attempt=max(view.attempt, 1), surplus=surplus)


def _record(view: VolumeView, *, attempt: int) -> dict[str, Any]:
    """Return what to store before the creation; `missingSince` is about one attempt, and goes with it."""
    moved_on = {"missingSince": None} if attempt != view.attempt else {}
    now = render(view.now)
    return {"createAttempt": attempt, "createRequestedAt": now, "clusterId": view.cluster_id, **moved_on}


def _fate(view: VolumeView) -> str:
    """Return the phase of a recorded volume that can't be used."""
    seen = [volume for volume in view.volumes if volume["volume_id"] == view.recorded_id]
    if any(is_foreign(volume, uid=view.owner.uid) for volume in live(seen)):
        return "NotOurs"
    return "Lost" if seen or _invisible_too_long(view) else "Wait"


def _spent(view: VolumeView) -> bool:
    """Return whether the token belongs to another request, and the volume of that one never showed up."""
    refused = view.status.get("missingSince")
    return bool(refused) and age(refused, now=view.now) >= view.grace


def _invisible_too_long(view: VolumeView) -> bool:
    since_creation = age(view.status.get("createRequestedAt"), now=view.now)
    missing_since = view.status.get("missingSince")
    return bool(missing_since) and min(since_creation, age(missing_since, now=view.now)) >= view.grace


def _present(view: VolumeView, volume: Volume) -> VolumePlan:
    tags = tag_changes(
        current=volume.get("tags") or {},
        wanted=wanted_tags(view.owner, view.spec.get("tags")),
        applied=view.status.get("tagKeys") or [],
    )
    fields = drift_of(view.spec, volume)
    drift = [*fields, *_tag_drift(tags)]
    usable = state_of(volume) in USABLE
    changes = modify_arguments(view.spec, fields)
    may_modify = usable and not modification_of(volume) and not view.holds_changes
    return _plan(
        view,
        phase="Present",
        attempt=max(view.attempt, 1),
        volume=volume,
        tag_changes=tags,
        drift=drift,
        surplus=[other["volume_id"] for other in live(view.volumes) if other is not volume],
        changes=changes if may_modify else {},
        hook=_hook(view, volume) if usable else Hook(),
        asks_modification=bool(changes or view.status.get("modificationState")),
        out_of_band=view.was_right and bool(drift),
    )


def _hook(view: VolumeView, volume: Volume) -> Hook:
    return hook_of(view.spec, volume, asked=view.asked, lately=view.asked_lately, instance=view.instance)


def _tag_drift(changes: TagChanges) -> list[VolumeDrift]:
    if not changes.add and not changes.remove:
        return []
    expected = ",".join(sorted(changes.add)) or "no other tags"
    return [VolumeDrift(field="tags", expected=expected, actual=",".join(sorted(changes.remove)), action="Repair")]


def _plan(view: VolumeView, *, phase: str, attempt: int, **parts: Any) -> VolumePlan:
    return VolumePlan(
        phase=phase,
        attempt=attempt,
        token=client_token(uid=view.owner.uid, attempt=attempt),
        tags=wanted_tags(view.owner, view.spec.get("tags")),
        **parts,
    )
