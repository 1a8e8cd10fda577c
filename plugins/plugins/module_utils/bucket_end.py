"""What a finalizer does with the bucket of an S3Bucket object, and what keeps it. Pure.

Only a bucket that is known to be the object's is deleted; everybody else's isn't waited for either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.bucket_plan import BucketView
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_reasons import (
    UNPROVEN,
    why_doubtful,
    why_not_ours,
    why_unproven,
)
from ansible_collections.aws_operator.core.plugins.module_utils.buckets import standing
from ansible_collections.aws_operator.core.plugins.module_utils.identity import UID_TAG


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What becomes of the bucket."""

    delete: bool = False
    claim: bool = False
    """Whether the bucket is the object's although it carries no UID tag."""
    restore: bool = False
    """Whether the UID tag is put back first: what proves now that the bucket is the object's won't at the next look."""
    force: bool = False
    """Whether its content goes too: as forceDelete says, but never that of a bucket which another may have made."""
    reason: str = ""
    """Why the finalizer stays, empty where it doesn't."""
    message: str = ""
    wait: str = ""
    """When to look again; empty where it's worth to look soon."""
    leaves: str = ""
    """What is left alone, for an Event; empty where there is nothing."""


def fate_of(view: BucketView) -> Fate:
    """Decide."""
    whose = standing(view.bucket, view.evidence)
    if whose in {"Ours", "Untagged", "Unproven"}:
        force = bool(view.spec.get("forceDelete")) and whose != "Unproven"
        return Fate(delete=True, claim=whose != "Ours", restore=whose == "Untagged", force=force)
    if whose == "Doubtful":
        message = why_doubtful(view.bucket, view.evidence, name=view.name)
        return Fate(reason=UNPROVEN, message=message, wait=_interval(view))
    undecided = not view.confirmed and bool(view.attempt) and view.asked_lately
    if undecided and whose != "Foreign":
        asked = view.status.get("createRequestedAt")
        message = f"bucket {view.name} was asked for at {asked}, and it isn't known yet whether it was created"
        return Fate(reason="CreationUndecided", message=message)
    if whose == "Absent":
        return Fate()
    whom = "another AWS account owns it" if whose == "Elsewhere" else why_not_ours(view.bucket, view.evidence)
    return Fate(leaves=f"left bucket {view.name} alone: {whom}")


def remaining(view: BucketView, result: Mapping[str, Any]) -> dict[str, str]:
    """Return `reason`, `message` and `wait` of what keeps a bucket after *result* of `s3_delete`; empty: it's gone.

    An empty `wait` means that it's worth looking again soon.
    """
    refusal = result.get("refusal") or {}
    counted = _counted(result)
    # Where nothing at all could be deleted, going on at once would change nothing.
    if result.get("unfinished") and (counted or not refusal):
        return _stays("Emptying", f"deleting what is in bucket {view.name}{counted}")
    if refusal:
        return _refused(view, refusal, counted=counted)
    if result.get("visible"):
        return _stays("StillDeleting", f"S3 still shows bucket {view.name}")
    return _stays("", "")


def _refused(view: BucketView, refusal: Mapping[str, str], *, counted: str) -> dict[str, str]:
    if refusal.get("error_code") != "BucketNotEmpty":
        text = f"AWS answered {refusal['error_code']}: {refusal['message']}"
        message = f"what is in bucket {view.name} can't all be deleted{counted}; the first that stays: {text}"
        return _stays("ContentNotDeletable", message, wait=_interval(view))
    text = f"AWS answered BucketNotEmpty: {refusal['message']} (request id {refusal['request_id']})"
    if fate_of(view).force:
        return _stays("BucketNotEmpty", f"somebody still writes into bucket {view.name}{counted}; {text}")
    if view.spec.get("forceDelete"):
        return _stays(UNPROVEN, f"{_unproven(view)}; {text}", wait=_interval(view))
    remedy = "empty it, old versions and delete markers included, or set forceDelete: true"
    return _stays("BucketNotEmpty", f"bucket {view.name} isn't empty: {remedy}; {text}", wait=_interval(view))


def _unproven(view: BucketView) -> str:
    why = why_unproven(view.bucket, view.evidence)
    remedy = f"set its tag {UID_TAG} to {view.owner.uid} to have it emptied and deleted, or empty it yourself, or set"
    return f"bucket {view.name} isn't empty, and forceDelete doesn't empty it: {why}; {remedy} deletionPolicy: Retain"


def _counted(result: Mapping[str, Any]) -> str:
    versions, uploads = int(result.get("versions") or 0), int(result.get("uploads") or 0)
    return f" ({versions} versions and {uploads} uploads deleted by this run)" if versions or uploads else ""


def _interval(view: BucketView) -> str:
    return str(view.spec.get("checkInterval") or "2m")


def _stays(reason: str, message: str, *, wait: str = "") -> dict[str, str]:
    return {"reason": reason, "message": message, "wait": wait}
