"""Why a bucket isn't taken for the object's, or isn't emptied for it: sentences for people. Pure."""

from __future__ import annotations

from ansible_collections.aws_operator.core.plugins.module_utils.buckets import Bucket, Evidence, in_time, uid_of
from ansible_collections.aws_operator.core.plugins.module_utils.identity import TAG_PREFIX, UID_TAG

UNPROVEN = "OwnershipUnproven"
"""Reason of `Ready` where a bucket may be the object's or a later one of its name."""
_NO_TAG = "it doesn't carry this object's tag"


def why_not_ours(bucket: Bucket, known: Evidence) -> str:
    """Return what makes the bucket somebody else's, or what proof is missing."""
    if uid_of(bucket) is not None:
        return _of_another(bucket)
    if known.create_time or known.owned:
        return _by_record(bucket, known)
    if known.requested_at:
        return _by_creation(bucket, known)
    return _NO_TAG


def why_unproven(bucket: Bucket, known: Evidence) -> str:
    """Return why it isn't known whether a bucket is the object's."""
    if not known.owned:
        return f"{_NO_TAG}, and counts as this object's by the time of its creation only"
    return f"{_NO_TAG} any more, and {_dates(bucket, known)}, so that it may be a later one of its name"


def why_doubtful(bucket: Bucket, known: Evidence, *, name: str) -> str:
    """Return why nothing is done with a bucket that may be the object's, and what a person can do."""
    remedy = (
        f"set its tag {UID_TAG} to {known.uid} if it's this object's, or delete this object with deletionPolicy: Retain"
    )
    return f"bucket {name} is neither changed nor deleted: {why_unproven(bucket, known)}; {remedy}"


def _of_another(bucket: Bucket) -> str:
    tags = bucket.get("tags") or {}
    name = f"{tags.get(f'{TAG_PREFIX}namespace', '?')}/{tags.get(f'{TAG_PREFIX}name', '?')}"
    return f"its tags say that it belongs to {name} of cluster {tags.get(f'{TAG_PREFIX}cluster-id', '?')}"


def _by_record(bucket: Bucket, known: Evidence) -> str:
    found = f"{_NO_TAG} any more, and {_dates(bucket, known)}"
    if known.missing_since:
        return f"{found}; this object's wasn't there at {known.missing_since}, so that this is a later one of its name"
    return f"{found}; the status doesn't say for this object's UID that it owned the bucket"


def _dates(bucket: Bucket, known: Evidence) -> str:
    date = bucket.get("creation_date") or "unknown"
    return f"its creation date is {date}, recorded is {known.create_time or 'none'}"


def _by_creation(bucket: Bucket, known: Evidence) -> str:
    asked = f"{_NO_TAG}; a creation was asked for at {known.requested_at}, but"
    if bucket.get("tags"):
        return f"{asked} what came of it would have this object's tags or none, and this one has others"
    if bucket.get("tags_kept"):
        return f"{asked} what came of it would carry the tags that were sent along"
    if not in_time(bucket, known):
        end = f"ended at {known.answered_at}" if known.answered_at else f"can't have lasted {known.window:.0f} s"
        date = bucket.get("creation_date") or "unknown"
        return f"{asked} the call {end}, and the bucket's creation date is {date}"
    if not bucket.get("empty"):
        return f"{asked} what came of it would be empty"
    return f"{asked} what came of it wouldn't have {' and '.join(bucket.get('configured') or ['settings'])} yet"
