"""What to do for one S3Bucket object: object and described bucket in, a `BucketPlan` out. Pure.

A bucket that vanished is never replaced by itself: its data is gone, and a new empty one would hide that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.bucket_settings import BucketDrift, drift_of
from ansible_collections.aws_operator.core.plugins.module_utils.buckets import (
    CREATION_WINDOW,
    Bucket,
    Evidence,
    standing,
)
from ansible_collections.aws_operator.core.plugins.module_utils.identity import TagChanges, tag_changes, wanted_tags
from ansible_collections.aws_operator.core.plugins.module_utils.owned import Owned
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age

SHOWN = frozenset({"Available", "Updating"})
"""Reasons of `Ready` that a look ends with which saw the bucket carry the object's tag."""
_NAME = "Name"


@dataclass(frozen=True, kw_only=True)
class BucketView(Owned):  # type: ignore[misc]  # mypy does not follow imports by the collection's name
    """What is known at the start of a run."""

    bucket: Bucket
    asked_at: str = ""
    """S3's own time of the look."""
    account_id: str = ""
    region: str = ""
    window: float = CREATION_WINDOW
    """Seconds from a creation without an answer for which a bucket may still come of it."""
    intent: Mapping[str, Any] = field(default_factory=dict)
    """What this run stored of its own creation, above the status as of the run's start."""

    @property
    def name(self) -> str:
        """Return the bucket's name."""
        return str(self.spec.get("bucketName") or "")

    @property
    def confirmed(self) -> bool:
        """Return whether the bucket was seen as this object's before."""
        return bool(self.status.get("bucketName"))

    @property
    def attempt(self) -> int:
        """Return the number of the last creation that was asked for and not refused."""
        return int(self._stored("createAttempt") or 0)

    @property
    def asked_lately(self) -> bool:
        """Return whether something may still come of the last creation."""
        return bool(age(self._stored("createRequestedAt"), now=self.now) < self.window)

    @property
    def reason_before(self) -> str:
        """Return the reason of `Ready` as the last run left it, empty where there is none."""
        found = [item.get("reason") for item in self.status.get("conditions") or [] if item.get("type") == "Ready"]
        return str(found[0] or "") if found else ""

    @property
    def evidence(self) -> Evidence:
        """Return what the status knows of the bucket."""
        uid, recorded = str(self.owner.uid), self._stored("ownerUid")
        if recorded not in {"", uid}:  # a status that was copied from another object proves nothing
            return Evidence(uid=uid, window=self.window)
        if not self.confirmed:
            requested, answered = self._stored("createRequestedAt"), self._stored("createAnsweredAt")
            return Evidence(uid=uid, requested_at=requested, answered_at=answered, window=self.window)
        return Evidence(
            uid=uid,
            create_time=self._stored("createTime"),
            owned=recorded == uid,
            missing_since=self._stored("missingSince"),
            seen_at=self._stored("lastCheckedAt") if self.reason_before in SHOWN else "",
            window=self.window,
        )

    def _stored(self, key: str) -> str:
        return str({**self.status, **self.intent}.get(key) or "")


@dataclass(frozen=True, kw_only=True)
class BucketPlan:
    """What a run has to do."""

    phase: str
    """`Create`; `Claim` (ours, but its tags are missing); `Present`; `Wait` (invisible so far, or of unknown age);
    `Doubtful` (perhaps a later one of its name); `Lost`; `NotOurs`; `Elsewhere` (another account's)."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """What to store before S3 is asked to create."""
    undo: Mapping[str, Any] = field(default_factory=dict)
    """What to store again where nothing came of that call: an earlier one may still be without an answer."""
    tags: Mapping[str, str] = field(default_factory=dict)
    tag_changes: TagChanges = field(default_factory=TagChanges)
    drift: Sequence[BucketDrift] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What to set in place, by the argument names of `s3_modify`."""
    out_of_band: bool = False
    """Whether what differs was changed by somebody else, not by an edit of the spec."""

    @property
    def acts(self) -> bool:
        """Return whether a run changes anything in S3."""
        return self.phase in {"Create", "Claim"} or bool(
            self.changes or self.tag_changes.add or self.tag_changes.remove
        )


