#!/usr/bin/python
"""Describe one S3 bucket by its name: whose it is, and its settings where it carries the object's tag. Never writes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: s3_describe
short_description: Describe one S3 bucket
description:
  - Tells a bucket that isn't there from one that is somebody else's, and gives the settings of one that carries the
    given UID tag. M(amazon.aws.s3_bucket_info) lists all buckets of the account and takes a refusal for "not set".
  - A refused call ends with RV(error_code), RV(request_id) and RV(message), and isn't retried.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  account_id:
    description: The account that the bucket has to be of; that of the credentials where left out.
    type: str
    required: false
    default: ""
  create_time:
    description: When the object's bucket was created, as far as it's known. It decides what else has to be asked.
    type: str
    default: ""
  undecided:
    description: Whether a creation was asked for of which nobody knows how it ended.
    type: bool
    default: false
  creation_tags:
    description:
      - Whether the endpoint keeps the tags of CreateBucket, so that what came of one carries them.
      - With V(auto) those of AWS count as such, and no others.
    type: str
    choices: [auto, kept, dropped]
    default: auto
  settings:
    description: Whether to read the settings.
    type: bool
    default: true
extends_documentation_fragment:
  - aws_operator.core.s3_bucket
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Describe
  aws_operator.core.s3_describe:
    bucket: example-data
    uid: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
"""

RETURN = r"""
bucket:
  description:
    - V(exists), and where it does V(elsewhere) (another account's), V(tags), and V(creation_date) where asked.
    - Of one without tags, with O(undecided), V(tags_kept), and where they aren't V(empty) and V(configured), the names
      of what somebody has set.
    - Of a bucket with the UID tag V(versioning), V(encryption), V(public_access_block), V(lifecycle_rules) as S3 has
      them.
  returned: success
  type: dict
account_id:
  description: The account that was asked about; that of the credentials where there is no such bucket.
  returned: success
  type: str
asked_at:
  description: S3's own time of the first call.
  returned: success
  type: str
error_code:
  description: AWS's error code.
  returned: failure
  type: str
request_id:
  description: AWS's request id.
  returned: failure
  type: str
message:
  description: AWS's message.
  returned: failure
  type: str
"""

from datetime import UTC, datetime  # noqa: E402 - Ansible wants the documentation first
from typing import Any  # noqa: E402

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import call  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.identity import UID_TAG  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.s3_calls import (  # noqa: E402
    BUCKET_SPEC,
    DENIED,
    NO_BUCKET,
    OneBucket,
    Outcome,
    keeps_creation_tags,
    tried,
)
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render  # noqa: E402

# What a new bucket has none of, and what endpoints other than AWS's answer where they don't have such a thing at all.
_CONFIGURED = (
    ("versioning", "get_bucket_versioning", "Status", ""),
    ("lifecycle rules", "get_bucket_lifecycle_configuration", "Rules", "NoSuchLifecycleConfiguration"),
    ("a policy", "get_bucket_policy", "Policy", "NoSuchBucketPolicy"),
    ("CORS rules", "get_bucket_cors", "CORSRules", "NoSuchCORSConfiguration"),
)
_UNKNOWN = ("NotImplemented", "MethodNotAllowed")
_SPEC = {
    **BUCKET_SPEC,
    "account_id": {"type": "str", "default": ""},
    "create_time": {"type": "str", "default": ""},
    "undecided": {"type": "bool", "default": False},
    "creation_tags": {"type": "str", "choices": ["auto", "kept", "dropped"], "default": "auto"},
    "settings": {"type": "bool", "default": True},
}


def account_of(module: Any) -> str:
    """Return the account of the credentials."""
    return str(call(module, module.client("sts").get_caller_identity)["Account"])


def listed(one: OneBucket) -> tuple[str | None, bool]:
    """Return the date of the creation as the account's list has it (None: it isn't there), and whether we may look."""
    accepts = {DENIED}.__contains__
    outcome = tried(one.module, one.client.list_buckets, accepts=accepts, Prefix=one.name, MaxBuckets=1000)
    dates = [item["CreationDate"] for item in outcome.answer.get("Buckets") or [] if item["Name"] == one.name]
    return (render(dates[0]) if dates else None), not outcome.refusal


