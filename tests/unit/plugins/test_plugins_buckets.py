"""Whose a bucket is by tags, record and age, and how that is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_reasons import why_not_ours, why_unproven
from ansible_collections.aws_operator.core.plugins.module_utils.buckets import (
    CREATION_WINDOW,
    Evidence,
    standing,
)

from tests.unit.plugins.bucket_builders import CREATED, FOREIGN_TAGS, untagged
from tests.unit.plugins.plugin_builders import UID, ago

ROLES = Path(__file__).resolve().parents[3] / "roles"
OWNED = Evidence(uid=UID, create_time=CREATED, owned=True)
ASKED = Evidence(uid=UID, requested_at=ago(30))


def owned(**parts: Any) -> Evidence:
    """Return what is known of an owned bucket."""
    return Evidence(uid=UID, create_time=CREATED, owned=True, **parts)


@pytest.mark.parametrize(
    ("date", "known", "expected"),
    [
        (CREATED, OWNED, "Untagged"),
        (ago(60), OWNED, "Doubtful"),
        (ago(7200), OWNED, "Untagged"),
        ("", OWNED, "Doubtful"),
        ("", owned(seen_at=ago(60)), "Doubtful"),
        (ago(2000), owned(seen_at=ago(60)), "Untagged"),
        (ago(900), owned(seen_at=ago(60)), "Doubtful"),
        (ago(30), owned(seen_at=ago(60)), "Doubtful"),
        (ago(2000), owned(seen_at=ago(60), missing_since=ago(3000)), "Foreign"),
        (CREATED, owned(missing_since=ago(3000)), "Untagged"),
        (ago(60), Evidence(uid=UID, create_time=CREATED), "Foreign"),
        (ago(60), Evidence(uid=UID, owned=True), "Doubtful"),
    ],
    ids=[
        "as recorded",
        "its date moved",
        "its date is before the recorded one",
        "its date is unknown",
        "its date is unknown after a look",
        "its date moved before the last look that saw our tag",
        "within what clocks may differ",
        "younger than the last look",
        "it was missing since",
        "it was missing, and is the very one",
        "its ownership isn't recorded",
        "its date was never known",
    ],
)
def test_recorded_bucket_without_its_tag(date: str, known: Evidence, expected: str) -> None:
    """It stays the object's where its date rules out a later one, by the record or a look that saw our tag after it."""
    assert standing({**untagged(), "creation_date": date}, known) == expected


@pytest.mark.parametrize(
    ("age", "answered", "expected"),
    [
        (30, ago(20), "Unproven"),
        (18, ago(20), "Unproven"),
        (17, ago(20), "Foreign"),
        (31, ago(20), "Foreign"),
        (17, "", "Unproven"),
    ],
)
def test_bucket_is_what_came_of_a_call_only_if_it_is_as_old_as_the_call(age: int, answered: str, expected: str) -> None:
    """Its date lies between the call's begin and its end, where that is known, with two seconds for S3's clocks."""
    known = Evidence(uid=UID, requested_at=ago(30), answered_at=answered)
    assert standing(untagged(age=age, empty=True), known) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, "Unproven"),
        ({"configured": ["a policy"]}, "Foreign"),
        ({"empty": False}, "Foreign"),
        ({"tags": {"team": "a"}}, "Foreign"),
        ({"tags_kept": True}, "Undecided"),
        ({"tags_kept": True, "tags": FOREIGN_TAGS}, "Foreign"),
        ({"creation_date": ""}, "Undecided"),
    ],
)
def test_bucket_is_what_came_of_a_call_only_if_it_is_as_the_call_leaves_it(
    parts: dict[str, Any], expected: str
) -> None:
    """Content, tags or settings of somebody else's rule it out, and so do missing tags where they are kept."""
    assert standing({**untagged(age=25, empty=True), **parts}, ASKED) == expected


@pytest.mark.parametrize(
    ("bucket", "known", "sentence"),
    [
        ({"tags": FOREIGN_TAGS}, OWNED, "its tags say that it belongs to a/? of cluster ?"),
        ({}, Evidence(uid=UID), "it doesn't carry this object's tag"),
        (
            {"creation_date": ago(60)},
            owned(missing_since=ago(90)),
            f"recorded is {CREATED}; this object's wasn't there at {ago(90)}, so that this is a later one of its name",
        ),
        (
            {"creation_date": ago(60)},
            Evidence(uid=UID, create_time=CREATED),
            "the status doesn't say for this object's UID that it owned the bucket",
        ),
        ({"tags": {"team": "a"}}, ASKED, "would have this object's tags or none, and this one has others"),
        ({"tags_kept": True}, ASKED, "would carry the tags that were sent along"),
        ({"creation_date": ago(31)}, ASKED, f"can't have lasted 180 s, and the bucket's creation date is {ago(31)}"),
        (
            {"creation_date": ago(5)},
            Evidence(uid=UID, requested_at=ago(30), answered_at=ago(20)),
            f"asked for at {ago(30)}, but the call ended at {ago(20)}, and the bucket's creation date is {ago(5)}",
        ),
        ({"creation_date": ""}, ASKED, "the bucket's creation date is unknown"),
        ({"empty": False}, ASKED, "would be empty"),
        ({"configured": ["a policy", "CORS rules"]}, ASKED, "wouldn't have a policy and CORS rules yet"),
    ],
)
def test_why_a_bucket_is_left_alone_is_told(bucket: dict[str, Any], known: Evidence, sentence: str) -> None:
    """A person reads what proof is missing, with the times that were compared."""
    assert sentence in why_not_ours({**untagged(age=25, empty=True), **bucket}, known)


def test_creation_is_waited_for_as_long_as_the_library_tries() -> None:
    """The role's window is the one of the plan and the finalizer, and longer than all tries with their pauses."""
    window, connection = (
        yaml.safe_load((ROLES / role / "defaults" / "main.yml").read_text())[key]
        for role, key in (("s3_bucket", "s3_bucket_window"), ("aws_common", "aws_common_config"))
    )
    tries = connection["retries"]["total_max_attempts"]
    pause = 20  # botocore's longest between two tries
    assert window == CREATION_WINDOW
    assert window > tries * (connection["connect_timeout"] + connection["read_timeout"]) + (tries - 1) * pause


def test_why_a_bucket_is_not_emptied_is_told() -> None:
    """A person reads what makes it possible that the bucket isn't the one that was owned."""
    moved = {**untagged(), "creation_date": ago(60)}
    assert f"its creation date is {ago(60)}, recorded is {CREATED}, so that it may be a later one" in why_unproven(
        moved, OWNED
    )
    assert "counts as this object's by the time of its creation only" in why_unproven(untagged(), ASKED)
