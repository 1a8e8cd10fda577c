"""The status of an S3Bucket object and the Events of a run: what `bucket_plan` decided, told to people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.bucket_plan import SHOWN, BucketPlan, BucketView
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_reasons import (
    UNPROVEN,
    why_doubtful,
    why_not_ours,
)
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_settings import algorithm_of, public_access_of
from ansible_collections.aws_operator.core.plugins.module_utils.buckets import uid_of
from ansible_collections.aws_operator.core.plugins.module_utils.identity import UID_TAG
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import normal, render
from ansible_collections.aws_operator.core.plugins.module_utils.updates import Ready, Update, not_ready, update

Refusal = Mapping[str, str]
"""`error_code`, `request_id` and `message` of a creation that S3 refused for good."""
TAKEN = "BucketAlreadyExists"
_OTHER_NAME = "delete this object, which leaves the bucket, and create one with another bucketName"
_WAITS_FOR_A_PERSON = frozenset({"BucketLost", "NotOurs", UNPROVEN, TAKEN})
"""Reasons of `Ready` for which looking again soon can't help; they become an Event when they begin."""


def update_of(view: BucketView, plan: BucketPlan, *, refusal: Refusal | None = None) -> Update:
    """Return the write that ends a run; *view* is what the run left, *plan* what there still is to do."""
    ready = ready_of(view, plan, refusal=refusal)
    settled = ready.status == "True" or ready.reason in _WAITS_FOR_A_PERSON
    fields = _fields(view, plan)
    return update(view.obj, now=view.now, fields=fields, ready=ready, settled=settled)


def ready_of(view: BucketView, plan: BucketPlan, *, refusal: Refusal | None = None) -> Ready:
    """Return the condition: what keeps the object from being as its spec says, the gravest first."""
    if refusal:
        text = f"AWS answered {refusal['error_code']}: {refusal['message']} (request id {refusal['request_id']})"
        return not_ready(TAKEN, f"{_taken(view)}; {text}")
    return _not_to_be_used(view, plan) or _used(view, plan)


def _not_to_be_used(view: BucketView, plan: BucketPlan) -> Ready | None:
    """Return what only a person can put right."""
    if plan.phase == "Elsewhere":
        return not_ready(TAKEN, _taken(view))
    if plan.phase == "NotOurs":
        return not_ready("NotOurs", _not_ours(view))
    if plan.phase == "Doubtful":
        return not_ready(UNPROVEN, why_doubtful(view.bucket, view.evidence, name=view.name))
    if plan.phase == "Lost":
        message = f"bucket {view.name} isn't there any more; if it was deleted, its data is gone, so that no empty one"
        return not_ready("BucketLost", f"{message} takes its place: delete this object and create another")
    return None


def _used(view: BucketView, plan: BucketPlan) -> Ready:
    if plan.phase == "Wait" and view.confirmed:
        message = f"bucket {view.name} isn't visible in S3; waiting {view.grace:.0f} s for it"
        return not_ready("NotVisible", message)
    if plan.phase in {"Create", "Claim", "Wait"}:
        return not_ready("Creating", f"bucket {view.name} was asked for, and S3 doesn't show all of it yet")
    if plan.acts:
        differs = "; ".join(item.sentence() for item in plan.drift)
        return not_ready("Updating", f"S3 was told, and doesn't show it yet: {differs}")
    return Ready(status="True", reason="Available", message=f"bucket {view.name} is as the spec says")


def _taken(view: BucketView) -> str:
    return f"bucket {view.name} belongs to another AWS account, and is left alone: {_OTHER_NAME}"


def _not_ours(view: BucketView) -> str:
    found = f"there is a bucket {view.name} already, and {why_not_ours(view.bucket, view.evidence)}"
    remedy = f"{_OTHER_NAME}; or hand the bucket over by setting its tag {UID_TAG} to {view.owner.uid}"
    return f"{found}; it's neither changed nor deleted: {remedy}"


def _fields(view: BucketView, plan: BucketPlan) -> dict[str, Any]:
    common = {
        "clusterId": view.cluster_id,
        "drift": [{key: str(value) for key, value in asdict(item).items()} for item in plan.drift] or None,
    }
    # Where another account has the name, ours is gone as well: what comes back under the name is a later one.
    if plan.phase in {"Wait", "Elsewhere"} and view.confirmed:
        return {**common, "missingSince": view.status.get("missingSince") or render(view.now)}
    if plan.phase != "Present":
        return {**common, **_given_up(view)}
    return {
        **common,
        "bucketName": view.name,
        "ownerUid": view.owner.uid,
        "region": view.region or None,
        "accountId": view.account_id or None,
        "createTime": normal(view.bucket.get("creation_date")) or view.status.get("createTime"),
        "createAttempt": max(view.attempt, 1),
        "tagKeys": sorted(plan.tags),
        "missingSince": None,
        **_settings(view),
    }


def _given_up(view: BucketView) -> dict[str, None]:
    """Return what is recorded no longer, once the bucket carried another object's tag: it may lose that one too."""
    return {"ownerUid": None, "createTime": None} if view.confirmed and uid_of(view.bucket) is not None else {}


def _settings(view: BucketView) -> dict[str, Any]:
    algorithm, key = algorithm_of(view.bucket)
    return {
        "versioning": view.bucket.get("versioning") or "Off",
        "encryption": algorithm or None,
        "kmsKeyId": key or None,
        "publicAccess": public_access_of(view.bucket),
        "lifecycleRules": len(view.bucket.get("lifecycle_rules") or []) or None,
    }


def events_of(view: BucketView, done: Sequence[BucketPlan], *, ready: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what a run has to tell: of the plans that it carried out, and where it ended."""
    found: list[dict[str, str]] = []
    is_first = not view.confirmed and ready["reason"] in SHOWN
    asked = any(plan.phase == "Create" for plan in done)
    if is_first and asked:
        found.append(_event("Created", f"created bucket {view.name} in {view.region}"))
    elif is_first and view.attempt:
        found.append(_event("Created", f"found bucket {view.name}, which an earlier run had asked for"))
    elif is_first:
        found.append(_event("Adopted", f"bucket {view.name} was handed over by its tag {UID_TAG}"))
    elif done and not asked:  # S3's answer to a creation alone doesn't say that the bucket came of it
        found += _changes(view, done)
    if ready["reason"] in _WAITS_FOR_A_PERSON and ready["reason"] != view.reason_before:
        found.append(_event(ready["reason"], ready["message"], kind="Warning"))
    return found


def _changes(view: BucketView, done: Sequence[BucketPlan]) -> list[dict[str, str]]:
    sentences = "; ".join(item.sentence() for plan in done for item in plan.drift)
    out_of_band = any(plan.out_of_band for plan in done)
    found = [_event("DriftFound", sentences, kind="Warning")] if out_of_band else []
    return [*found, _event("DriftRepaired" if out_of_band else "Updated", f"changed bucket {view.name}: {sentences}")]


def _event(reason: str, message: str, *, kind: str = "Normal") -> dict[str, str]:
    return {"type": kind, "reason": reason, "message": message}
