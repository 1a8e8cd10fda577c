"""Whose bucket is it: what S3 shows of one bucket name, judged by tags and, where they don't tell, by its age. Pure.

A bucket is a mapping as `s3_describe` returns it. Its name is all the identity that S3 gives it, and a name may pass on
to somebody else; so the name alone decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import TAG_PREFIX, UID_TAG
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse

Bucket = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the object's status knows of its bucket."""

    uid: str
    create_time: str = ""
    """When S3 said that the object's bucket was created; empty while it isn't known."""
    requested_at: str = ""
    """When S3 was asked to create, as long as it isn't known how that ended."""
    window: float = 180.0
    """Seconds from the request for which a bucket may still come of it."""


def standing(bucket: Bucket, known: Evidence) -> str:
    """Return whose the bucket is.

    `Absent`; `Elsewhere` (another account's); `Ours` (our UID tag); `Untagged` (ours, but without the tag yet, or
    without it again); `Undecided` (S3 doesn't tell its age yet); `Foreign` (everybody else's).
    """
    if not bucket.get("exists"):
        return "Absent"
    if bucket.get("elsewhere"):
        return "Elsewhere"
    tagged = uid_of(bucket)
    if tagged is not None:
        return "Ours" if tagged == known.uid else "Foreign"
    if known.create_time:
        # Who sets tags with PutBucketTagging takes all others away, so that ours get lost easily.
        same = parse(bucket.get("creation_date")) == parse(known.create_time)
        return "Untagged" if same else "Foreign"
    if not known.requested_at or bucket.get("tags"):
        return "Foreign"
    return _by_age(bucket, known)


def _by_age(bucket: Bucket, known: Evidence) -> str:
    """Judge a bucket without any tag after a creation of which nobody knows how it ended."""
    created, requested = parse(bucket.get("creation_date")), parse(known.requested_at)
    if created is None or requested is None:
        return "Undecided" if requested else "Foreign"
    in_time = 0 <= (created - requested).total_seconds() <= known.window
    # Only an empty one: what somebody has begun to use is never taken over.
    return "Untagged" if in_time and bucket.get("empty") else "Foreign"


def uid_of(bucket: Bucket) -> str | None:
    """Return the UID tag, None where there is none."""
    uid: str | None = (bucket.get("tags") or {}).get(UID_TAG)
    return uid


def owner_of(bucket: Bucket) -> str:
    """Return for a person whose the bucket is by its tags."""
    tags = bucket.get("tags") or {}
    if UID_TAG not in tags:
        return "it doesn't carry this object's tag"
    name = f"{tags.get(f'{TAG_PREFIX}namespace', '?')}/{tags.get(f'{TAG_PREFIX}name', '?')}"
    return f"its tags say that it belongs to {name} of cluster {tags.get(f'{TAG_PREFIX}cluster-id', '?')}"
