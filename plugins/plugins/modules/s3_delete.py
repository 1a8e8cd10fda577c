#!/usr/bin/python
"""Delete exactly one S3 bucket that carries the object's tag; its content only where that is asked for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: s3_delete
short_description: Delete one S3 bucket that is the object's
description:
  - The bucket's tags are read once more before anything is deleted, and a bucket that isn't the object's is left alone.
  - A bucket that isn't empty is RV(refusal), and no failure. With O(force) all versions, delete markers and unfinished
    uploads go first, as many as O(batches) allows; M(amazon.aws.s3_bucket) deletes for as long as there is anything,
    and leaves uploads.
  - Any other refused call ends with RV(error_code), RV(request_id) and RV(message), and isn't retried.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  force:
    description: Whether to delete the content.
    type: bool
    default: false
  restore:
    description:
      - Whether to put the UID tag back before anything is deleted, beside the tags that are there, so that the next run
        knows the bucket for the object's too.
    type: bool
    default: false
  batches:
    description: How many times a thousand versions one run deletes at most.
    type: int
    default: 20
extends_documentation_fragment:
  - aws_operator.core.s3_bucket
  - aws_operator.core.s3_bucket.claim
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Delete
  aws_operator.core.s3_delete:
    bucket: example-data
    account_id: "123456789012"
    uid: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
"""

RETURN = r"""
existed:
  description: Whether there was such a bucket.
  returned: success
  type: bool
visible:
  description: Whether S3 shows the bucket still.
  returned: success
  type: bool
refusal:
  description: RV(error_code), RV(request_id) and RV(message) of what keeps the bucket, else empty.
  returned: success
  type: dict
unfinished:
  description: Whether more is in the bucket than this run could delete.
  returned: success
  type: bool
versions:
  description: How many versions and delete markers were deleted.
  returned: success
  type: int
uploads:
  description: How many unfinished uploads were deleted.
  returned: success
  type: int
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

from dataclasses import dataclass, field  # noqa: E402 - Ansible wants the documentation first
from typing import Any  # noqa: E402

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.identity import UID_TAG  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.s3_calls import (  # noqa: E402
    BUCKET_SPEC,
    CLAIM_SPEC,
    NO_BUCKET,
    OneBucket,
)

_NOT_EMPTY = "BucketNotEmpty"
_SPEC = {
    **BUCKET_SPEC,
    **CLAIM_SPEC,
    "force": {"type": "bool", "default": False},
    "restore": {"type": "bool", "default": False},
    "batches": {"type": "int", "default": 20},
}


@dataclass(kw_only=True)
class Emptied:
    """How far the emptying got."""

    versions: int = 0
    uploads: int = 0
    unfinished: bool = False
    errors: list[dict[str, Any]] = field(default_factory=list)
    """What S3 said of single objects that stay."""

    @property
    def refusal(self) -> dict[str, str]:
        """Return the first error in the form of a refused call, empty where there is none."""
        if not self.errors:
            return {}
        first = self.errors[0]
        return {
            "error_code": str(first.get("Code") or "Unknown"),
            "request_id": "",
            "message": f"{first.get('Message') or ''} ({len(self.errors)} in all)",
        }


def empty(one: OneBucket) -> Emptied:
    """Delete what is in the bucket, within the limit."""
    done = Emptied()
    marker: dict[str, str] = {}
    for _batch in range(one.module.params["batches"]):
        page = one.call("list_object_versions", MaxKeys=1000, **marker)
        delete_page(one, page, done=done)
        if not page.get("IsTruncated"):
            abort_uploads(one, done)
            return done
        marker = {"KeyMarker": page["NextKeyMarker"]}
        if page.get("NextVersionIdMarker"):
            marker["VersionIdMarker"] = page["NextVersionIdMarker"]
    done.unfinished = True
    return done


def delete_page(one: OneBucket, page: dict[str, Any], *, done: Emptied) -> None:
    """Delete the versions and delete markers of one page; those that S3 keeps don't end it."""
    found = [*(page.get("Versions") or []), *(page.get("DeleteMarkers") or [])]
    if not found:
        return
    objects = [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in found]
    errors = one.call("delete_objects", Delete={"Objects": objects, "Quiet": True}).get("Errors") or []
    done.errors += errors
    done.versions += len(found) - len(errors)


def abort_uploads(one: OneBucket, done: Emptied) -> None:
    """Take away the uploads that nobody completed, a thousand at most; the next run goes on."""
    page = one.call("list_multipart_uploads", MaxUploads=1000)
    for upload in page.get("Uploads") or []:
        one.call("abort_multipart_upload", "NoSuchUpload", Key=upload["Key"], UploadId=upload["UploadId"])
        done.uploads += 1
    done.unfinished = bool(page.get("IsTruncated"))


def delete(one: OneBucket) -> tuple[dict[str, str], bool]:
    """Delete the bucket; return why S3 refused, empty where it didn't, and whether S3 shows the bucket still."""
    outcome = one.tried("delete_bucket", NO_BUCKET, _NOT_EMPTY)
    if outcome.code == _NOT_EMPTY:
        return outcome.refusal, False
    return {}, one.tags()[0] is not None


def main() -> None:
    """Delete."""
    module = AnsibleAWSModule(argument_spec=_SPEC, supports_check_mode=True)
    params = module.params
    if module.check_mode:
        module.exit_json(changed=True, **result(Emptied()))
    one = OneBucket.of(module)
    tags, _outcome = one.tags()
    if tags is None:
        module.exit_json(changed=False, **result(Emptied(), existed=False))
    one.refuse_others(tags, uid=params["uid"], claim=params["claim"])
    if params["restore"] and UID_TAG not in tags:
        one.put_tags({**tags, UID_TAG: params["uid"]})
    done = empty(one) if params["force"] else Emptied()
    refusal, visible = done.refusal, False
    if not refusal and not done.unfinished:
        refusal, visible = delete(one)
    changed = bool(done.versions or done.uploads) or not (refusal or done.unfinished)
    module.exit_json(changed=changed, **result(done, refusal=refusal, visible=visible))


def result(
    done: Emptied, *, existed: bool = True, refusal: dict[str, str] | None = None, visible: bool = False
) -> dict[str, Any]:
    """Return what the module tells."""
    told = {key: value for key, value in (refusal or {}).items() if key in {"error_code", "request_id", "message"}}
    counted = {"versions": done.versions, "uploads": done.uploads, "unfinished": done.unfinished}
    return {"existed": existed, "refusal": told, "visible": visible, **counted}


if __name__ == "__main__":
    main()
