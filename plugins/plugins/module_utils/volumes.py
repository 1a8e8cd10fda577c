"""Reading described EBS volumes: which one is the object's, where it differs from the spec, what it hangs on. Pure.

A volume is a mapping as `ebs_describe` returns it (snake-cased keys, tags as a mapping).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Volume = Mapping[str, Any]
_GONE = ("deleting", "deleted", "")
USABLE = ("available", "in-use")
# Spec field, key of a described volume, argument of `ebs_modify`.
MUTABLE = (
    ("sizeGiB", "size", "size_gib"),
    ("volumeType", "volume_type", "volume_type"),
    ("iops", "iops", "iops"),
    ("throughput", "throughput", "throughput"),
)
# Where EC2 lets a Linux instance attach more volumes, as AWS recommends it.
DEVICES = tuple(f"/dev/sd{letter}" for letter in "fghijklmnop")


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


def select(volumes: Iterable[Volume], *, recorded_id: str) -> Volume | None:
    """Return the object's live volume: the recorded one, else the oldest."""

    def rank(volume: Volume) -> tuple[bool, str, str]:
        return volume["volume_id"] != recorded_id, str(volume.get("create_time") or ""), volume["volume_id"]

    return min(live(volumes), key=rank, default=None)


def attachment_of(volume: Volume) -> Mapping[str, Any]:
    """Return what the volume hangs on, empty where it's free."""
    return next((item for item in volume.get("attachments") or [] if item.get("state") != "detached"), {})


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
    """Return the fields to set in place, by the argument names of `ebs_modify`."""
    arguments = {field: argument for field, _key, argument in MUTABLE}
    return {
        arguments[item.field]: spec[item.field] for item in drift if item.action == "Repair" and item.field in arguments
    }


def free_device(instances: Sequence[Mapping[str, Any]]) -> str:
    """Return the first device name that the described instance doesn't use; empty where all are taken."""
    used = {
        str(mapping.get("device_name") or "")
        for instance in instances
        for mapping in instance.get("block_device_mappings") or []
    }
    taken = used | {f"/dev/sd{name[-1]}" for name in used if name.startswith("/dev/xvd")}
    return next((device for device in DEVICES if device not in taken), "")
