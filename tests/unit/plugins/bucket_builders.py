"""S3Bucket objects and described buckets for the tests of the plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.bucket_plan import BucketView
from ansible_collections.aws_operator.core.plugins.module_utils.identity import wanted_tags

from tests.unit.plugins.plugin_builders import NOW, OWNER, UID, ago

BUCKET = "example-data"
ACCOUNT = "123456789012"
CREATED = ago(3600)
AES256 = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": False}]}
BLOCKED = {
    "BlockPublicAcls": True,
    "BlockPublicPolicy": True,
    "IgnorePublicAcls": True,
    "RestrictPublicBuckets": True,
}
OPEN = dict.fromkeys(BLOCKED, False)
READY = [{"type": "Ready", "status": "True", "reason": "Available"}]
FOREIGN_TAGS = {"ansible-operator.io/uid": "another", "ansible-operator.io/namespace": "a"}


def make_bucket_object(*, spec: Mapping[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Return an S3Bucket object with the schema's defaults."""
    defaults = {
        "bucketName": BUCKET,
        "encryption": {"algorithm": "AES256"},
        "publicAccessBlock": {
            "blockPublicAcls": True,
            "blockPublicPolicy": True,
            "ignorePublicAcls": True,
            "restrictPublicBuckets": True,
        },
    }
    return {
        "apiVersion": "aws.ansible-operator.io/v1alpha1",
        "kind": "S3Bucket",
        "metadata": {"name": "web", "namespace": "team", "uid": UID, "generation": 3},
        "spec": {**defaults, **(spec or {})},
        "status": status,
    }


def known(*, spec: Mapping[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Return an object whose bucket is recorded and was right at the last look."""
    before = {
        "createAttempt": 1,
        "createRequestedAt": CREATED,
        "bucketName": BUCKET,
        "accountId": ACCOUNT,
        "createTime": CREATED,
        "observedGeneration": 3,
        "conditions": READY,
    }
    return make_bucket_object(spec=spec, **{**before, **status})


def asked(seconds: int = 30) -> dict[str, Any]:
    """Return an object whose creation was asked for *seconds* ago, and nobody knows how it ended."""
    return make_bucket_object(createAttempt=1, createRequestedAt=ago(seconds), accountId=ACCOUNT)


def make_bucket(**parts: Any) -> dict[str, Any]:
    """Return a described bucket that fits the object."""
    return {
        "exists": True,
        "elsewhere": False,
        "tags": wanted_tags(OWNER),
        "creation_date": CREATED,
        "versioning": "",
        "encryption": AES256,
        "public_access_block": BLOCKED,
        "lifecycle_rules": [],
        **parts,
    }


def untagged(*, age: int = 3600, empty: bool | None = None) -> dict[str, Any]:
    """Return a described bucket of our account without any tag, as a run sees it whose object isn't named by it."""
    bucket = {"exists": True, "elsewhere": False, "tags": {}, "creation_date": ago(age)}
    return bucket if empty is None else {**bucket, "empty": empty}


ABSENT: dict[str, Any] = {"exists": False}
ELSEWHERE: dict[str, Any] = {"exists": True, "elsewhere": True}


def bucket_view(obj: Mapping[str, Any], bucket: Mapping[str, Any], **parts: Any) -> BucketView:
    """Return what a run knows at NOW."""
    known_parts = {"cluster_id": "c1", "account_id": ACCOUNT, "region": "us-east-1", "asked_at": ago(0), **parts}
    return BucketView(obj=obj, bucket=bucket, now=NOW, **known_parts)


def seen(bucket: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    """Return what a run has seen, as the filters get it."""
    common = {"now": ago(0), "asked_at": ago(0), "cluster_id": "c1", "account_id": ACCOUNT, "region": "us-east-1"}
    return {"bucket": dict(bucket), **common, "grace": 60.0, "window": 180.0, **parts}
