#!/usr/bin/python
"""Change the tags and settings of exactly one S3 bucket that carries the object's tag; never creates, never deletes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: s3_modify
short_description: Change one S3 bucket that is the object's
description:
  - Sends only the calls that were asked for; the caller has compared already. The bucket's tags are read once more
    before the first of them, and a bucket that isn't the object's any more is left alone.
  - Tags and lifecycle rules are written as a whole by S3's API; those of others stay, as they are at that moment.
  - A refused call ends with RV(error_code), RV(request_id) and RV(message), and isn't retried.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  tags:
    description: Tags to set; others stay.
    type: dict
    default: {}
  remove_tags:
    description: Tags to take away, each only while it has the value given here.
    type: dict
    default: {}
  versioning:
    description: Versioning to set.
    type: str
    choices: [Enabled, Suspended]
  encryption:
    description: Rule of encryption to set, as S3's API has it.
    type: dict
  public_access_block:
    description: Public access block to set, as S3's API has it.
    type: dict
  sets_lifecycle:
    description: Whether to set O(lifecycle_rules).
    type: bool
    default: false
  lifecycle_rules:
    description: All lifecycle rules of the object, as S3's API has them; empty takes them away. Others' stay.
    type: list
    elements: dict
    default: []
extends_documentation_fragment:
  - aws_operator.core.s3_bucket
  - aws_operator.core.s3_bucket.claim
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Keep old versions
  aws_operator.core.s3_modify:
    bucket: example-data
    account_id: "123456789012"
    uid: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
    versioning: Enabled
"""

RETURN = r"""
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
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_rules import merged_rules  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.s3_calls import (  # noqa: E402
    BUCKET_SPEC,
    CLAIM_SPEC,
    OneBucket,
)

_SPEC = {
    **BUCKET_SPEC,
    **CLAIM_SPEC,
    "tags": {"type": "dict", "default": {}},
    "remove_tags": {"type": "dict", "default": {}},
    "versioning": {"type": "str", "choices": ["Enabled", "Suspended"]},
    "encryption": {"type": "dict"},
    "public_access_block": {"type": "dict"},
    "sets_lifecycle": {"type": "bool", "default": False},
    "lifecycle_rules": {"type": "list", "elements": "dict", "default": []},
}


def merged_tags(current: dict[str, str], *, add: dict[str, Any], remove: dict[str, Any]) -> dict[str, str]:
    """Return all tags to write: those of others and of AWS as they are, then ours."""
    kept = {key: value for key, value in current.items() if key not in remove or remove[key] != value}
    return {**kept, **{key: str(value) for key, value in add.items()}}


def set_tags(one: OneBucket, current: dict[str, str]) -> bool:
    """Write the tags where they differ; return whether they did."""
    params = one.module.params
    wanted = merged_tags(current, add=params["tags"], remove=params["remove_tags"])
    if wanted == current:
        return False
    one.put_tags(wanted)
    return True


def set_settings(one: OneBucket) -> bool:
    """Write the settings that are given; return whether there were any."""
    params = one.module.params
    block, rule, versioning = (params[key] for key in ("public_access_block", "encryption", "versioning"))
    if block is not None:
        one.call("put_public_access_block", PublicAccessBlockConfiguration=block)
    if rule is not None:
        one.call("put_bucket_encryption", ServerSideEncryptionConfiguration={"Rules": [rule]})
    if versioning is not None:
        one.call("put_bucket_versioning", VersioningConfiguration={"Status": versioning})
    if params["sets_lifecycle"]:
        set_rules(one, params["lifecycle_rules"])
    return bool(params["sets_lifecycle"] or any(given is not None for given in (block, rule, versioning)))


def set_rules(one: OneBucket, ours: list[dict[str, Any]]) -> None:
    """Write the lifecycle rules beside those that others have there by now."""
    answer = one.call("get_bucket_lifecycle_configuration", "NoSuchLifecycleConfiguration")
    rules = merged_rules(answer.get("Rules") or [], ours)
    if not rules:
        one.call("delete_bucket_lifecycle")
        return
    size = answer.get("TransitionDefaultMinimumObjectSize")  # a setting of the whole document, which a write resets
    kept = {"TransitionDefaultMinimumObjectSize": size} if size else {}
    one.call("put_bucket_lifecycle_configuration", **kept, LifecycleConfiguration={"Rules": rules})


def main() -> None:
    """Send what was asked for."""
    module = AnsibleAWSModule(argument_spec=_SPEC, supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=True)
    params = module.params
    one = OneBucket.of(module)
    tags, outcome = one.tags()
    if tags is None:
        module.fail_json(**outcome.refusal)
    one.refuse_others(tags or {}, uid=params["uid"], claim=params["claim"])
    tagged = set_tags(one, tags or {})
    module.exit_json(changed=set_settings(one) or tagged)


if __name__ == "__main__":
    main()
