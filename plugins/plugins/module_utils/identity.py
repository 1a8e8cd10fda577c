"""Whose instance is it: client tokens and tags, derived from the object's UID. Pure functions.

`plan` asks here what to send and what to compare; `ec2_launch` sends it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TAG_PREFIX = "ansible-operator.io/"
UID_TAG = f"{TAG_PREFIX}uid"
_AWS_PREFIX = "aws:"
_LONGEST_VALUE = 256


def client_token(*, uid: str, attempt: int) -> str:
    """Return the token that makes AWS answer a repeated RunInstances of one attempt with the same instance."""
    if not uid or attempt < 1:
        raise ValueError(f"a client token needs a UID and an attempt of at least 1, not {uid!r} and {attempt}")
    return f"{uid}-{attempt}"


def attempt_of(token: str, *, uid: str) -> int:
    """Return the attempt that *token* was made for, 0 where it isn't a token of this object."""
    match = re.fullmatch(re.escape(uid) + r"-(\d+)", token or "")
    return int(match.group(1)) if match else 0


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The object that an instance belongs to."""

    cluster_id: str
    uid: str
    namespace: str
    name: str

    def tags(self) -> dict[str, str]:
        """Return the tags that say whose the instance is."""
        return {
            f"{TAG_PREFIX}cluster-id": self.cluster_id,
            UID_TAG: self.uid,
            f"{TAG_PREFIX}namespace": self.namespace,
            f"{TAG_PREFIX}name": self.name,
        }


def wanted_tags(owner: Owner, spec_tags: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what the instance has to carry: a Name unless the user gives one, the user's tags, and ours above all."""
    mine = {"Name": f"{owner.namespace}/{owner.name}"[:_LONGEST_VALUE]}
    users = {key: str(value) for key, value in (spec_tags or {}).items() if not key.startswith(_AWS_PREFIX)}
    return {**mine, **users, **owner.tags()}


@dataclass(frozen=True, kw_only=True)
class TagChanges:
    """Tags to write and tags to take away."""

    add: dict[str, str] = field(default_factory=dict)
    remove: dict[str, str] = field(default_factory=dict)


def tag_changes(*, current: Mapping[str, str], wanted: Mapping[str, str], applied: Sequence[str] = ()) -> TagChanges:
    """Compare tags; only keys that were *applied* by us before are ever taken away, and `aws:` is never touched."""
    return TagChanges(
        add={key: value for key, value in wanted.items() if current.get(key) != value},
        remove={
            key: current[key]
            for key in applied
            if key in current and key not in wanted and not key.startswith(_AWS_PREFIX)
        },
    )
