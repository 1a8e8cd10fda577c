"""S3 as callers of the AWS API see it: by path on 127.0.0.1, with faults and a call log, each bucket its account's."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.faults import Fault
from tests.integration.ec2.conftest import Client, refused

OTHER_ACCOUNT = "999999999999"
TAGS = {"Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": ""}]}


@pytest.fixture
def s3(client: Client, control: Ec2Control) -> Any:
    """Give an S3 client of the empty emulator."""
    assert control.health()
    return client("s3")


def tags_of(s3: Any, bucket: str) -> dict[str, str]:
    """Return a bucket's tags."""
    return {tag["Key"]: tag["Value"] for tag in s3.get_bucket_tagging(Bucket=bucket)["TagSet"]}


def test_new_bucket_has_the_tags_of_its_creation(s3: Any, client: Client, control: Ec2Control) -> None:
    """CreateBucket sets tags, in every region, unless the emulator plays an endpoint that drops them."""
    s3.create_bucket(Bucket="tagged", CreateBucketConfiguration=TAGS)
    client("s3", "eu-central-1").create_bucket(
        Bucket="far", CreateBucketConfiguration={**TAGS, "LocationConstraint": "eu-central-1"}
    )
    assert tags_of(s3, "tagged") == tags_of(s3, "far") == {"a": "1", "b": ""}
    s3.create_bucket(Bucket="tagged", CreateBucketConfiguration={"Tags": [{"Key": "a", "Value": "2"}]})
    assert tags_of(s3, "tagged")["a"] == "1"  # it was there already
    control.configure(bucket_tags=0)
    s3.create_bucket(Bucket="untagged", CreateBucketConfiguration=TAGS)
    with refused("NoSuchTagSet", status=404):
        s3.get_bucket_tagging(Bucket="untagged")


def request_id_of(method: Any, code: str, **request: Any) -> str:
    """Return the request id of a call that is refused with *code*."""
    with pytest.raises(ClientError, match=code) as caught:
        method(**request)
    return str(caught.value.response["ResponseMetadata"].get("RequestId") or "")


def test_bucket_of_another_account_is_closed(s3: Any, client: Client, endpoint: str) -> None:
    """Who isn't the owner, or expects another owner, is refused; the name is taken for everybody."""
    role = f"arn:aws:iam::{OTHER_ACCOUNT}:role/theirs"
    keys = client("sts").assume_role(RoleArn=role, RoleSessionName="theirs")["Credentials"]
    theirs = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=endpoint,
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
        config=Config(retries={"total_max_attempts": 1}),
    )
    theirs.create_bucket(Bucket="theirs")
    for call in (s3.get_bucket_tagging, s3.get_bucket_versioning):
        with refused("AccessDenied", status=403):
            call(Bucket="theirs")
    with refused("AccessDenied", status=403):
        theirs.get_bucket_versioning(Bucket="theirs", ExpectedBucketOwner="123456789012")
    theirs.get_bucket_versioning(Bucket="theirs", ExpectedBucketOwner=OTHER_ACCOUNT)
    with refused("BucketAlreadyExists", status=409):
        s3.create_bucket(Bucket="theirs")
    assert s3.list_buckets()["Buckets"] == []
    theirs.close()


@pytest.mark.parametrize(
    ("code", "status"), [("SlowDown", 503), ("AccessDenied", 403), ("BucketNotEmpty", 409), ("NoSuchBucket", 404)]
)
def test_calls_of_s3_fail_on_request(s3: Any, control: Ec2Control, code: str, status: int) -> None:
    """A fault hits the S3 call that it names, with S3's status."""
    s3.create_bucket(Bucket="ours")
    control.add_fault(Fault(action="PutBucketTagging", code=code, match={"path": "/ours"}))
    with refused(code, status=status):
        s3.put_bucket_tagging(Bucket="ours", Tagging={"TagSet": []})
    s3.put_bucket_tagging(Bucket="ours", Tagging={"TagSet": []})


def test_refusal_can_be_told_with_its_request_id(s3: Any, control: Ec2Control) -> None:
    """An S3 error has a request id, whether a fault is behind it or not."""
    assert request_id_of(s3.get_bucket_tagging, "NoSuchBucket", Bucket="nowhere")
    control.add_fault(Fault(action="GetBucketTagging", code="AccessDenied"))
    assert request_id_of(s3.get_bucket_tagging, "AccessDenied", Bucket="nowhere")


def test_lost_answer_of_a_creation(s3: Any, control: Ec2Control) -> None:
    """A bucket whose creation was answered with an error after the fact is there."""
    control.add_fault(Fault(action="CreateBucket", code="InternalError", after=True))
    with refused("InternalError", status=500):
        s3.create_bucket(Bucket="ours")
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["ours"]


def test_log_of_s3_calls(s3: Any, control: Ec2Control) -> None:
    """The log names S3's operations and tells those that write from those that read."""
    before = control.last_call()
    s3.create_bucket(Bucket="ours")
    s3.put_object(Bucket="ours", Key="k", Body=b"x")
    s3.list_object_versions(Bucket="ours")
    s3.delete_objects(Bucket="ours", Delete={"Objects": [{"Key": "k"}]})
    s3.delete_bucket_lifecycle(Bucket="ours")
    s3.list_buckets(Prefix="o", MaxBuckets=10)
    s3.delete_bucket(Bucket="ours")
    calls = [(call.action, call.write) for call in control.calls(since=before)]
    assert calls == [
        ("CreateBucket", True),
        ("PutObject", True),
        ("ListObjectVersions", False),
        ("DeleteObjects", True),
        ("DeleteBucketLifecycle", True),
        ("ListBuckets", False),
        ("DeleteBucket", True),
    ]
