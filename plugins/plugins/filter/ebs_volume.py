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
from ansible_collections.aws_operator.core.plugins.module_utils.volume_hook import elsewhere
from ansible_collections.aws_operator.core.plugins.module_utils.volume_plan import VolumeView, make_plan
from ansible_collections.aws_operator.core.plugins.module_utils.volume_status import (
    events_of,
    is_slow,
    update_of,
)
from ansible_collections.aws_operator.core.plugins.module_utils.volumes import (
    DELETABLE,
    Volume,
    attachment_of,
    attachments_of,
    free_device,
    own,
    state_of,
)

_GOING = ("deleting", "deleted")


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
    postponed: bool = False,
) -> Any:
    """Return status and Events at the end of a run, and whether it waits for something `slow`.

    *created* is a new volume, *refusal* one of a modification, *postponed* says that AWS didn't attach yet.
    """
    view = _view(obj, seen)
    plan = make_plan(view)
    volume = plain(created) if created else plan.volume
    refused = plain(refusal) if refusal else None
    update = update_of(view, plan, volume=volume, refusal=refused)
    ready = update.conditions[0]
    events = events_of(view, plan, volume=volume, ready=ready, refusal=refused, postponed=postponed)
    return wrap_var({**asdict(update), "events": events, "slow": is_slow(plan, ready)})


def ebs_doomed(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return what a finalizer has to do with the object's volumes, by their ids.

    `detach` (with the instance) and `delete` can be asked for at once, `hooked` have to get free first, `going` are
    being deleted already, and `stays` is what it can't do anything about: `reason` and `message`, or empty.
    A recorded volume that isn't seen is deleted too: AWS may hide it, and knows best whether it's gone.
    A creation that was asked for within the grace period may still bring a volume: `undecided`.
    """
    view = _view(obj, seen)
    mine = own(view.volumes, recorded_id=view.recorded_id, uid=view.owner.uid)
    hooked = [volume for volume in mine if state_of(volume) == "in-use"]
    hidden = {view.recorded_id} - {"", *(volume["volume_id"] for volume in view.volumes)}
    free = [volume["volume_id"] for volume in mine if state_of(volume) in DELETABLE]
    decided = {volume["volume_id"] for volume in mine if state_of(volume) in _GOING}
    young = age(view.status.get("createRequestedAt"), now=view.now) < view.grace
    asked_for = bool(view.attempt or view.recorded_id)
    return wrap_var({
        "detach": [
            {"volume_id": volume["volume_id"], "instance_id": view.asked}
            for volume in hooked
            if any(item.get("state") == "attached" for item in attachments_of(volume) if _is_asked(item, view.asked))
        ],
        "delete": [*free, *hidden],
        "hooked": [volume["volume_id"] for volume in hooked],
        "going": [volume["volume_id"] for volume in mine if state_of(volume) == "deleting"],
        "stays": _stays(mine, asked=view.asked),
        "undecided": asked_for and young and not _has_gone(decided, view.recorded_id),
        "recorded": view.recorded_id,
    })


def _is_asked(attachment: Mapping[str, Any], asked: str) -> bool:
    return bool(asked) and attachment.get("instance_id") == asked


def _has_gone(ids: set[str], recorded_id: str) -> bool:
    """Return whether the volume that the creation brought is among *ids*."""
    return recorded_id in ids if recorded_id else bool(ids)


def _stays(mine: Sequence[Volume], *, asked: str) -> dict[str, str]:
    """Return what keeps a volume that a finalizer can't move: where somebody else attached it, or that it's new."""
    for volume in mine:
        foreign = [item for item in attachments_of(volume) if not _is_asked(item, asked)]
        if state_of(volume) == "in-use" and foreign:
            ready = elsewhere(foreign[0])
            return {"reason": ready.reason, "message": f"{volume['volume_id']}: {ready.message}"}
    new = [volume["volume_id"] for volume in mine if state_of(volume) == "creating"]
    message = f"AWS is still creating {', '.join(new)}; deleted once it's there"
    return {"reason": "Creating", "message": message} if new else {"reason": "", "message": ""}


def ebs_remaining(
    obj: Mapping[str, Any],
    doomed: Mapping[str, Any],
    *,
    hooked: Sequence[Volume],
    deletions: Sequence[Mapping[str, Any]],
    going: Sequence[Volume],
) -> Any:
    """Return `reason` and `message` of what keeps the finalizer, both empty where everything is seen gone.

    *hooked* and *going* are the volumes as they were looked at last, *deletions* the results of deleting, each with
    the volume as `item` and whether AWS knew it as `existed`.
    """
    given, wanted = plain(doomed), plain(deletions)
    sent = {result["item"] for result in wanted}
    existed = {result["item"] for result in wanted if result.get("existed")}
    freed = {volume["volume_id"]: volume for volume in plain(hooked)}
    still = [freed.get(one) or {"volume_id": one} for one in given["hooked"] if one not in sent]
    leaving = [volume["volume_id"] for volume in plain(going) if state_of(volume) != "deleted"]
    if given["stays"]["reason"]:
        return wrap_var(given["stays"])
    if still:
        return wrap_var(_hangs(still[0]))
    if leaving:
        return wrap_var({"reason": "StillDeleting", "message": f"AWS is still deleting {', '.join(leaving)}"})
    if given["undecided"] and not _has_gone(existed, given["recorded"]):
        asked = (plain(obj).get("status") or {}).get("createRequestedAt")
        message = f"a volume was asked for at {asked} and nothing of it is seen yet; waiting whether it shows up"
        return wrap_var({"reason": "CreationUndecided", "message": message})
    return wrap_var({"reason": "", "message": ""})


def _hangs(volume: Volume) -> dict[str, str]:
    hook = attachment_of(volume)
    if not hook:
        return {"reason": "Detaching", "message": f"waiting until AWS shows {volume['volume_id']} as available"}
    reason = "DetachBusy" if hook.get("state") == "busy" else "Detaching"
    message = f"{volume['volume_id']} still hangs on {hook.get('instance_id')}, which has to let it go: unmount it"
    return {"reason": reason, "message": message}


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
