#!/usr/bin/python
"""CreateBucket with the object's tags in the same call; a bucket that is there already is never taken over by it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: s3_create
short_description: Create one S3 bucket with its tags
description:
  - Calls CreateBucket once, with the tags in the same call. M(amazon.aws.s3_bucket) takes a bucket that the account has
    already for its own creation.
  - Looks right before, as in us-east-1 S3 answers for a bucket that the account has already as if it had created it,
    and resets its ACL. So the answer proves nothing; only the tags do (RV(proven)). They aren't sent again where the
    bucket lacks them, as it may be somebody else's.
  - A bucket that appeared meanwhile is RV(taken). A refused call ends with RV(error_code), RV(request_id), RV(message),
    RV(answered_at) and RV(definite), and isn't retried.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  tags:
    description: Tags of the bucket, that with O(uid) among them.
    type: dict
    required: true
extends_documentation_fragment:
  - aws_operator.core.s3_bucket
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Create
  aws_operator.core.s3_create:
    bucket: example-data
    account_id: "123456789012"
    uid: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
    tags:
      ansible-operator.io/uid: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
"""

RETURN = r"""
taken:
  description: Whether the account has such a bucket by now, perhaps by an earlier call without an answer.
  returned: success
  type: bool
proven:
  description: Whether the bucket carries the object's tag.
  returned: success
  type: bool
definite:
  description: Whether nothing can have come of the call, now or later.
  returned: always
  type: bool
answered_at:
  description: When the call ended, by S3's own time as far as S3 told it.
  returned: always
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

import time  # noqa: E402 - Ansible wants the documentation first
from datetime import UTC, datetime, timedelta  # noqa: E402
from typing import Any  # noqa: E402

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.identity import UID_TAG  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.s3_calls import (  # noqa: E402
    ANY,
    BUCKET_SPEC,
    DENIED,
    NO_BUCKET,
    OneBucket,
    Outcome,
    tried,
)
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse, render  # noqa: E402

_FIRST_REGION = "us-east-1"
_OURS_ALREADY = "BucketAlreadyOwnedByYou"
_ANOTHERS = "BucketAlreadyExists"
# S3 is busy with the name, perhaps with an earlier call of ours.
_BUSY = "OperationAborted"
_SPEC = {**BUCKET_SPEC, "tags": {"type": "dict", "required": True}}


def create_request(*, bucket: str, region: str, tags: dict[str, Any]) -> dict[str, Any]:
    """Return the request; us-east-1 is the one region that must not be named."""
    configuration: dict[str, Any] = {"Tags": [{"Key": key, "Value": str(value)} for key, value in sorted(tags.items())]}
    if region != _FIRST_REGION:
        configuration["LocationConstraint"] = region
    return {"Bucket": bucket, "CreateBucketConfiguration": configuration}


def is_definite(code: str, status: int, *, repeated: bool = True) -> bool:
    """Return whether S3 refused for good: what it began or lost may still come, or have come before a repeated call."""
    if not 400 <= status < 500 or code == _BUSY:
        return False
    # Only the name's being another account's says of the calls before it too that nothing came of them.
    return not repeated or code == _ANOTHERS


def verdict(tags: dict[str, str] | None, *, uid: str) -> dict[str, bool]:
    """Return what the *tags* of the bucket tell after the call; None: S3 doesn't show it yet."""
    proven = (tags or {}).get(UID_TAG) == uid
    taken = bool(tags) and not proven  # S3 answers so for a bucket that is there, and somebody else tagged it
    return {"taken": taken, "proven": proven, "definite": taken}


def ask(one: OneBucket, *, began_at: str) -> tuple[Outcome, str]:
    """Call CreateBucket; return the outcome and when the call ended, by S3's clock where it told its time."""
    params = one.module.params
    region = one.module.region or _FIRST_REGION
    request = create_request(bucket=one.name, region=region, tags=params["tags"])
    began, start = parse(began_at) or datetime.now(UTC), time.monotonic()
    outcome = tried(one.module, one.client.create_bucket, accepts=bool, **request)
    return outcome, outcome.date or render(began + timedelta(seconds=time.monotonic() - start))


def create(one: OneBucket) -> dict[str, Any]:
    """Create the bucket unless it is there by now, and return what came of it; a refusal ends the module."""
    uid = one.module.params["uid"]
    tags, looked = one.tags(ANY)
    if tags is None and looked.code not in {NO_BUCKET, DENIED}:  # another account's is told best by CreateBucket itself
        one.module.fail_json(**looked.refusal, definite=True, answered_at=looked.date)
    if tags is not None:  # it appeared since the caller looked, and nothing was asked
        proven = tags.get(UID_TAG) == uid
        return {"changed": False, "taken": not proven, "proven": proven, "definite": True, "answered_at": looked.date}
    outcome, answered_at = ask(one, began_at=looked.date)
    definite = is_definite(outcome.code, outcome.status, repeated=outcome.repeated)
    if outcome.code == _OURS_ALREADY:
        return {"changed": False, "taken": True, "proven": False, "definite": definite, "answered_at": answered_at}
    if outcome.refusal:
        one.module.fail_json(**outcome.refusal, definite=definite, answered_at=answered_at)
    found = verdict(one.tags(ANY)[0], uid=uid)  # a look that fails mustn't lose when the call ended
    return {"changed": not found["taken"], **found, "answered_at": answered_at}


def main() -> None:
    """Create."""
    module = AnsibleAWSModule(argument_spec=_SPEC, supports_check_mode=True)
    if module.params["tags"].get(UID_TAG) != module.params["uid"]:
        module.fail_json(msg=f"tags must have {UID_TAG}: a bucket without it couldn't be told from others")
    if module.check_mode:
        module.exit_json(changed=True, taken=False, proven=True, definite=False, answered_at="")
    module.exit_json(**create(OneBucket.of(module)))


if __name__ == "__main__":
    main()
