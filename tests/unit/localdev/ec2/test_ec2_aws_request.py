"""Reading a call out of an HTTP request, and showing it without secrets."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import urlencode

import pytest

from runner.localdev.ec2.aws_request import HIDDEN, Call, parse_call
from runner.localdev.ec2.s3_actions import s3_action


def _auth(service: str, region: str = "us-east-1") -> str:
    return f"AWS4-HMAC-SHA256 Credential=AKIA/20260101/{region}/{service}/aws4_request, SignedHeaders=host, Signature=0"


def _query_call(service: str, **params: str) -> Call:
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "HTTP_AUTHORIZATION": _auth(service),
        "CONTENT_TYPE": "application/x-www-form-urlencoded; charset=utf-8",
    }
    return parse_call(environ, urlencode(params).encode())


def test_a_query_call() -> None:
    """The query protocol's form gives action and flat parameters, empty values included; the signature the rest."""
    call = _query_call("ec2", Action="TerminateInstances", Version="2016-11-15", **{"InstanceId.1": ""})
    assert (call.service, call.region, call.action, call.write) == ("ec2", "us-east-1", "TerminateInstances", True)
    assert call.shown_params() == {"InstanceId.1": ""}


def test_a_json_call() -> None:
    """A JSON protocol's target names the action and the body the parameters."""
    environ = {
        "REQUEST_METHOD": "POST",
        "HTTP_AUTHORIZATION": _auth("ssm", "eu-west-1"),
        "HTTP_X_AMZ_TARGET": "AmazonSSM.GetParameter",
    }
    call = parse_call(environ, json.dumps({"Name": "p"}).encode())
    assert (call.service, call.region, call.action, call.write) == ("ssm", "eu-west-1", "GetParameter", False)
    assert call.params == {"Name": "p"}


def test_a_rest_call() -> None:
    """A service that is called by path alone is told by method and path."""
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/clusters", "HTTP_AUTHORIZATION": _auth("eks")}
    call = parse_call(environ, b"not json")
    assert (call.action, call.write) == ("GET /clusters", False)


def test_a_presigned_call() -> None:
    """A URL that carries its signature is a call of S3, and the signature isn't shown."""
    query = urlencode({"X-Amz-Credential": "AKIA/20260101/us-east-1/s3/aws4_request", "X-Amz-Signature": "sesame"})
    call = parse_call({"REQUEST_METHOD": "GET", "PATH_INFO": "/b/k", "QUERY_STRING": query}, b"")
    assert (call.service, call.action) == ("s3", "GetObject")
    assert call.shown_params() == {"path": "/b/k"}


def test_an_unsigned_call() -> None:
    """What nobody can sign yet is a call of STS, a read one, and its token is hidden."""
    body = urlencode({"Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": "sesame"}).encode()
    call = parse_call({"REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/x-www-form-urlencoded"}, body)
    assert (call.service, call.write) == ("sts", False)
    assert call.shown_params() == {"WebIdentityToken": HIDDEN}


def test_a_dry_run_writes_nothing() -> None:
    """A call that only asks for the permission is no write."""
    assert _query_call("ec2", Action="RunInstances").write
    assert not _query_call("ec2", Action="RunInstances", DryRun="true").write


@pytest.mark.parametrize(
    ("action", "params"),
    [
        ("PutParameter", {"Value": "sesame"}),
        ("CreateLoginProfile", {"Password": "sesame"}),
        ("CreateSecret", {"Nested": {"SecretString": "sesame"}}),
        ("CreateSecret", {"List": [{"ClientSecret": "sesame"}]}),
        ("RunInstances", {"UserData": "sesame"}),
        ("ModifyInstanceAttribute", {"UserData.Value": "sesame"}),
        ("ModifyInstanceAttribute", {"Attribute": "userData", "Value": "sesame"}),
        ("CreateLaunchTemplate", {"LaunchTemplateData.UserData": "sesame"}),
    ],
)
def test_secrets_are_not_shown(action: str, params: dict[str, Any]) -> None:
    """Secrets are left out of what is shown, wherever they stand; the other parameters stay."""
    shown = Call(service="any", region="", action=action, params={**params, "ClientToken": "one"}).shown_params()
    assert "sesame" not in json.dumps(shown)
    assert shown["ClientToken"] == "one"


def test_user_data_is_shown_by_its_digest() -> None:
    """The digest is that of the decoded user data; what isn't encoded is taken as it is."""
    for sent in (base64.b64encode(b"#!/bin/sh").decode(), "#!/bin/sh"):
        shown = Call(service="ec2", region="", action="RunInstances", params={"UserData": sent}).shown_params()
        assert shown == {"UserData": {"length": 9, "sha256": hashlib.sha256(b"#!/bin/sh").hexdigest()}}


@pytest.mark.parametrize(
    ("request_line", "action"),
    [
        ("GET /", "ListBuckets"),
        ("PUT /b", "CreateBucket"),
        ("DELETE /b", "DeleteBucket"),
        ("HEAD /b", "HeadBucket"),
        ("GET /b?location", "GetBucketLocation"),
        ("PUT /b?publicAccessBlock", "PutPublicAccessBlock"),
        ("GET /b?lifecycle", "GetBucketLifecycleConfiguration"),
        ("DELETE /b?lifecycle", "DeleteBucketLifecycle"),
        ("PUT /b?tagging", "PutBucketTagging"),
        ("PUT /b/k?tagging", "PutObjectTagging"),
        ("GET /b?list-type", "ListObjectsV2"),
        ("GET /b", "ListObjects"),
        ("GET /b?versions", "ListObjectVersions"),
        ("POST /b?delete", "DeleteObjects"),
        ("PUT /b/k/l", "PutObject"),
        ("HEAD /b/k", "HeadObject"),
        ("POST /b/k?uploads", "CreateMultipartUpload"),
        ("PUT /b/k?uploadId", "UploadPart"),
        ("DELETE /b/k?uploadId", "AbortMultipartUpload"),
    ],
)
def test_names_of_s3_operations(request_line: str, action: str) -> None:
    """S3's operations are known by method, path and query."""
    method, target = request_line.split(" ")
    path, _, part = target.partition("?")
    assert s3_action(method, path, query={part: ""} if part else {}) == action
