"""Lifecycle rules: as the spec has them, as S3 wants them, and compared whichever way S3 writes them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_rules import (
    canonical,
    differing_rules,
    merged_rules,
    wanted_rules,
)

THEIRS = {"ID": "theirs", "Status": "Enabled", "Filter": {"Prefix": "x"}, "Expiration": {"Days": 1}}


def rule(**given: Any) -> dict[str, Any]:
    """Return a rule of the spec as S3 takes it."""
    (made,) = wanted_rules({"lifecycleRules": [{"id": "old", **given}]})
    return dict(made)


@pytest.mark.parametrize(
    ("given", "part", "expected"),
    [
        ({"expirationDays": 30}, "Filter", {"Prefix": ""}),
        ({"prefix": "logs/"}, "Filter", {"Prefix": "logs/"}),
        ({"tags": {"a": "1"}}, "Filter", {"Tag": {"Key": "a", "Value": "1"}}),
        ({"objectSizeLessThanBytes": 5}, "Filter", {"ObjectSizeLessThan": 5}),
        (
            {"prefix": "p", "tags": {"b": "2"}, "objectSizeGreaterThanBytes": 4},
            "Filter",
            {"And": {"Prefix": "p", "Tags": [{"Key": "b", "Value": "2"}], "ObjectSizeGreaterThan": 4}},
        ),
        ({"expirationDays": 30}, "Expiration", {"Days": 30}),
        ({"expiredObjectDeleteMarker": True}, "Expiration", {"ExpiredObjectDeleteMarker": True}),
        (
            {"noncurrentVersionExpirationDays": 7, "newerNoncurrentVersions": 2},
            "NoncurrentVersionExpiration",
            {"NoncurrentDays": 7, "NewerNoncurrentVersions": 2},
        ),
        ({"abortIncompleteMultipartUploadDays": 3}, "AbortIncompleteMultipartUpload", {"DaysAfterInitiation": 3}),
        (
            {"transitions": [{"days": 30, "storageClass": "GLACIER"}]},
            "Transitions",
            [{"Days": 30, "StorageClass": "GLACIER"}],
        ),
        (
            {"noncurrentVersionTransitions": [{"days": 9, "storageClass": "GLACIER"}]},
            "NoncurrentVersionTransitions",
            [{"NoncurrentDays": 9, "StorageClass": "GLACIER"}],
        ),
        ({"enabled": False}, "Status", "Disabled"),
    ],
)
def test_rule_as_s3_takes_it(given: dict[str, Any], part: str, expected: Any) -> None:
    """Each field of a rule has its place in S3's API."""
    made = rule(**given)
    assert (made[part], made["ID"]) == (expected, "ansible-operator.io/old")


def test_rule_names_nothing_that_the_spec_leaves_out() -> None:
    """What isn't given isn't sent: S3 refuses empty parts."""
    assert rule(expirationDays=3) == {
        "ID": "ansible-operator.io/old",
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "Expiration": {"Days": 3},
    }


@pytest.mark.parametrize("written", [{"Filter": {}}, {"Filter": {"Prefix": ""}}, {"Prefix": ""}, {}])
def test_filter_for_everything_is_one_however_it_is_written(written: dict[str, Any]) -> None:
    """S3 and what speaks its API write a rule for all objects in several ways."""
    given = {key: value for key, value in rule(expirationDays=3).items() if key != "Filter"}
    assert canonical({**given, **written}) == canonical(rule(expirationDays=3))


def test_only_rules_of_ours_are_compared_and_replaced() -> None:
    """Rules of others are no difference, and stay where ours are written."""
    ours = [rule(expirationDays=3)]
    assert differing_rules([THEIRS, *ours], ours) == []
    assert differing_rules([THEIRS], ours) == ["old"]
    assert differing_rules([*ours, rule(id="more", expirationDays=1)], ours) == ["more"]
    assert differing_rules([rule(expirationDays=4)], ours) == ["old"]
    assert merged_rules([THEIRS, rule(expirationDays=9)], ours) == [THEIRS, *ours]
