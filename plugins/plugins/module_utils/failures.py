"""A failed task's result as a condition's reason and message, with AWS's error code and request id. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LIMIT = 1024
_OWN = re.compile(r"([A-Z][A-Za-z]+): (.+)", re.DOTALL)
# What may pass by itself within minutes; everything else needs a person or a changed spec.
CAPACITY_CODES = ("InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity")

_CREDENTIALS = "check the secret of spec.credentialsSecretRef, or the operator's own credentials where none is named"
_RIGHTS = "the credentials lack this right: grant it, or give others"
_REMEDIES = {
    "AccessDenied": _RIGHTS,
    "AuthFailure": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "InvalidAMIID.Malformed": "correct spec.imageId",
    "InvalidAMIID.NotFound": "correct spec.imageId or spec.region: an image belongs to one region",
    "InvalidAccessKeyId": _CREDENTIALS,
    "InvalidClientTokenId": _CREDENTIALS,
    "InvalidGroup.NotFound": "correct the security groups of the spec",
    "InvalidKeyPair.NotFound": "correct spec.keyName or spec.region: a key pair belongs to one region",
    "InvalidSubnetID.NotFound": "correct the subnet of the spec, or spec.region",
    "SignatureDoesNotMatch": _CREDENTIALS,
    "UnauthorizedOperation": _RIGHTS,
    "VcpuLimitExceeded": "ask AWS for a higher quota, choose a smaller instance type, or end other instances",
}
"""What a person can do about AWS's codes, https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html"""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a run ended early."""

    reason: str
    """CamelCase: AWS's code without its dots, or the word that our own message starts with."""
    message: str
    error_code: str = ""
    request_id: str = ""

    @property
    def lacks_capacity(self) -> bool:
        """Return whether AWS has no such machine free at the moment."""
        return self.error_code in CAPACITY_CODES


def failure_of(result: Mapping[str, Any]) -> Failure:
    """Read a failed result: of our modules, of `amazon.aws` modules, or of `fail` with `Reason: message`.

    Of a loop, that of the first item that failed.
    """
    failed_items = [item for item in result.get("results") or [] if item.get("failed")]
    if failed_items:
        return failure_of(failed_items[0])
    error = result.get("error") or {}
    code = str(result.get("error_code") or error.get("code") or "")
    request_id = str(result.get("request_id") or (result.get("response_metadata") or {}).get("request_id") or "")
    text = str(result.get("message") or error.get("message") or result.get("msg") or "the task gave no message")
    if code:
        message = f"AWS answered {code}: {_cut(text)} (request id {request_id or 'unknown'})"
        message += f"; {_REMEDIES[code]}" if code in _REMEDIES else ""
        return Failure(reason=_camel_case(code), message=message, error_code=code, request_id=request_id)
    own = _OWN.fullmatch(text)
    if own:
        return Failure(reason=own.group(1), message=_cut(own.group(2)))
    return Failure(reason="ReconcileFailed", message=_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _LIMIT else f"{text[:_LIMIT]}… (cut)"


def _camel_case(code: str) -> str:
    return re.sub(r"[^A-Za-z]", "", code) or "AWSError"