def denied(one: OneBucket, outcome: Outcome) -> dict[str, Any]:
    """Tell a bucket of another account from one that these credentials may not read, which ends the module."""
    date, may_look = listed(one)
    mine = account_of(one.module)
    if mine != one.account_id:
        text = f"the credentials are of account {mine}, the bucket is of account {one.account_id}"
        one.module.fail_json(msg=f"AccountChanged: {text}: use credentials of that one; {outcome.refusal['msg']}")
    if date is not None or not may_look:
        one.module.fail_json(**outcome.refusal)
    return {"exists": True, "elsewhere": True}


def is_empty(one: OneBucket) -> bool:
    """Return whether there is nothing in the bucket, old versions and unfinished uploads included."""
    versions = one.call("list_object_versions", MaxKeys=1)
    uploads = one.call("list_multipart_uploads", MaxUploads=1)
    return not (versions.get("Versions") or versions.get("DeleteMarkers") or uploads.get("Uploads"))


def configured(one: OneBucket) -> list[str]:
    """Return the names of what somebody has set in the bucket."""
    return [name for name, operation, key, code in _CONFIGURED if one.call(operation, code, *_UNKNOWN).get(key)]


def settings_of(one: OneBucket) -> Any:
    """Return the settings as S3 has them."""
    encryption = one.call("get_bucket_encryption", "ServerSideEncryptionConfigurationNotFoundError")
    blocks = one.call("get_public_access_block", "NoSuchPublicAccessBlockConfiguration")
    rules = one.call("get_bucket_lifecycle_configuration", "NoSuchLifecycleConfiguration")
    return plain_times({
        "versioning": one.call("get_bucket_versioning").get("Status") or "",
        "encryption": encryption.get("ServerSideEncryptionConfiguration") or {},
        "public_access_block": blocks.get("PublicAccessBlockConfiguration") or {},
        "lifecycle_rules": rules.get("Rules") or [],
    })


def plain_times(value: Any) -> Any:
    """Return *value* with times as text."""
    if isinstance(value, dict):
        return {key: plain_times(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain_times(inner) for inner in value]
    return render(value) if isinstance(value, datetime) else value


def describe(one: OneBucket) -> tuple[dict[str, Any], str]:
    """Return the bucket, and S3's time."""
    tags, outcome = one.tags(DENIED)
    asked_at = outcome.date or render(datetime.now(UTC))
    if tags is not None:
        return present(one, tags), asked_at
    if outcome.code == NO_BUCKET:
        return {"exists": False}, asked_at
    return denied(one, outcome), asked_at


def present(one: OneBucket, tags: dict[str, str]) -> dict[str, Any]:
    """Return a bucket of our account, asked for no more than its tags leave open."""
    params = one.module.params
    found: dict[str, Any] = {"exists": True, "elsewhere": False, "tags": tags}
    ours, untagged = tags.get(UID_TAG) == params["uid"], UID_TAG not in tags
    if (ours and not params["create_time"]) or (untagged and (params["create_time"] or params["undecided"])):
        found["creation_date"] = listed(one)[0] or ""
    if not tags and params["undecided"]:
        found.update(untouched(one))
    if ours and params["settings"]:
        found.update(settings_of(one))
    return found


def untouched(one: OneBucket) -> dict[str, Any]:
    """Return what tells whether a bucket without tags is as CreateBucket leaves it."""
    kept = keeps_creation_tags(one.client.meta.endpoint_url, given=one.module.params["creation_tags"])
    if kept:
        return {"tags_kept": True}
    return {"tags_kept": False, "empty": is_empty(one), "configured": configured(one)}


def main() -> None:
    """Describe."""
    module = AnsibleAWSModule(argument_spec=_SPEC, supports_check_mode=True)
    params = module.params
    recorded = params["account_id"]
    account_id = recorded or account_of(module)
    bucket, asked_at = describe(OneBucket.of(module, account_id=account_id))
    if recorded and not bucket["exists"]:  # where there is nothing, a creation would be for these credentials' account
        account_id = account_of(module)
    module.exit_json(changed=False, bucket=bucket, account_id=account_id, asked_at=asked_at)


if __name__ == "__main__":
    main()
