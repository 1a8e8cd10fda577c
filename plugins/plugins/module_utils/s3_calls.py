"""Calls of S3 about one bucket, each saying which account's it has to be; the modules `s3_*` share them.

With `ExpectedBucketOwner` S3 refuses a call about a bucket of the same name that somebody else's account has by now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import (
    BotoCoreError,
    ClientError,
    call,
    refused,
)
from ansible_collections.aws_operator.core.plugins.module_utils.identity import UID_TAG
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render

NO_BUCKET = "NoSuchBucket"
DENIED = "AccessDenied"
ANY = "*"
"""In place of codes: every refusal."""
BUCKET_SPEC: Mapping[str, Mapping[str, Any]] = {
    "bucket": {"type": "str", "required": True},
    "account_id": {"type": "str", "required": True},
    "uid": {"type": "str", "required": True},
}
"""Options of all the modules; their documentation is the fragment `s3_bucket`."""
CLAIM_SPEC: Mapping[str, Mapping[str, Any]] = {"claim": {"type": "bool", "default": False}}
"""Options of those that change a bucket; the fragment's part `claim`."""
_NO_TAGS = "NoSuchTagSet"
_OF_AWS = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What S3 answered to a call that may be refused."""

    answer: dict[str, Any]
    refusal: dict[str, str]
    """`error_code`, `request_id`, `message` and `msg`; empty where S3 did it."""
    status: int
    date: str
    """S3's own time, empty where it didn't tell."""
    repeated: bool = True
    """Whether the library asked more than once, or may have: an answer may then be about an earlier call's doing."""

    @property
    def code(self) -> str:
        """Return AWS's error code, empty where there is none."""
        return self.refusal.get("error_code", "")


def tried(
    module: Any, method: Callable[..., dict[str, Any]], *, accepts: Callable[[str], bool], **request: Any
) -> Outcome:
    """Return the outcome; a refusal whose code *accepts* doesn't take ends the module."""

    def ask(**given: Any) -> dict[str, Any]:
        try:
            return {"answer": method(**given)}
        except (ClientError, BotoCoreError) as error:
            refusal = refused(error)
            if not accepts(refusal["error_code"]):
                raise
            return {"refusal": refusal, "metadata": (getattr(error, "response", None) or {}).get("ResponseMetadata")}

    found = call(module, ask, **request)
    answer = found.get("answer") or {}
    metadata = found.get("metadata") or answer.get("ResponseMetadata") or {}
    return Outcome(
        answer=answer,
        refusal=found.get("refusal") or {},
        status=int(metadata.get("HTTPStatusCode") or 0),
        date=_date(metadata),
        repeated=metadata.get("RetryAttempts") != 0,
    )


@dataclass(frozen=True, kw_only=True)
class OneBucket:
    """A bucket of one account, and a client to ask about it; operations are named as boto3 does."""

    module: Any
    client: Any
    name: str
    account_id: str

    @classmethod
    def of(cls, module: Any, *, account_id: str = "") -> OneBucket:
        """Return the bucket that the options of *module* name."""
        params = module.params
        account = account_id or params["account_id"]
        return cls(module=module, client=module.client("s3"), name=params["bucket"], account_id=account)

    def call(self, operation: str, *absent: str, **request: Any) -> dict[str, Any]:
        """Return S3's answer, empty where it refuses with one of the codes *absent*; another one ends the module."""
        return self.tried(operation, *absent, **request).answer

    def tried(self, operation: str, *codes: str, **request: Any) -> Outcome:
        """Return the outcome; a refusal with another code than one of *codes* (`ANY`: all) ends the module."""
        method = getattr(self.client, operation)
        named = {"Bucket": self.name, "ExpectedBucketOwner": self.account_id, **request}
        return tried(self.module, method, accepts=lambda code: code in codes or ANY in codes, **named)

    def tags(self, *codes: str) -> tuple[dict[str, str] | None, Outcome]:
        """Return the bucket's tags, None where S3 refused with one of *codes* or there is no such bucket."""
        outcome = self.tried("get_bucket_tagging", NO_BUCKET, _NO_TAGS, *codes)
        if outcome.refusal and outcome.code != _NO_TAGS:
            return None, outcome
        return {tag["Key"]: tag["Value"] for tag in outcome.answer.get("TagSet") or []}, outcome

    def put_tags(self, tags: Mapping[str, str]) -> None:
        """Write *tags*, which takes all others away."""
        tag_set = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
        self.call("put_bucket_tagging", Tagging={"TagSet": tag_set})

    def refuse_others(self, tags: Mapping[str, str], *, uid: str, claim: bool) -> None:
        """End the module where the bucket isn't the object's by its tags as they are now."""
        if tags.get(UID_TAG) == uid or (claim and UID_TAG not in tags):
            return
        self.module.fail_json(msg=f"NotOurs: bucket {self.name} doesn't carry this object's tag {UID_TAG} (any more)")


def keeps_creation_tags(endpoint_url: str, *, given: str) -> bool:
    """Return whether a bucket carries the tags of its CreateBucket from the beginning: *given* (`kept`, `dropped`), or,
    with `auto`, what is known of the endpoint. AWS's keep them; of others nobody knows, so that they count as dropped.
    """
    if given != "auto":
        return given == "kept"
    return (urlsplit(endpoint_url).hostname or "").endswith(_OF_AWS)


def _date(metadata: dict[str, Any]) -> str:
    text = (metadata.get("HTTPHeaders") or {}).get("date")
    try:
        return render(parsedate_to_datetime(text)) if text else ""
    except ValueError:
        return ""
