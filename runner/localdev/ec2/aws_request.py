"""What an HTTP request asks of AWS: service, region, action and parameters, whatever the service's protocol.

The first step of the middleware; the call log, the faults and the client tokens work on its result.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from runner.localdev.ec2.s3_actions import s3_action

_SCOPE = re.compile(r"Credential=[^/]+/\d+/(?P<region>[^/]*)/(?P<service>[^/]+)/aws4_request")
_READ = re.compile(
    r"^(Describe|Get|List|Head|Search|Lookup|Simulate|Validate|Test|BatchGet|Check|Preview|Decode|AssumeRole)"
    r"|^(GET|HEAD) "
)
_SECRET = re.compile(
    r"(password|secret|privatekey|sessiontoken|webidentitytoken|samlassertion|signature)", re.IGNORECASE
)
_NO_SECRETS = frozenset({"Action", "Version"})
HIDDEN = "[hidden]"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of the AWS API."""

    service: str
    """The signing name: `ec2`, `iam`, `s3`, ...; empty where the request tells none."""
    region: str
    action: str
    params: Mapping[str, Any]
    """As sent, secrets included: flat keys (`InstanceId.1`) for the query protocols, JSON's own for the others."""

    @property
    def dry_run(self) -> bool:
        """Tell whether only the permission is asked for."""
        return str(self.params.get("DryRun", "")).lower() == "true"

    @property
    def write(self) -> bool:
        """Tell whether the call is meant to change something."""
        return not self.dry_run and not _READ.match(self.action)

    def shown_params(self) -> dict[str, Any]:
        """Return the parameters without secrets; of user data only length and digest."""
        attribute_is_user_data = self.params.get("Attribute") == "userData"
        shown: dict[str, Any] = {}
        for key, value in self.params.items():
            if key in _NO_SECRETS:
                continue
            if "UserData" in key or (attribute_is_user_data and key.startswith("Value")):
                shown[key] = _digest(str(value))
            else:
                shown[key] = self._shown(key, value)
        return shown

    def _shown(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._shown(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._shown(key, inner) for inner in value]
        secret = _SECRET.search(key) or (self.action == "PutParameter" and key == "Value")
        return HIDDEN if secret else value


def _digest(encoded: str) -> dict[str, Any]:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        data = encoded.encode()
    return {"length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def parse_call(environ: Mapping[str, Any], body: bytes) -> Call:
    """Return the call that a WSGI request with *body* makes."""
    query = dict(parse_qsl(str(environ.get("QUERY_STRING", "")), keep_blank_values=True))
    match = _SCOPE.search(str(environ.get("HTTP_AUTHORIZATION", ""))) or _SCOPE.search(
        "Credential=" + query.get("X-Amz-Credential", "")
    )
    service, region = (match["service"], match["region"]) if match else ("", "")
    action, params = _action_and_params(environ, service=service, query=query, body=body)
    if not service and action.startswith("AssumeRoleWith"):
        service = "sts"  # the calls that nobody can sign yet
    return Call(service=service, region=region, action=action, params=params)


def _action_and_params(
    environ: Mapping[str, Any], *, service: str, query: dict[str, str], body: bytes
) -> tuple[str, dict[str, Any]]:
    method, path = str(environ.get("REQUEST_METHOD", "GET")), str(environ.get("PATH_INFO", "/"))
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    content_type = str(environ.get("CONTENT_TYPE", ""))
    if target:
        return target.rpartition(".")[2], _json_object(body)
    if content_type.startswith("application/x-www-form-urlencoded"):
        query |= dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    if "Action" in query:
        return query["Action"], query
    visible = {key: value for key, value in query.items() if not key.startswith("X-Amz-")}
    if service == "s3" or not service:
        return s3_action(method, path, query=visible), {"path": path, **visible}
    return f"{method} {path}", {**visible, **_json_object(body)}


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
