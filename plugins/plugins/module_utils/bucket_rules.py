"""Lifecycle rules of a bucket: those of the spec as S3 wants them, and compared with what S3 has. Pure.

S3 keeps all rules of a bucket in one document. Ours are known by the beginning of their ids; others' stay in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import TAG_PREFIX

Rule = Mapping[str, Any]
_EXPIRATION = (("expirationDays", "Days"), ("expiredObjectDeleteMarker", "ExpiredObjectDeleteMarker"))
_OLD = (("noncurrentVersionExpirationDays", "NoncurrentDays"), ("newerNoncurrentVersions", "NewerNoncurrentVersions"))
_SIZES = (
    ("objectSizeGreaterThanBytes", "ObjectSizeGreaterThan"),
    ("objectSizeLessThanBytes", "ObjectSizeLessThan"),
)


def wanted_rules(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the spec's rules as S3 takes them."""
    return [_rule(given) for given in spec.get("lifecycleRules") or []]


def merged_rules(current: Sequence[Rule], ours: Sequence[Rule]) -> list[Rule]:
    """Return all rules to write: others' as they are, then ours."""
    return [*(rule for rule in current if not is_ours(rule)), *ours]


def is_ours(rule: Rule) -> bool:
    """Return whether the operator made the rule."""
    return str(rule.get("ID") or "").startswith(TAG_PREFIX)


def differing_rules(current: Sequence[Rule], ours: Sequence[Rule]) -> list[str]:
    """Return the ids, as the spec has them, of rules that are missing, changed or too many."""
    theirs = {str(rule["ID"]): canonical(rule) for rule in current if is_ours(rule)}
    mine = {str(rule["ID"]): canonical(rule) for rule in ours}
    found = sorted(one for one in {*theirs, *mine} if theirs.get(one) != mine.get(one))
    return [one.removeprefix(TAG_PREFIX) for one in found]


def canonical(rule: Rule) -> dict[str, Any]:
    """Return a rule so that equal ones are equal: S3 writes one filter in several ways."""
    rest = {
        key: value for key, value in rule.items() if key not in {"Prefix", "Filter"} and value not in (None, [], {})
    }
    for key in ("Transitions", "NoncurrentVersionTransitions"):
        if key in rest:
            rest[key] = sorted(({**one} for one in rest[key]), key=_moment)
    return {**rest, "Filter": _conditions(rule)}


def _rule(given: Mapping[str, Any]) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "ID": f"{TAG_PREFIX}{given['id']}",
        "Status": "Enabled" if given.get("enabled", True) else "Disabled",
        "Filter": _filter(given),
        "Expiration": _named(given, _EXPIRATION),
        "NoncurrentVersionExpiration": _named(given, _OLD),
        "Transitions": [
            {"Days": one["days"], "StorageClass": one["storageClass"]} for one in given.get("transitions") or []
        ],
        "NoncurrentVersionTransitions": [
            {"NoncurrentDays": one["days"], "StorageClass": one["storageClass"]}
            for one in given.get("noncurrentVersionTransitions") or []
        ],
    }
    days = given.get("abortIncompleteMultipartUploadDays")
    rule["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": days} if days else {}
    return {key: value for key, value in rule.items() if value or key == "Filter"}


def _named(given: Mapping[str, Any], names: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {theirs: given[ours] for ours, theirs in names if given.get(ours) is not None}


def _filter(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filter in the form that S3 asks for: one condition as it is, several below `And`."""
    tags = [{"Key": key, "Value": str(value)} for key, value in sorted((given.get("tags") or {}).items())]
    sizes = _named(given, _SIZES)
    prefix = given.get("prefix") or ""
    if not tags and not sizes:
        return {"Prefix": prefix}
    if len(tags) + len(sizes) == 1 and not prefix:
        return sizes or {"Tag": tags[0]}
    return {"And": {**({"Prefix": prefix} if prefix else {}), **({"Tags": tags} if tags else {}), **sizes}}


def _conditions(rule: Rule) -> dict[str, Any]:
    given = rule.get("Filter") or {"Prefix": rule.get("Prefix")}
    inner = given.get("And") or given
    tags = [*(inner.get("Tags") or []), *([inner["Tag"]] if inner.get("Tag") else [])]
    sizes = {theirs: int(inner[theirs]) for _ours, theirs in _SIZES if inner.get(theirs) is not None}
    return {"Prefix": inner.get("Prefix") or "", "Tags": {tag["Key"]: tag["Value"] for tag in tags}, **sizes}


def _moment(one: Mapping[str, Any]) -> tuple[int, str]:
    return int(one.get("Days") or one.get("NoncurrentDays") or 0), str(one.get("StorageClass") or "")
