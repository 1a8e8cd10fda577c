"""Client tokens and tags."""

from __future__ import annotations

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.identity import (
    attempt_of,
    client_token,
    tag_changes,
    wanted_tags,
)

from tests.unit.plugins.plugin_builders import OWNER, UID


def test_token_is_the_same_for_the_same_attempt_and_another_for_the_next() -> None:
    """One attempt has one token of at most 64 characters, the next attempt another (E1)."""
    first = client_token(uid=UID, attempt=1)
    assert first == client_token(uid=UID, attempt=1)
    assert first != client_token(uid=UID, attempt=2)
    assert len(client_token(uid=UID, attempt=10**9)) <= 64


@pytest.mark.parametrize(("uid", "attempt"), [("", 1), (UID, 0)])
def test_token_needs_uid_and_attempt(uid: str, attempt: int) -> None:
    """Without a UID or before the first attempt there is no token."""
    with pytest.raises(ValueError, match="UID and an attempt"):
        client_token(uid=uid, attempt=attempt)


@pytest.mark.parametrize(
    ("token", "attempt"), [(f"{UID}-12", 12), (f"{UID}-", 0), (f"{UID}-1x", 0), ("", 0), (f"x{UID}-1", 0)]
)
def test_attempt_is_read_only_from_a_token_of_the_same_object(token: str, attempt: int) -> None:
    """A foreign token belongs to no attempt."""
    assert attempt_of(token, uid=UID) == attempt


def test_own_tags_win_over_the_users() -> None:
    """A user's tag can't take the instance away from its object."""
    tags = wanted_tags(OWNER, {"ansible-operator.io/uid": "other", "aws:x": "y", "team": "a"})
    assert tags["ansible-operator.io/uid"] == UID
    assert tags["team"] == "a"
    assert "aws:x" not in tags
    assert tags["Name"] == "team/web"
    assert wanted_tags(OWNER, {"Name": "mine"})["Name"] == "mine"


def test_equal_tags_need_no_call() -> None:
    """An instance with all its tags is left alone."""
    wanted = wanted_tags(OWNER, {"team": "a"})
    changes = tag_changes(current={**wanted, "theirs": "1", "aws:sys": "2"}, wanted=wanted, applied=sorted(wanted))
    assert (changes.add, changes.remove) == ({}, {})


def test_only_tags_that_were_applied_are_taken_away() -> None:
    """A tag that left the spec goes, one that others set stays, and AWS's own too."""
    current = {"old": "1", "theirs": "2", "aws:sys": "3", "changed": "x"}
    changes = tag_changes(current=current, wanted={"changed": "y"}, applied=["old", "changed", "aws:sys", "gone"])
    assert changes.add == {"changed": "y"}
    assert changes.remove == {"old": "1"}
