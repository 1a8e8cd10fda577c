"""Filters of the `ebs_volume` role: plain data in and out around the pure functions of module_utils.

Results are marked unsafe: whatever a user wrote into a spec is never read as a template, on any ansible-core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.aws_operator.core.plugins.module_utils.plain_data import plain
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, parse
from ansible_collections.aws_operator.core.plugins.module_utils.volume_plan import VolumeView, make_plan
from ansible_collections.aws_operator.core.plugins.module_utils.volume_status import events_of, update_of
from ansible_collections.aws_operator.core.plugins.module_utils.volumes import (
    Volume,
    attachment_of,
    free_device,
    live,
    state_of,
)


def _view(given: Mapping[str, Any], given_seen: Mapping[str, Any]) -> VolumeView:
    obj, seen = plain(given), plain(given_seen)
    if not (obj.get("metadata") or {}).get("uid"):
        raise AnsibleFilterError("the object has no metadata.uid: without it no volume may be looked for")
    return VolumeView(
        obj=obj,
        volumes=seen.get("volumes") or [],
        instance=next(iter(seen.get("instances") or []), None),
        now=parse(seen.get("now")) or datetime.now(UTC),
        cluster_id=str(seen.get("cluster_id") or "default"),
        grace=float(seen.get("grace") or 0),
        pause=float(seen.get("pause") or 0),
    )


def ebs_plan(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return what to do; *seen* has `volumes`, `instances` (the EC2Instance), `now`, `cluster_id`, `grace`, `pause`."""
    view = _view(obj, seen)
    plan = make_plan(view)
    return wrap_var({**asdict(plan), "requested_at": seen.get("now"), "acts": plan.acts})


def ebs_status(
    obj: Mapping[str, Any],
    seen: Mapping[str, Any],
    *,
    created: Volume | None = None,
    refusal: Mapping[str, str] | None = None,
) -> Any:
    """Return status and Events at the end of a run; *created* is a new volume, *refusal* one of a modification."""
    view = _view(obj, seen)
    plan = make_plan(view)
    volume = plain(created) if created else plan.volume
    update = update_of(view, plan, volume=volume, refusal=plain(refusal) if refusal else None)
    events = events_of(view, plan, volume=volume, ready=update.conditions[0])
    return wrap_var({**asdict(update), "events": events})


def ebs_doomed(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return what a finalizer has to `detach`, what it can `delete` at once, and whether it has to look again.

    A creation that was asked for within the grace period may still bring a volume: `undecided`.
    """
    view = _view(obj, seen)
    existing = live(view.volumes)
    hooked = [volume for volume in existing if attachment_of(volume)]
    detach = [
        {"volume_id": volume["volume_id"], "instance_id": attachment_of(volume)["instance_id"]}
        for volume in hooked
        if attachment_of(volume).get("state") == "attached"
    ]
    seen_any = bool(view.volumes) or bool(view.recorded_id)
    young = age(view.status.get("createRequestedAt"), now=view.now) < view.grace
    return wrap_var({
        "detach": detach,
        "delete": [volume["volume_id"] for volume in existing if volume not in hooked],
        "hooked": [volume["volume_id"] for volume in hooked],
        "undecided": bool(view.attempt) and not seen_any and young,
    })


def ebs_remaining(
    obj: Mapping[str, Any], doomed: Mapping[str, Any], *, hooked: Sequence[Volume], going: Sequence[Volume]
) -> Any:
    """Return `reason` and `message` of what keeps the finalizer, both empty where everything is seen gone."""
    reason, message = "", ""
    still = [volume for volume in plain(hooked) if state_of(volume) == "in-use"]
    leaving = [volume["volume_id"] for volume in plain(going) if state_of(volume) != "deleted"]
    if still:
        hook = attachment_of(still[0])
        reason = "DetachBusy" if hook.get("state") == "busy" else "Detaching"
        message = (
            f"{still[0]['volume_id']} still hangs on {hook.get('instance_id')}, which has to let it go: unmount it"
        )
    elif leaving:
        reason, message = "StillDeleting", f"AWS is still deleting {', '.join(leaving)}"
    elif doomed.get("undecided"):
        asked = (plain(obj).get("status") or {}).get("createRequestedAt")
        reason = "CreationUndecided"
        message = f"a volume was asked for at {asked} and nothing of it is seen yet; waiting whether it shows up"
    return wrap_var({"reason": reason, "message": message})


def ebs_free_device(instances: Sequence[Mapping[str, Any]]) -> Any:
    """Return a device name that the described instance doesn't use, empty where there is none left."""
    return wrap_var(free_device(plain(instances)))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "ebs_doomed": ebs_doomed,
            "ebs_free_device": ebs_free_device,
            "ebs_plan": ebs_plan,
            "ebs_remaining": ebs_remaining,
            "ebs_status": ebs_status,
        }
