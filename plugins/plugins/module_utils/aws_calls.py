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
    except (ClientError, BotoCoreError) as error:
        module.fail_json(**refused(error))
    raise AssertionError("fail_json ends the process")


def known(module: Any, method: Callable[..., dict[str, Any]], *absent: str, **request: Any) -> dict[str, Any] | None:
    """Return AWS's answer, None where it answers with one of the codes *absent*: there is no such thing."""

    def ask(**given: Any) -> dict[str, Any]:
        try:
            return {"answer": method(**given)}
        except ClientError as error:
            if (error.response.get("Error") or {}).get("Code") in absent:
                return {}
            raise

    return call(module, ask, **request).get("answer")


def refused(error: Exception) -> dict[str, str]:
    """Return what AWS answered, or the library where AWS didn't: `error_code`, `request_id` and `message`."""
    answer = getattr(error, "response", None)
    if answer is None:
        return _failure({"Code": type(error).__name__, "Message": str(error)}, {})
    return _failure(answer.get("Error") or {}, answer.get("ResponseMetadata") or {})


def described(answered: dict[str, Any]) -> dict[str, Any]:
    """Return one thing of AWS's answer with snake-cased keys, and its tags as a mapping."""
    thing: dict[str, Any] = camel_dict_to_snake_dict(answered, ignore_list=["Tags"])
    return {**thing, "tags": {tag["Key"]: tag["Value"] for tag in answered.get("Tags") or []}}


def set_tags(module: Any, client: Any, *, resource: str) -> bool:
    """Set the EC2 tags of the option `tags`, and take away those of `remove_tags` that still have their value."""
    sent = False
    for option, method in (("tags", client.create_tags), ("remove_tags", client.delete_tags)):
        tags = [{"Key": key, "Value": str(value)} for key, value in sorted(module.params[option].items())]
        if tags:
            call(module, method, Resources=[resource], Tags=tags)
            sent = True
    return sent


def boto3_filters(filters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return EC2's *filters* as AWS wants them; each has a value or a list of values."""
    values = {name: value if isinstance(value, list) else [value] for name, value in filters.items()}
    return [{"Name": name, "Values": [str(item) for item in items]} for name, items in values.items()]


def is_boundless(filters: list[dict[str, Any]]) -> bool:
    """Return whether there is no filter, or one without anything to look for."""
    return not filters or not all(one["Values"] and all(one["Values"]) for one in filters)


def _failure(error: dict[str, Any], metadata: dict[str, Any]) -> dict[str, str]:
    code, message = str(error.get("Code") or "Unknown"), str(error.get("Message") or "")
    request_id = str(metadata.get("RequestId") or "")
    text = f"{code}: {message} (request id {request_id or 'unknown'})"
    return {"msg": text, "error_code": code, "request_id": request_id, "message": message}
