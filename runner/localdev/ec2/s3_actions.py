"""Names of S3's operations: S3 is called by method, path and query, and no header names the operation."""

from __future__ import annotations

from collections.abc import Mapping

# A query key names a part of a bucket or of an object; the operation is Get, Put or Delete in front of it.
_PARTS = {
    "accelerate": "BucketAccelerateConfiguration",
    "cors": "BucketCors",
    "encryption": "BucketEncryption",
    "lifecycle": "BucketLifecycleConfiguration",
    "location": "BucketLocation",
    "logging": "BucketLogging",
    "notification": "BucketNotificationConfiguration",
    "object-lock": "ObjectLockConfiguration",
    "ownershipControls": "BucketOwnershipControls",
    "policy": "BucketPolicy",
    "policyStatus": "BucketPolicyStatus",
    "publicAccessBlock": "PublicAccessBlock",
    "replication": "BucketReplication",
    "requestPayment": "BucketRequestPayment",
    "versioning": "BucketVersioning",
    "website": "BucketWebsite",
}
_VERBS = {"GET": "Get", "HEAD": "Head", "PUT": "Put", "POST": "Post", "DELETE": "Delete"}
_LISTS = {"versions": "ListObjectVersions", "uploads": "ListMultipartUploads", "list-type": "ListObjectsV2"}


def s3_action(method: str, path: str, *, query: Mapping[str, str]) -> str:
    """Return the operation's name, as far as path-style requests tell it."""
    bucket, _, key = path.lstrip("/").partition("/")
    verb = _VERBS.get(method, method.title())
    if not bucket:
        return "ListBuckets"
    for part, name in _PARTS.items():
        if part in query:
            return _without_configuration(verb, name)
    for part, name in (("tagging", "Tagging"), ("acl", "Acl")):
        if part in query:
            return f"{verb}{'Object' if key else 'Bucket'}{name}"
    return _object_action(verb, query) if key else _bucket_action(verb, query)


def _without_configuration(verb: str, name: str) -> str:
    # DeleteBucketLifecycle is the one delete whose name is shorter than its Get and Put.
    return "DeleteBucketLifecycle" if (verb, name) == ("Delete", "BucketLifecycleConfiguration") else f"{verb}{name}"


def _bucket_action(verb: str, query: Mapping[str, str]) -> str:
    if verb == "Post":
        return "DeleteObjects" if "delete" in query else "PostObject"
    if verb == "Get":
        return next((name for part, name in _LISTS.items() if part in query), "ListObjects")
    return {"Put": "CreateBucket", "Delete": "DeleteBucket", "Head": "HeadBucket"}.get(verb, verb)


def _object_action(verb: str, query: Mapping[str, str]) -> str:
    if verb == "Post":
        return "CreateMultipartUpload" if "uploads" in query else "CompleteMultipartUpload"
    if "uploadId" in query:
        return {"Put": "UploadPart", "Get": "ListParts", "Delete": "AbortMultipartUpload"}.get(verb, verb)
    return f"{verb}Object"
