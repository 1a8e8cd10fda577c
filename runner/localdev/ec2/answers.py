"""Error answers in the form that each AWS protocol gives them, so that botocore reads our codes like AWS's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from xml.sax.saxutils import escape

REQUEST_ID = "00000000-0000-4000-8000-000000000000"

# What AWS answers with; every other code is the caller's fault.
_STATUS = {
    "RequestLimitExceeded": 503,
    "Unavailable": 503,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "InternalError": 500,
    "InternalFailure": 500,
    "InsufficientInstanceCapacity": 500,
    "InsufficientCapacity": 500,
    "InsufficientHostCapacity": 500,
    "UnauthorizedOperation": 403,
    "AccessDenied": 403,
    "InvalidAccessKeyId": 403,
    "SignatureDoesNotMatch": 403,
    "NoSuchBucket": 404,
    "BucketAlreadyExists": 409,
    "BucketAlreadyOwnedByYou": 409,
    "BucketNotEmpty": 409,
    "OperationAborted": 409,
    "DryRunOperation": 412,
}


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An error that a caller of the AWS API gets."""

    code: str
    message: str = ""
    status: int = 0
    """0: what AWS uses for this code."""

    @property
    def http_status(self) -> int:
        """Return the HTTP status that goes with it."""
        return self.status or _STATUS.get(self.code, 400)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An HTTP answer, whole."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


def error_answer(refusal: Refusal, *, service: str) -> Answer:
    """Return *refusal* in the wire form of *service*."""
    code, message = refusal.code, refusal.message or refusal.code
    content_type = "text/xml;charset=UTF-8"
    if service == "ec2":
        body = (
            f"<Response><Errors><Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error></Errors>"
            f"<RequestID>{REQUEST_ID}</RequestID></Response>"
        )
    elif service in {"iam", "sts", "autoscaling", "elasticloadbalancing", "cloudformation", "sns", "rds"}:
        kind = "Sender" if refusal.http_status < 500 else "Receiver"
        body = (
            f"<ErrorResponse><Error><Type>{kind}</Type><Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
            f"</Error><RequestId>{REQUEST_ID}</RequestId></ErrorResponse>"
        )
    elif service == "s3":
        body = (
            f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
            f"<RequestId>{REQUEST_ID}</RequestId></Error>"
        )
    else:
        content_type = "application/x-amz-json-1.1"
        body = json.dumps({"__type": code, "message": message})
    data = body.encode()
    headers = (("Content-Type", content_type), ("Content-Length", str(len(data))), ("x-amzn-RequestId", REQUEST_ID))
    return Answer(status=refusal.http_status, headers=headers, body=data)


def json_answer(value: object, *, status: int = 200) -> Answer:
    """Return *value* as JSON: an answer of the control API."""
    data = json.dumps(value).encode()
    headers = (("Content-Type", "application/json"), ("Content-Length", str(len(data))))
    return Answer(status=status, headers=headers, body=data)
