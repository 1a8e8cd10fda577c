"""Reading described instances: which one is the object's, and where it differs from the spec. Pure functions.

An instance is a mapping as `ec2_describe` returns it (snake-cased keys, tags as a mapping).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import attempt_of

Instance = Mapping[str, Any]
LIVE = ("pending", "running", "stopping", "stopped")
ENDED = ("shutting-down", "terminated")
_SETTLED = ("running", "stopped")
# Fields that AWS fixes at the launch and doesn't show with the instance: compared by the digest taken then.
_DIGESTED = ("associatePublicIp", "storage", "userData", "userDataSecretRef")


def state_of(instance: Instance) -> str:
    """Return the state's name, empty for no instance."""
    return str((instance.get("state") or {}).get("name") or "")


def is_settled(instance: Instance) -> bool:
    """Return whether the instance stands still, so that it may be changed."""
    return state_of(instance) in _SETTLED


def live(instances: Iterable[Instance]) -> list[Instance]:
    """Return those that exist and cost money; never one that is terminated or on its way there."""
    return [instance for instance in instances if state_of(instance) in LIVE]


def select(instances: Iterable[Instance], *, recorded_id: str, uid: str) -> Instance | None:
    """Return the object's live instance: the recorded one, else one launched with our token, else the oldest."""

    def rank(instance: Instance) -> tuple[bool, bool, str, str]:
        return (
            instance["instance_id"] != recorded_id,
            attempt_of(instance.get("client_token") or "", uid=uid) == 0,
            str(instance.get("launch_time") or ""),
            instance["instance_id"],
        )

    return min(live(instances), key=rank, default=None)


@dataclass(frozen=True, kw_only=True)
class Drift:
    """One field in which the instance isn't what the spec says, and what is done about it."""

    field: str
    expected: str
    actual: str
    action: str
    """`Repair` (in place), `StopRequired` or `Immutable`."""

    def sentence(self) -> str:
        """Return it for a person."""
        return f"{self.field}: the spec says {self.expected or 'nothing'}, the instance has {self.actual or 'nothing'}"


def launch_digests(spec: Mapping[str, Any]) -> list[str]:
    """Return what to remember of the fields that AWS doesn't show again; of a secret only its name counts."""
    present = {name: spec[name] for name in _DIGESTED if spec.get(name) not in (None, [], "")}
    return [f"{name}={_digest(value)}" for name, value in sorted(present.items())]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def drift_of(spec: Mapping[str, Any], instance: Instance, *, launched: Sequence[str] | None = None) -> list[Drift]:
    """Compare spec and instance; *launched* are the digests taken at the launch (None: unknown, so not compared)."""
    found = [*_repairable(spec, instance), *_plain_immutable(spec, instance)]
    if launched is not None:
        changed = {entry.partition("=")[0] for entry in {*launched} ^ {*launch_digests(spec)}}
        found += [
            Drift(field=name, expected="another one", actual="the one of its launch", action="Immutable")
            for name in sorted(changed)
        ]
    return found


def _repairable(spec: Mapping[str, Any], instance: Instance) -> Iterable[Drift]:
    wanted_type, actual_type = str(spec.get("instanceType") or ""), str(instance.get("instance_type") or "")
    if wanted_type and wanted_type != actual_type:
        action = "Repair" if state_of(instance) == "stopped" else "StopRequired"
        yield Drift(field="instanceType", expected=wanted_type, actual=actual_type, action=action)
    groups = sorted(spec.get("securityGroupIds") or [])
    actual_groups = sorted(group["group_id"] for group in instance.get("security_groups") or [])
    if groups and groups != actual_groups:
        yield Drift(
            field="securityGroupIds", expected=",".join(groups), actual=",".join(actual_groups), action="Repair"
        )
    profile = str(spec.get("iamInstanceProfile") or "")
    arn = str((instance.get("iam_instance_profile") or {}).get("arn") or "")
    if profile and arn != profile and not arn.endswith(f"/{profile}"):
        yield Drift(field="iamInstanceProfile", expected=profile, actual=arn, action="Repair")


def _plain_immutable(spec: Mapping[str, Any], instance: Instance) -> Iterable[Drift]:
    for name, key in (("imageId", "image_id"), ("keyName", "key_name"), ("subnetId", "subnet_id")):
        wanted, actual = str(spec.get(name) or ""), str(instance.get(key) or "")
        if wanted and wanted != actual:
            yield Drift(field=name, expected=wanted, actual=actual, action="Immutable")
