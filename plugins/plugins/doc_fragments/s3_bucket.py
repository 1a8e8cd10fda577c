"""Options that the modules `s3_*` share; their argument specs are `BUCKET_SPEC` and `CLAIM_SPEC` of `s3_calls`."""

from __future__ import annotations


class ModuleDocFragment:
    """What Ansible looks for."""

    DOCUMENTATION = r"""
options:
  bucket:
    description: Name of the bucket.
    type: str
    required: true
  account_id:
    description: The account that the bucket has to be of.
    type: str
    required: true
  uid:
    description: The UID tag's value of the object that asks.
    type: str
    required: true
"""

    CLAIM = r"""
options:
  claim:
    description: Whether the bucket is known to be the object's although it carries no UID tag.
    type: bool
    default: false
"""
