"""S3 buckets: whose a bucket has to be, buckets of other accounts, and tags that come with the creation."""

# ruff: noqa: SLF001 - moto's internals are what this package changes
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moto.s3 import models, responses
from moto.s3.exceptions import AccessDeniedByLock, BucketAlreadyExists

from runner.localdev.ec2.moto_patches.current import simulation


def patch() -> None:
    """Put the rules of buckets into moto."""
    models.s3_allow_crossdomain_access = _never
    answers = responses.S3Response
    answers._bucket_response = _of_the_expected_owner(answers._bucket_response)
    answers._bucket_response_put = _creating(answers._bucket_response_put)


def _never() -> bool:
    """Let no account into another one's bucket: nobody has allowed it."""
    return False


def _account_of(bucket: str) -> str:
    """Return the account that has the bucket, empty where there is none."""
    found: tuple[str, str] | None = models.s3_backends.bucket_accounts.get(bucket)
    return found[1] if found else ""


def _of_the_expected_owner(original: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a call about a bucket that isn't of the account that the caller expects."""

    @functools.wraps(original)
    def answer(response: Any, *sent: Any) -> Any:
        request, full_url = sent
        expected = request.headers.get("x-amz-expected-bucket-owner")
        owner = _account_of(response.parse_bucket_name_from_url(request, full_url) or "")
        if expected and owner and owner != expected:
            raise AccessDeniedByLock
        return original(response, *sent)

    return answer


def _creating(original: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a name that another account has, and give a new bucket the tags that CreateBucket names."""

    @functools.wraps(original)
    def put(response: Any, *sent: Any) -> Any:
        _request, bucket_name, querystring = sent
        creates, owner = not querystring, _account_of(bucket_name)
        if creates and owner and owner != response.get_current_account():
            raise BucketAlreadyExists(bucket=bucket_name)
        result = original(response, *sent)
        tags = _tags(response.body) if creates and not owner and simulation().config.bucket_tags else {}
        if tags:
            response.backend.put_bucket_tagging(bucket_name, tags)
        return result

    return put


def _tags(body: bytes | str) -> dict[str, str]:
    given = responses.xmltodict.parse(body, force_list=("Tag",)) if body else {}
    configuration = given.get("CreateBucketConfiguration") or {}
    tags = (configuration.get("Tags") or {}).get("Tag") or []
    return {tag["Key"]: tag.get("Value") or "" for tag in tags}
