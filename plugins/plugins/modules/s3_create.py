#!/usr/bin/python
"""CreateBucket with the object's tags in the same call; a bucket that is there already is never taken over by it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: s3_create
short_description: Create one S3 bucket with its tags
description:
  - Calls CreateBucket once, with the tags in the same call. An endpoint that ignores them there is sent them once more.
  - M(amazon.aws.s3_bucket) takes a bucket that the account has already for its own creation.
  - The caller has to have seen that there is no such bucket. In us-east-1 S3 answers for a bucket that the account has
    already as if it had created it, and resets its ACL.
  - A bucket that appeared meanwhile is RV(taken). A refused call ends with RV(error_code), RV(request_id), RV(message)
    and RV(definite), and isn't retried.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  bucket:
    description: Name of the bucket.
    type: str
    required: true
  account_id:
    description: The account that the bucket has to be of.
    type: str
    required: true
  tags:
    description: Tags of the bucket. Must not be empty.
    type: dict
    required: true
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Create
  aws_operator.core.s3_create:
    bucket: example-data
    account_id: "123456789012"
    tags:
      ansible-operator.io/uid: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
"""

RETURN = r"""
taken:
  description: Whether the account has such a bucket by now, perhaps by an earlier call without an answer.
  returned: success
  type: bool
definite:
  description: Whether nothing can have come of the call, now or later.
  returned: failure
  type: bool
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

from typing import Any  # noqa: E402 - Ansible wants the documentation first

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.s3_calls import OneBucket, tried  # noqa: E402

_FIRST_REGION = "us-east-1"
_OURS_ALREADY = "BucketAlreadyOwnedByYou"
# S3 is busy with the name, perhaps with an earlier call of ours.
_BUSY = "OperationAborted"
_SPEC = {
    "bucket": {"type": "str", "required": True},
    "account_id": {"type": "str", "required": True},
    "tags": {"type": "dict", "required": True},
}


def create_request(*, bucket: str, region: str, tags: dict[str, Any]) -> dict[str, Any]:
    """Return the request; us-east-1 is the one region that must not be named."""
    configuration: dict[str, Any] = {"Tags": [{"Key": key, "Value": str(value)} for key, value in sorted(tags.items())]}
    if region != _FIRST_REGION:
        configuration["LocationConstraint"] = region
    return {"Bucket": bucket, "CreateBucketConfiguration": configuration}


def is_definite(code: str, status: int) -> bool:
    """Return whether S3 refused for good: what it began or lost may still come."""
    return 400 <= status < 500 and code not in {_OURS_ALREADY, _BUSY}


def is_taken(one: OneBucket, wanted: dict[str, str]) -> bool:
    """See that the new bucket carries its tags; return whether it's somebody else's by them."""
    tags, _outcome = one.tags()
    if tags is None:  # not seen yet: the next look tells
        return False
    if not tags:
        one.put_tags(wanted)
    return bool(tags) and tags != wanted


def main() -> None:
    """Create."""
    module = AnsibleAWSModule(argument_spec=_SPEC, supports_check_mode=True)
    params = module.params
    if not params["tags"]:
        module.fail_json(msg="tags must not be empty: a bucket without them couldn't be told from others")
    if module.check_mode:
        module.exit_json(changed=True, taken=False)
    client = module.client("s3")
    request = create_request(bucket=params["bucket"], region=module.region or _FIRST_REGION, tags=params["tags"])
    outcome = tried(module, client.create_bucket, accepts=bool, **request)
    if outcome.refusal and outcome.code != _OURS_ALREADY:
        module.fail_json(**outcome.refusal, definite=is_definite(outcome.code, outcome.status))
    one = OneBucket(module=module, client=client, name=params["bucket"], account_id=params["account_id"])
    taken = bool(outcome.refusal) or is_taken(one, {key: str(value) for key, value in params["tags"].items()})
    module.exit_json(changed=not taken, taken=taken)


if __name__ == "__main__":
    main()
