"""Filters of the `s3_bucket` role: plain data in and out around the pure functions of module_utils.

Results are marked unsafe: whatever a user wrote into a spec is never read as a template, on any ansible-core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_end import fate_of, remaining
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_plan import BucketPlan, BucketView, make_plan
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_settings import BucketDrift
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_status import events_of, update_of
from ansible_collections.aws_operator.core.plugins.module_utils.identity import TagChanges
from ansible_collections.aws_operator.core.plugins.module_utils.plain_data import plain
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse


def _view(given: Mapping[str, Any], given_seen: Mapping[str, Any]) -> BucketView:
    obj, seen = plain(given), plain(given_seen)
    if not (obj.get("metadata") or {}).get("uid"):
        raise AnsibleFilterError("the object has no metadata.uid: without it no bucket may be looked at")
    return BucketView(
        obj=obj,
        bucket=seen.get("bucket") or {},
        asked_at=str(seen.get("asked_at") or ""),
        account_id=str(seen.get("account_id") or ""),
        region=str(seen.get("region") or ""),
        now=parse(seen.get("now")) or datetime.now(UTC),
        cluster_id=str(seen.get("cluster_id") or "default"),
        grace=float(seen.get("grace") or 0),
        window=float(seen.get("window") or 0),
        intent=seen.get("intent") or {},
    )


def _plan(given: Mapping[str, Any]) -> BucketPlan:
    return BucketPlan(
        phase=given["phase"],
        tags=given["tags"],
        tag_changes=TagChanges(**given["tag_changes"]),
        drift=[BucketDrift(**item) for item in given["drift"]],
        changes=given["changes"],
        out_of_band=given["out_of_band"],
    )


def s3_plan(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return what to do.

    *seen* is a result of `s3_describe` with `region`, `now`, `cluster_id`, `grace`, `window` and, after a creation, the
    `intent` that was stored for it.
    """
    plan = make_plan(_view(obj, seen))
    return wrap_var({**asdict(plan), "acts": plan.acts})


def s3_status(
    obj: Mapping[str, Any],
    seen: Mapping[str, Any],
    *,
    done: Sequence[Mapping[str, Any]] = (),
    refusal: Mapping[str, str] | None = None,
) -> Any:
    """Return status and Events at the end of a run.

    *done* are the plans that the run carried out, *seen* is what it saw after that, *refusal* that of a creation.
    """
    view = _view(obj, seen)
    refused = plain(refusal) if refusal else None
    update = update_of(view, make_plan(view), refusal=refused)
    carried_out = [_plan(plan) for plan in plain(done)] if not refused else []
    events = events_of(view, carried_out, ready=update.conditions[0])
    return wrap_var({**asdict(update), "events": events})


def s3_fate(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return what a finalizer does: `delete` and how, `reason`, `message` and `wait` of staying, what it `leaves`."""
    return wrap_var(asdict(fate_of(_view(obj, seen))))


def s3_remaining(obj: Mapping[str, Any], seen: Mapping[str, Any], *, result: Mapping[str, Any]) -> Any:
    """Return `reason`, `message` and `wait` of what keeps the bucket after *result* of `s3_delete`."""
    return wrap_var(remaining(_view(obj, seen), plain(result)))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"s3_fate": s3_fate, "s3_plan": s3_plan, "s3_remaining": s3_remaining, "s3_status": s3_status}
