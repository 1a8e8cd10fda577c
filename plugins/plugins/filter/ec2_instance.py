"""Filters of the `ec2_instance` role: plain data in and out around the pure functions of module_utils.

Results are marked unsafe: whatever a user wrote into a spec is never read as a template, on any ansible-core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.aws_operator.core.plugins.module_utils.failures import failure_of
from ansible_collections.aws_operator.core.plugins.module_utils.instances import (
    ENDED,
    Drift,
    Instance,
    live,
    state_of,
)
from ansible_collections.aws_operator.core.plugins.module_utils.plain_data import plain
from ansible_collections.aws_operator.core.plugins.module_utils.plan import View, make_plan, record_of
from ansible_collections.aws_operator.core.plugins.module_utils.status import (
    failed_update_of,
    update_of,
    waiting_update_of,
)
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, parse

_STORAGE = {
    "deviceName": "device_name",
    "sizeGiB": "size_gib",
    "volumeType": "volume_type",
    "iops": "iops",
    "throughput": "throughput",
    "encrypted": "encrypted",
    "deleteOnTermination": "delete_on_termination",
}


def _view(given: Mapping[str, Any], given_seen: Mapping[str, Any]) -> View:
    obj, seen = plain(given), plain(given_seen)
    if not (obj.get("metadata") or {}).get("uid"):
        raise AnsibleFilterError("the object has no metadata.uid: without it no instance may be looked for")
    return View(
        obj=obj,
        instances=seen.get("instances") or [],
        now=parse(seen.get("now")) or datetime.now(UTC),
        cluster_id=str(seen.get("cluster_id") or "default"),
        grace=float(seen.get("grace") or 0),
    )


def ec2_plan(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return what to do, with what to `record` before a launch; *seen*: `instances`, `now`, `cluster_id`, `grace`."""
    view = _view(obj, seen)
    storage = [{_STORAGE[key]: value for key, value in item.items()} for item in view.spec.get("storage") or []]
    plan = make_plan(view)
    return wrap_var({**asdict(plan), "record": record_of(view, attempt=plan.attempt), "storage": storage})


def ec2_drift_sentence(item: Mapping[str, str]) -> Any:
    """Return one entry of a plan's drift for a person."""
    return wrap_var(Drift(**plain(item)).sentence())


def ec2_doomed(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return which instances a finalizer has to `terminate`, and for which it has to `await` the end.

    A recorded instance that isn't seen is named too: AWS may hide it, and knows best whether it's gone.
    """
    view = _view(obj, seen)
    seen_ids = {item["instance_id"] for item in view.instances}
    hidden = [view.recorded_id] if view.recorded_id and view.recorded_id not in seen_ids else []
    terminate = sorted({item["instance_id"] for item in live(view.instances)} | set(hidden))
    ending = {item["instance_id"] for item in view.instances if state_of(item) == "shutting-down"}
    return wrap_var({"terminate": terminate, "await": sorted({*terminate, *ending})})


def ec2_status(obj: Mapping[str, Any], seen: Mapping[str, Any], *, current: Instance | None = None) -> Any:
    """Return the status to write at the end of a run; *current* is the instance as the run left it."""
    view = _view(obj, seen)
    plan = make_plan(view)
    return wrap_var(asdict(update_of(view, plan, instance=plan.instance if current is None else plain(current))))


def ec2_failed_status(obj: Mapping[str, Any], seen: Mapping[str, Any], *, result: Mapping[str, Any]) -> Any:
    """Return the status to write where a task failed; no `instances` in *seen*: it failed before they were read."""
    view = _view(obj, seen)
    plan = make_plan(view) if "instances" in seen else None
    return wrap_var(asdict(failed_update_of(view, failure_of(plain(result)), plan=plan)))


def ec2_waiting_status(obj: Mapping[str, Any], seen: Mapping[str, Any], *, reason: str, message: str) -> Any:
    """Return the status to write while a finalizer has to look again."""
    return wrap_var(asdict(waiting_update_of(_view(obj, seen), reason=reason, message=message)))


def aws_failure(result: Mapping[str, Any]) -> Any:
    """Return reason, message, error code and request id of a failed task."""
    failure = failure_of(plain(result))
    return wrap_var({**asdict(failure), "lacks_capacity": failure.lacks_capacity})


def ec2_remaining(instances: Sequence[Instance]) -> Any:
    """Return the instances that haven't ended for good, those that are shutting down included."""
    return wrap_var([item for item in plain(instances) if state_of(item) != "terminated"])


def ec2_undecided(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    """Return whether a launch may still be under way: asked for within the grace period, and nothing of it seen."""
    view = _view(obj, seen)
    if not view.status.get("launchAttempt") or make_plan(view).instance:
        return False
    ended = any(item["instance_id"] == view.recorded_id and state_of(item) in ENDED for item in view.instances)
    return not ended and age(view.status.get("launchRequestedAt"), now=view.now) < view.grace


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "aws_failure": aws_failure,
            "ec2_doomed": ec2_doomed,
            "ec2_drift_sentence": ec2_drift_sentence,
            "ec2_failed_status": ec2_failed_status,
            "ec2_plan": ec2_plan,
            "ec2_remaining": ec2_remaining,
            "ec2_status": ec2_status,
            "ec2_undecided": ec2_undecided,
            "ec2_waiting_status": ec2_waiting_status,
        }
