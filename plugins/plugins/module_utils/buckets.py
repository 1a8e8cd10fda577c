"""Whose bucket is it: what S3 shows of one bucket name, judged by tags, by the record and by its age. Pure.

A bucket is a mapping as `s3_describe` returns it. Its name is all the identity that S3 gives it, and a name may pass on
to somebody else; so the name alone decides nothing. `bucket_reasons` says it to people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import UID_TAG
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse

Bucket = Mapping[str, Any]
CREATION_WINDOW = 180.0
"""Seconds from a request to create until nothing can come of it any more: longer than the library tries
(`aws_common_config`). The plan and the finalizer both wait for it."""
_CLOCKS = 2.0
"""Seconds by which the date of a bucket may be behind the end of the call that made it: S3 tells whole seconds, by the
clocks of several machines."""
_SKEW = 900.0
"""Seconds by which our clock may differ from S3's: of one that is further off S3 takes no call."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the object's status knows of its bucket."""

    uid: str
    create_time: str = ""
    """When S3 said that the object's bucket was created; empty while it isn't known."""
    owned: bool = False
    """Whether the status says, for this very UID, that the bucket carried our tag."""
    missing_since: str = ""
    """Since when the recorded bucket isn't there; empty while it's always seen."""
    seen_at: str = ""
    """When the last look saw our tag, by our clock; empty where the last look saw something else."""
    requested_at: str = ""
    """When S3 was asked to create, as long as it isn't known how that ended."""
    answered_at: str = ""
    """When the call that asked ended; empty where nobody knows."""
    window: float = CREATION_WINDOW
    """Seconds from the request for which a bucket may still come of it."""


def standing(bucket: Bucket, known: Evidence) -> str:
    """Return whose the bucket is.

    `Absent`; `Elsewhere` (another account's); `Ours` (our UID tag); `Untagged` (the very bucket that is recorded,
    without our tag); `Unproven` (what came of our call, as far as its time and state tell); `Doubtful` (ours or a later
    one of its name, nobody knows); `Undecided` (S3 may yet show what tells); `Foreign` (everybody else's).
    """
    if not bucket.get("exists"):
        return "Absent"
    if bucket.get("elsewhere"):
        return "Elsewhere"
    tagged = uid_of(bucket)
    if tagged is not None:
        return "Ours" if tagged == known.uid else "Foreign"
    if known.create_time or known.owned:
        # Who sets tags with PutBucketTagging takes all others away, so that ours get lost easily.
        return _by_record(bucket, known)
    return _by_creation(bucket, known)


def uid_of(bucket: Bucket) -> str | None:
    """Return the UID tag, None where there is none."""
    uid: str | None = (bucket.get("tags") or {}).get(UID_TAG)
    return uid


def in_time(bucket: Bucket, known: Evidence) -> bool | None:
    """Return whether the bucket's date lies within the call that asked for it, None where a time is missing."""
    created, requested = parse(bucket.get("creation_date")), parse(known.requested_at)
    if created is None or requested is None:
        return None
    answered = parse(known.answered_at)
    longest = known.window if answered is None else (answered - requested).total_seconds() + _CLOCKS
    return bool(0 <= (created - requested).total_seconds() <= min(longest, known.window))


def _by_record(bucket: Bucket, known: Evidence) -> str:
    """Judge a bucket without our tag after one of its name was ours.

    A later date alone doesn't make it a later bucket: S3 moves the date with some changes, such as one of the policy.
    """
    created, recorded = parse(bucket.get("creation_date")), parse(known.create_time)
    if created is not None and created == recorded:
        return "Untagged"
    if not known.owned or known.missing_since:
        return "Foreign"
    return "Untagged" if _is_no_later_one(created, recorded=recorded, seen=parse(known.seen_at)) else "Doubtful"


def _is_no_later_one(created: datetime | None, *, recorded: datetime | None, seen: datetime | None) -> bool:
    """Return whether no later bucket of the name can be meant: it'd be younger than ours, and than a look at ours."""
    if created is None:
        return False
    before_ours = recorded is not None and created <= recorded
    return before_ours or (seen is not None and (seen - created).total_seconds() > _SKEW)


def _by_creation(bucket: Bucket, known: Evidence) -> str:
    """Judge a bucket without our tag after a creation of which nobody knows how it ended."""
    if not known.requested_at or bucket.get("tags"):
        return "Foreign"
    if bucket.get("tags_kept"):
        return "Undecided"  # what came of the creation carries our tags; S3 may not show them yet
    fits = in_time(bucket, known)
    if fits is None:
        return "Undecided"
    # Only one as CreateBucket leaves it: what somebody has begun to use is never taken over.
    untouched = bool(bucket.get("empty")) and not bucket.get("configured")
    return "Unproven" if fits and untouched else "Foreign"
