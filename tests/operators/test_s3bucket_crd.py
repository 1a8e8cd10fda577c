"""What the API server says about S3Bucket objects: good ones are completed, bad ones refused with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.errors import Invalid
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.testing.cluster import CRDS, install_crd

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "config" / "samples" / "aws_v1alpha1_s3bucket.yaml"
S3_BUCKETS = Resource(gvk=GVK("aws.ansible-operator.io", "v1alpha1", "S3Bucket"), plural="s3buckets")


@pytest.fixture
async def installed(kube: KubeClient) -> KubeClient:
    """Give a client of an API server that has the CRD."""
    await install_crd(kube, yaml.safe_load((ROOT / "crds" / "s3buckets.yaml").read_text()))
    return kube


def body(spec: dict[str, Any], *, name: str = "data") -> dict[str, Any]:
    """Return an object whose spec is the least good one with *spec* on top; None takes a field away."""
    merged = {"bucketName": "example-data", **spec}
    return {
        "apiVersion": S3_BUCKETS.gvk.api_version,
        "kind": S3_BUCKETS.gvk.kind,
        "metadata": {"name": name},
        "spec": {key: value for key, value in merged.items() if value is not None},
    }


def rule(**given: Any) -> dict[str, Any]:
    """Return a spec with one lifecycle rule."""
    return {"lifecycleRules": [{"id": "old", **given}]}


def moving(days: int, storage_class: str) -> list[dict[str, Any]]:
    """Return one transition."""
    return [{"days": days, "storageClass": storage_class}]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"bucketName": None}, "spec.bucketName: Required value"),
        ({"bucketName": "ab"}, "should be at least 3 chars long"),
        ({"bucketName": "a" * 64}, "may not be more than 63"),
        ({"bucketName": "Example"}, "bucketName has only lowercase letters, digits, dots and hyphens"),
        ({"bucketName": "under_score"}, "bucketName has only lowercase letters, digits, dots and hyphens"),
        ({"bucketName": "-example"}, "begins and ends with a letter or digit"),
        ({"bucketName": "example."}, "begins and ends with a letter or digit"),
        ({"bucketName": "a..b"}, "bucketName must not have two dots side by side"),
        ({"bucketName": "192.168.5.4"}, "bucketName must not look like an IP address"),
        ({"bucketName": "xn--example"}, "bucketName must not begin with xn--, sthree- or amzn-s3-demo-"),
        ({"bucketName": "example-s3alias"}, "bucketName must not end with -s3alias, --ol-s3, .mrap, --x-s3"),
        ({"region": "frankfurt"}, "spec.region in body should match"),
        ({"versioning": "Off"}, 'Unsupported value: "Off": supported values: "Enabled", "Suspended"'),
        ({"encryption": {"algorithm": "DES"}}, 'Unsupported value: "DES"'),
        ({"encryption": {"kmsKeyId": "1"}}, "kmsKeyId can be set only for the algorithm aws:kms"),
        ({"encryption": {"bucketKey": True}}, "bucketKey can be set only for the algorithm aws:kms"),
        (rule(), "a rule needs something to do: expirationDays"),
        (rule(transitions=[]), "a rule needs something to do: expirationDays"),
        (rule(expirationDays=0), "should be greater than or equal to 1"),
        (rule(expirationDays=1, expiredObjectDeleteMarker=True), "can't be set beside expirationDays"),
        (rule(tags={"a": "b"}, expiredObjectDeleteMarker=True), "can't be set in a rule that selects by tags"),
        (rule(tags={"a": "b"}, abortIncompleteMultipartUploadDays=1), "a rule that selects by tags or size"),
        (rule(expirationDays=1, newerNoncurrentVersions=1), "needs noncurrentVersionExpirationDays"),
        (
            rule(expirationDays=1, objectSizeGreaterThanBytes=5, objectSizeLessThanBytes=5),
            "objectSizeGreaterThanBytes must be less than objectSizeLessThanBytes",
        ),
        (rule(transitions=moving(29, "STANDARD_IA")), "STANDARD_IA and ONEZONE_IA take objects after 30 days"),
        (rule(noncurrentVersionTransitions=moving(29, "ONEZONE_IA")), "take objects after 30 days or more"),
        (rule(expirationDays=30, transitions=moving(30, "GLACIER")), "each of transitions must come before"),
        (rule(transitions=moving(30, "TAPE")), 'Unsupported value: "TAPE"'),
        ({"lifecycleRules": [{"id": "a", "expirationDays": 1}] * 2}, "Duplicate value"),
        ({"tags": {"aws:x": "y"}}, "tags that begin with aws: belong to AWS"),
        ({"tags": {"ansible-operator.io/uid": "y"}}, "are set by the operator"),
        ({"tags": {"k" * 129: "y"}}, "the key of a tag has 1 to 128 characters"),
        ({"deletionPolicy": "Keep"}, 'Unsupported value: "Keep"'),
        ({"checkInterval": "2"}, "checkInterval must be a duration such as 30s, 2m or 1h30m"),
        ({"checkInterval": "0s"}, "checkInterval must be at least 1s"),
    ],
)
async def test_bad_bucket_is_refused_with_a_sentence(
    installed: KubeClient, namespace: str, spec: dict[str, Any], sentence: str
) -> None:
    """A wrong field is refused by the API server, with a sentence that names it."""
    with pytest.raises(Invalid) as refused:
        await installed.create(S3_BUCKETS, body=body(spec), namespace=namespace)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"bucketName": "other-data"}, "bucketName can't be changed, as S3 can't rename a bucket"),
        ({"region": "us-east-1"}, "region can't be changed, as a bucket never leaves its region"),
    ],
)
async def test_change_that_s3_cannot_make_is_refused(
    installed: KubeClient, namespace: str, change: dict[str, Any], sentence: str
) -> None:
    """An edit that no bucket can follow is refused with the reason, and the object stays as it was."""
    created = await installed.create(S3_BUCKETS, body=body({}), namespace=namespace)
    with pytest.raises(Invalid) as refused:
        await installed.patch(S3_BUCKETS, namespace=namespace, name="data", body={"spec": change})
    assert sentence in str(refused.value)
    after = await installed.get(S3_BUCKETS, namespace=namespace, name="data")
    assert after["metadata"]["generation"] == created["metadata"]["generation"]


@pytest.mark.parametrize(
    "spec",
    [
        {"bucketName": "a.b"},
        {"bucketName": "3-is-a-bucket"},
        {"bucketName": "a" * 63},
        {"bucketName": "1.2.3.4.5"},
        {"region": "us-gov-west-1"},
        {"encryption": {"algorithm": "aws:kms", "kmsKeyId": "alias/data", "bucketKey": True}},
        rule(prefix="logs/", tags={"a": "b"}, expirationDays=31, transitions=moving(30, "STANDARD_IA")),
        rule(transitions=moving(0, "GLACIER")),
        {"tags": {"k" * 128: "y"}},
    ],
)
async def test_bucket_at_a_limit_is_taken(installed: KubeClient, namespace: str, spec: dict[str, Any]) -> None:
    """What S3 takes at the edge of its rules, the API server takes too."""
    assert await installed.create(S3_BUCKETS, body=body(spec), namespace=namespace)


async def test_defaults_of_a_bucket(installed: KubeClient, namespace: str) -> None:
    """The least object is completed: encrypted, closed to the public, kept when the object goes."""
    created = await installed.create(S3_BUCKETS, body=body(rule(expirationDays=1)), namespace=namespace)
    assert created["spec"] == {
        "bucketName": "example-data",
        "encryption": {"algorithm": "AES256"},
        "publicAccessBlock": {
            "blockPublicAcls": True,
            "blockPublicPolicy": True,
            "ignorePublicAcls": True,
            "restrictPublicBuckets": True,
        },
        "lifecycleRules": [{"id": "old", "enabled": True, "expirationDays": 1}],
        "deletionPolicy": "Retain",
        "forceDelete": False,
        "checkInterval": "2m",
    }


async def test_sample_of_a_bucket_is_taken(installed: KubeClient, namespace: str) -> None:
    """The sample of the repository is a good object."""
    assert await installed.create(S3_BUCKETS, body=yaml.safe_load(SAMPLE.read_text()), namespace=namespace)


async def test_columns_of_a_bucket(installed: KubeClient) -> None:
    """`kubectl get s3b` shows bucket, region, versioning, encryption, public access, the reason of Ready, and age."""
    crd = await installed.get(CRDS, name="s3buckets.aws.ansible-operator.io")
    (version,) = crd["spec"]["versions"]
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    assert columns == ["Bucket", "Region", "Versioning", "Encryption", "Public-Access", "Reason", "Age"]
    assert (crd["spec"]["names"]["shortNames"], crd["spec"]["names"]["categories"]) == (["s3b"], ["aws"])
