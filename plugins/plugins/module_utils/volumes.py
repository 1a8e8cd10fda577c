"""Reading described EBS volumes: which one is the object's, where it differs from the spec, what it hangs on. Pure.

A volume is a mapping as `ebs_describe` returns it (snake-cased keys, tags as a mapping).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import UID_TAG

Volume = Mapping[str, Any]
_GONE = ("deleting", "deleted", "")
USABLE = ("available", "in-use")
DELETABLE = ("available", "error")
# Spec field, key of a described volume, argument of `ebs_modify`.
MUTABLE = (
    ("sizeGiB", "size", "size_gib"),
    ("volumeType", "volume_type", "volume_type"),
    ("iops", "iops", "iops"),
    ("throughput", "throughput", "throughput"),
)
# Where EC2 lets a Linux instance attach more volumes, as AWS recommends it.
DEVICES = tuple(f"/dev/sd{letter}" for letter in "fghijklmnop")
_DEVICE = re.compile(r"(?:/dev/)?(?:sd|xvd|hd)([a-z]{1,2})[0-9]*")


@dataclass(frozen=True, kw_only=True)
class VolumeDrift:
    """One field in which the volume isn't what the spec says, and what is done about it."""

    field: str
    expected: str
    actual: str
    action: str
    """`Repair` (in place), `Blocked` (a person has to decide)."""

    def sentence(self) -> str:
        """Return it for a person."""
        return f"{self.field}: the spec says {self.expected or 'nothing'}, the volume has {self.actual or 'nothing'}"


def state_of(volume: Volume) -> str:
    """Return the state's name, empty for no volume."""
    return str(volume.get("state") or "")


def live(volumes: Iterable[Volume]) -> list[Volume]:
    """Return those that exist and cost money."""
    return [volume for volume in volumes if state_of(volume) not in _GONE]


def is_foreign(volume: Volume, *, uid: str) -> bool:
    """Return whether it isn't of the object with *uid*: its UID tag says so, or it's a copy, which ours never are.

    Who restores a backup often gives the new volume the tags of the old one.
    """
    copied = volume.get("snapshot_id") or volume.get("source_volume_id")
    return bool(copied) or _uid_of(volume) not in {None, uid}


def own(volumes: Iterable[Volume], *, recorded_id: str, uid: str) -> list[Volume]:
    """Return the object's volumes in any state: the recorded one, and those that carry its UID tag."""
    found = [volume for volume in volumes if not is_foreign(volume, uid=uid)]
    return [volume for volume in found if volume["volume_id"] == recorded_id or _uid_of(volume) == uid]


def select(volumes: Iterable[Volume], *, recorded_id: str, uid: str) -> Volume | None:
    """Return the object's live volume: the recorded one and no other, the oldest where none is recorded."""

    def rank(volume: Volume) -> tuple[str, str]:
        return str(volume.get("create_time") or ""), volume["volume_id"]

    found = live(own(volumes, recorded_id=recorded_id, uid=uid))
    return min((one for one in found if recorded_id in {"", one["volume_id"]}), key=rank, default=None)


def _uid_of(volume: Volume) -> str | None:
    uid: str | None = (volume.get("tags") or {}).get(UID_TAG)
    return uid


def attachments_of(volume: Volume) -> list[Mapping[str, Any]]:
    """Return all that the volume hangs on; several with Multi-Attach."""
    return [item for item in volume.get("attachments") or [] if item.get("state") != "detached"]


def attachment_of(volume: Volume, *, at: Sequence[str] = ()) -> Mapping[str, Any]:
    """Return what the volume hangs on, empty where it's free; of several that at the first instance of *at*."""
    found = attachments_of(volume)
    ranked = [item for instance_id in at for item in found if item.get("instance_id") == instance_id]
    return next(iter([*ranked, *found]), {})


def modification_of(volume: Volume) -> str:
    """Return how far AWS is with the last change: `modifying`, `optimizing`, or nothing where none is under way."""
    state = str((volume.get("modification") or {}).get("modification_state") or "")
    return state if state in {"modifying", "optimizing"} else ""


def drift_of(spec: Mapping[str, Any], volume: Volume) -> list[VolumeDrift]:
    """Compare what can be changed in place; a volume that is larger than the spec says can only be told."""
    found = []
    for field, key, _argument in MUTABLE:
        wanted, actual = spec.get(field), volume.get(key)
        if wanted in {None, ""} or str(wanted) == str(actual):
            continue
        shrinks = field == "sizeGiB" and int(wanted or 0) < int(actual or 0)
        action = "Blocked" if shrinks else "Repair"
        found.append(VolumeDrift(field=field, expected=str(wanted), actual=str(actual or ""), action=action))
    return found


def modify_arguments(spec: Mapping[str, Any], drift: Iterable[VolumeDrift]) -> dict[str, Any]:
    """Return the fields to set in place, by the argument names of `ebs_modify`.

    With another type AWS gives its own IOPS and throughput, so that those of the spec are sent along, differing or not.
    """
    fields = {item.field for item in drift if item.action == "Repair"}
    if "volumeType" in fields:
        fields |= {field for field in ("iops", "throughput") if spec.get(field)}
    return {argument: spec[field] for field, _key, argument in MUTABLE if field in fields}


def free_device(instances: Sequence[Mapping[str, Any]]) -> str:
    """Return the first device name that the described instance doesn't use; empty where all are taken."""
    used = {
        str(mapping.get("device_name") or "")
        for instance in instances
        for mapping in instance.get("block_device_mappings") or []
    }
    taken = {f"/dev/sd{match.group(1)}" for match in map(_DEVICE.fullmatch, used) if match}
    return next((device for device in DEVICES if device not in taken), "")