def make_plan(view: BucketView) -> BucketPlan:
    """Decide."""
    tags = _tags_of(view)
    whose = standing(view.bucket, view.evidence)
    if whose == "Absent":
        return _absent(view, tags)
    if whose in {"Ours", "Untagged", "Unproven"}:
        return _present(view, tags, claims=whose != "Ours")
    if whose == "Undecided":
        return BucketPlan(phase="Wait" if view.asked_lately else "NotOurs", tags=tags)
    return BucketPlan(phase=whose if whose in {"Doubtful", "Elsewhere"} else "NotOurs", tags=tags)


def _tags_of(view: BucketView) -> Mapping[str, str]:
    """Return the tags to keep in step; the Name that is there by default gives way to somebody else's."""
    tags: dict[str, str] = wanted_tags(view.owner, view.spec.get("tags"))
    return {key: value for key, value in tags.items() if not (key == _NAME and _has_others_name(view))}


def _has_others_name(view: BucketView) -> bool:
    """Return whether somebody else gave the bucket a Name, and the spec gives none."""
    found = (view.bucket.get("tags") or {}).get(_NAME)
    if found is None or _NAME in (view.spec.get("tags") or {}) or found == wanted_tags(view.owner)[_NAME]:
        return False
    # One that we set may be left over from the spec before an edit; with an unchanged spec somebody changed it.
    return _NAME not in (view.status.get("tagKeys") or []) or view.was_right


def _absent(view: BucketView, tags: Mapping[str, str]) -> BucketPlan:
    if view.confirmed:
        missing = view.status.get("missingSince")
        since = min(age(missing, now=view.now), age(view.status.get("createRequestedAt"), now=view.now))
        return BucketPlan(phase="Lost" if missing and since >= view.grace else "Wait", tags=tags)
    record = {
        "createAttempt": view.attempt + 1,
        "createRequestedAt": view.asked_at,
        "createAnsweredAt": None,
        "ownerUid": view.owner.uid,
        "accountId": view.account_id,
        "clusterId": view.cluster_id,
    }
    return BucketPlan(phase="Create", record=record, undo=_undo(view), tags=tags)


def _undo(view: BucketView) -> Mapping[str, Any]:
    """Return the creation that is recorded before this one, nothing where the status is another object's."""
    before = view.status if view.status.get("ownerUid") in {None, "", view.owner.uid} else {}
    return {key: before.get(key) for key in ("createAttempt", "createRequestedAt", "createAnsweredAt")}


def _present(view: BucketView, tags: Mapping[str, str], *, claims: bool) -> BucketPlan:
    # A Name that isn't wanted because somebody else gave it isn't taken away either.
    applied = [key for key in view.status.get("tagKeys") or [] if not (key == _NAME and _has_others_name(view))]
    changed = tag_changes(current=view.bucket.get("tags") or {}, wanted=tags, applied=applied)
    # Settings are read of a bucket that carries the tag only; those of one that doesn't come after it.
    settings, changes = ([], {}) if claims else drift_of(view.spec, view.bucket)
    drift = [*settings, *_tag_drift(changed)]
    return BucketPlan(
        phase="Claim" if claims else "Present",
        tags=tags,
        tag_changes=changed,
        drift=drift,
        changes=changes,
        out_of_band=view.was_right and bool(drift),
    )


def _tag_drift(changes: TagChanges) -> list[BucketDrift]:
    if not changes.add and not changes.remove:
        return []
    expected = ",".join(sorted(changes.add)) or "no other tags"
    return [BucketDrift(field="tags", expected=expected, actual=",".join(sorted(changes.remove)))]
