"""Where a bucket's settings aren't as the spec says, and what `s3_modify` has to set. Pure.

Settings are as S3 gives them. What the spec doesn't name stays as it is, also within what is written as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.bucket_rules import differing_rules, wanted_rules
from ansible_collections.aws_operator.core.plugins.module_utils.buckets import Bucket

BLOCKS = (
    ("blockPublicAcls", "BlockPublicAcls"),
    ("blockPublicPolicy", "BlockPublicPolicy"),
    ("ignorePublicAcls", "IgnorePublicAcls"),
    ("restrictPublicBuckets", "RestrictPublicBuckets"),
)
_MANAGED_KEY = "alias/aws/s3"


@dataclass(frozen=True, kw_only=True)
class BucketDrift:
    """One setting in which the bucket isn't what the spec says."""

    field: str
    expected: str
    actual: str
    action: str = "Repair"

    def sentence(self) -> str:
        """Return it for a person."""
        return f"{self.field}: the spec says {self.expected or 'nothing'}, the bucket has {self.actual or 'nothing'}"


def drift_of(spec: Mapping[str, Any], bucket: Bucket) -> tuple[list[BucketDrift], dict[str, Any]]:
    """Return what differs, and what to set by the argument names of `s3_modify`."""
    parts = (_versioning(spec, bucket), _encryption(spec, bucket), _public_access(spec, bucket), _rules(spec, bucket))
    found = [drift for drift, _changes in parts if drift is not None]
    return found, {key: value for _drift, changes in parts for key, value in changes.items()}


def encryption_of(bucket: Bucket) -> Mapping[str, Any]:
    """Return the bucket's rule of encryption, empty where there is none."""
    rules = (bucket.get("encryption") or {}).get("Rules") or []
    return rules[0] if rules else {}


def algorithm_of(bucket: Bucket) -> tuple[str, str]:
    """Return the algorithm and the key, both empty where there is none."""
    how = encryption_of(bucket).get("ApplyServerSideEncryptionByDefault") or {}
    return str(how.get("SSEAlgorithm") or ""), str(how.get("KMSMasterKeyID") or "")


def public_access_of(bucket: Bucket) -> str:
    """Return `Blocked`, `Partly` or `Open`."""
    on = [bool((bucket.get("public_access_block") or {}).get(theirs)) for _ours, theirs in BLOCKS]
    if all(on):
        return "Blocked"
    return "Partly" if any(on) else "Open"


Part = tuple[BucketDrift | None, dict[str, Any]]


def _versioning(spec: Mapping[str, Any], bucket: Bucket) -> Part:
    wanted, actual = spec.get("versioning"), bucket.get("versioning") or "Off"
    if not wanted or wanted == actual:
        return None, {}
    return BucketDrift(field="versioning", expected=wanted, actual=actual), {"versioning": wanted}


def _encryption(spec: Mapping[str, Any], bucket: Bucket) -> Part:
    wanted = spec.get("encryption") or {}
    if not wanted.get("algorithm"):
        return None, {}
    rule = encryption_of(bucket)
    algorithm, key = algorithm_of(bucket)
    bucket_key = bool(rule.get("BucketKeyEnabled"))
    wanted_bucket_key = bool(wanted.get("bucketKey", bucket_key))
    same_key = wanted["algorithm"] != "aws:kms" or _is_key(key, str(wanted.get("kmsKeyId") or ""))
    if algorithm == wanted["algorithm"] and same_key and bucket_key == wanted_bucket_key:
        return None, {}
    how = {"SSEAlgorithm": wanted["algorithm"]}
    if wanted.get("kmsKeyId"):
        how["KMSMasterKeyID"] = wanted["kmsKeyId"]
    # What else S3 keeps in the rule stays: a writer names the whole of it.
    changed = {**rule, "ApplyServerSideEncryptionByDefault": how}
    if wanted["algorithm"] == "aws:kms":
        changed["BucketKeyEnabled"] = wanted_bucket_key
    expected = _told(wanted["algorithm"], str(wanted.get("kmsKeyId") or ""), bucket_key=wanted_bucket_key)
    drift = BucketDrift(field="encryption", expected=expected, actual=_told(algorithm, key, bucket_key=bucket_key))
    return drift, {"encryption": changed}


def _is_key(actual: str, wanted: str) -> bool:
    """Return whether both name one key: S3 may give an ARN for the id or the alias that it was given."""
    if not wanted:
        return not actual or actual.endswith(_MANAGED_KEY)
    return actual == wanted or actual.endswith((f"/{wanted}", f":{wanted}"))


def _told(algorithm: str, key: str, *, bucket_key: bool) -> str:
    with_key = f"{algorithm} with {key}" if key else algorithm
    return f"{with_key} and a bucket key" if bucket_key else with_key


def _public_access(spec: Mapping[str, Any], bucket: Bucket) -> Part:
    given = spec.get("publicAccessBlock")
    if given is None:
        return None, {}
    current = bucket.get("public_access_block") or {}
    wanted = {theirs: bool(given.get(ours, True)) for ours, theirs in BLOCKS}
    differs = [ours for ours, theirs in BLOCKS if bool(current.get(theirs)) != wanted[theirs]]
    if not differs:
        return None, {}
    by_name = dict(BLOCKS)
    drift = BucketDrift(
        field="publicAccessBlock",
        expected=", ".join(f"{one} {'on' if wanted[by_name[one]] else 'off'}" for one in differs),
        actual=", ".join(f"{one} {'off' if wanted[by_name[one]] else 'on'}" for one in differs),
    )
    return drift, {"public_access_block": {**current, **wanted}}


def _rules(spec: Mapping[str, Any], bucket: Bucket) -> Part:
    wanted = wanted_rules(spec)
    differs = differing_rules(bucket.get("lifecycle_rules") or [], wanted)
    if not differs:
        return None, {}
    named = {str(given["id"]) for given in spec.get("lifecycleRules") or []}
    drift = BucketDrift(
        field="lifecycleRules",
        expected=", ".join(one for one in differs if one in named) or "no other rules",
        actual=f"others for {', '.join(differs)}",
    )
    return drift, {"lifecycle_rules": wanted, "sets_lifecycle": True}
