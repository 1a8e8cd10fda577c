"""What the tests of the role `s3_bucket` share: the subject, clients of the emulator, buckets as they are."""

from __future__ import annotations

import secrets
from typing import Any

import boto3
from botocore.exceptions import ClientError

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from tests.content.ec2_instance.role_harness import Bench, Subject

OTHER_ACCOUNT = "999999999999"
S3_BUCKET = Subject(
    resource=Resource(gvk=GVK("aws.ansible-operator.io", "v1alpha1", "S3Bucket"), plural="s3buckets"),
    role="s3_bucket",
    spec={"bucketName": "example-data", "region": "us-east-1"},
)


def client(bench: Bench, *, service: str = "s3", keys: dict[str, str] | None = None) -> Any:
    """Return a client of the emulator for what the role doesn't do."""
    given = keys or {"AccessKeyId": "test", "SecretAccessKey": "test"}
    return boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url=bench.endpoint,
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given.get("SessionToken"),
    )


def stranger(bench: Bench) -> Any:
    """Return a client of another account."""
    role = f"arn:aws:iam::{OTHER_ACCOUNT}:role/{secrets.token_hex(4)}"
    sts = client(bench, service="sts")
    return client(bench, keys=sts.assume_role(RoleArn=role, RoleSessionName="theirs")["Credentials"])


def names(bench: Bench) -> list[str]:
    """Return the buckets of our account."""
    return [bucket["Name"] for bucket in client(bench).list_buckets()["Buckets"]]


def tags_of(bench: Bench, bucket: str = "example-data") -> dict[str, str]:
    """Return a bucket's tags."""
    try:
        answer = client(bench).get_bucket_tagging(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchTagSet":
            raise
        return {}
    return {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}


def set_tags(bench: Bench, tags: dict[str, str], *, bucket: str = "example-data") -> None:
    """Write a bucket's tags, which takes all others away."""
    tag_set = [{"Key": key, "Value": value} for key, value in tags.items()]
    client(bench).put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tag_set})
