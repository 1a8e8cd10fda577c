"""What the S3 modules share: their options, what an endpoint keeps, and what a creation's answer proves."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.aws_operator.core.plugins.doc_fragments.s3_bucket import ModuleDocFragment
from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import refused
from ansible_collections.aws_operator.core.plugins.module_utils.s3_calls import (
    BUCKET_SPEC,
    CLAIM_SPEC,
    keeps_creation_tags,
)
from ansible_collections.aws_operator.core.plugins.modules.s3_create import is_definite, verdict
from botocore.exceptions import ReadTimeoutError

from tests.unit.plugins.bucket_builders import FOREIGN_TAGS
from tests.unit.plugins.plugin_builders import UID


@pytest.mark.parametrize(
    ("url", "given", "kept"),
    [
        ("https://s3.amazonaws.com", "auto", True),
        ("https://s3.eu-central-1.amazonaws.com", "auto", True),
        ("https://s3.cn-north-1.amazonaws.com.cn:443", "auto", True),
        ("http://127.0.0.1:5000", "auto", False),
        ("https://amazonaws.com.example.org", "auto", False),
        ("https://storage.example.org/.amazonaws.com", "auto", False),
        ("http://127.0.0.1:5000", "kept", True),
        ("https://s3.amazonaws.com", "dropped", False),
    ],
)
def test_only_endpoints_of_aws_are_known_to_keep_the_tags_of_a_creation(url: str, given: str, kept: bool) -> None:  # noqa: FBT001 - a table
    """Of any other endpoint somebody has to say it."""
    assert keeps_creation_tags(url, given=given) is kept


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"ansible-operator.io/uid": UID}, {"taken": False, "proven": True, "definite": False}),
        ({"ansible-operator.io/uid": UID, "more": "1"}, {"taken": False, "proven": True, "definite": False}),
        ({}, {"taken": False, "proven": False, "definite": False}),
        (None, {"taken": False, "proven": False, "definite": False}),
        ({"team": "a"}, {"taken": True, "proven": False, "definite": True}),
        (FOREIGN_TAGS, {"taken": True, "proven": False, "definite": True}),
    ],
)
def test_answer_to_a_creation_proves_nothing_without_the_tag(
    tags: dict[str, str] | None, expected: dict[str, bool]
) -> None:
    """S3 answers in us-east-1 for a bucket that was there as if it had created it."""
    assert verdict(tags, uid=UID) == expected


@pytest.mark.parametrize(("repeated", "definite"), [(False, True), (True, False)])
def test_bucket_that_was_there_at_the_only_call_did_not_come_of_it(repeated: bool, definite: bool) -> None:  # noqa: FBT001 - a table
    """Only where the library asked twice may the bucket have come of the first call."""
    assert is_definite("BucketAlreadyOwnedByYou", 409, repeated=repeated) is definite


def test_call_without_an_answer_is_told_by_the_name_of_what_happened() -> None:
    """A closed or silent connection has no code of AWS's, and is no refusal for good."""
    refusal = refused(ReadTimeoutError(endpoint_url="http://127.0.0.1:1"))
    assert (refusal["error_code"], refusal["request_id"]) == ("ReadTimeoutError", "")
    assert is_definite(refusal["error_code"], 0) is False


@pytest.mark.parametrize(
    ("text", "spec"), [(ModuleDocFragment.DOCUMENTATION, BUCKET_SPEC), (ModuleDocFragment.CLAIM, CLAIM_SPEC)]
)
def test_shared_options_are_documented_as_they_are(text: str, spec: dict[str, Any]) -> None:
    """The fragment of the documentation names the options of the argument spec, with types and defaults."""
    options = yaml.safe_load(text)["options"]
    documented = {key: {name: one[name] for name in one if name != "description"} for key, one in options.items()}
    assert documented == {key: dict(one) for key, one in spec.items()}
