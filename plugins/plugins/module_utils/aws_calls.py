"""One AWS call of our modules: its error becomes a structured failure, with code and request id. Never retried here.

botocore repeats a call that met a closed connection or a 5xx a few times, with the same client token; everything after
that is the runtime's back-off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.module_utils.common.dict_transformations import camel_dict_to_snake_dict

try:
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:  # AnsibleAWSModule reports the missing library
    BotoCoreError = ClientError = OSError


def call(module: Any, method: Callable[..., dict[str, Any]], **request: Any) -> dict[str, Any]:
    """Return AWS's answer, or end the module with `error_code`, `request_id` and `message`."""
    try:
        return method(**request)
    except ClientError as error:
        answer = error.response
        module.fail_json(**_failure(answer.get("Error") or {}, answer.get("ResponseMetadata") or {}))
    except BotoCoreError as error:
        module.fail_json(**_failure({"Code": type(error).__name__, "Message": str(error)}, {}))
    raise AssertionError("fail_json ends the process")


def instance_of(answered: dict[str, Any]) -> dict[str, Any]:
    """Return one instance of AWS's answer with snake-cased keys, and its tags as a mapping."""
    instance: dict[str, Any] = camel_dict_to_snake_dict(answered, ignore_list=["Tags"])
    return {**instance, "tags": {tag["Key"]: tag["Value"] for tag in answered.get("Tags") or []}}


def _failure(error: dict[str, Any], metadata: dict[str, Any]) -> dict[str, str]:
    code, message = str(error.get("Code") or "Unknown"), str(error.get("Message") or "")
    request_id = str(metadata.get("RequestId") or "")
    text = f"{code}: {message} (request id {request_id or 'unknown'})"
    return {"msg": text, "error_code": code, "request_id": request_id, "message": message}
