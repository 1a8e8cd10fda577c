#!/usr/bin/python
"""Set keys and conditions in the status of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.operator_sdk.util.plugins.module_utils import api
from ansible_collections.operator_sdk.util.plugins.module_utils.conditions import (
    OPTIONS,
    contains,
    merged,
    validated,
)

DOCUMENTATION = r"""
module: k8s_status
short_description: Update the status of a Kubernetes object
version_added: "0.0.1"
description:
  - Sets keys and conditions in the status of an object, through its status subresource.
  - Conditions are merged by their type with those that are there. The operator's own conditions stay.
options:
  api_version:
    description: The API version of the object.
    type: str
    default: v1
    aliases: [api, version]
  kind:
    description: The kind of the object.
    type: str
    required: true
  name:
    description: The name of the object.
    type: str
    required: true
  namespace:
    description: The namespace of the object.
    type: str
  status:
    description:
      - Keys to set in the status.
      - Conditions in it are merged too, but not checked as those in O(conditions) are.
    type: dict
  conditions:
    description: Conditions to set.
    type: list
    elements: dict
    suboptions:
      type:
        description: What the condition is about; it names the condition.
        type: str
        required: true
      status:
        description: Whether it is so.
        type: str
        required: true
        choices: ["True", "False", "Unknown"]
      reason:
        description: One CamelCase word.
        type: str
      message:
        description: A sentence for people.
        type: str
      lastHeartbeatTime:
        description: A time as in RFC 3339; a space may stand for the T.
        type: str
      lastTransitionTime:
        description: A time as in RFC 3339; a space may stand for the T.
        type: str
  replace:
    description: Replace the whole status instead of merging.
    type: bool
    default: false
    aliases: [force]
  replace_lists:
    description:
      - A list that is there, other than C(conditions), must be equal to the given one; else it is enough that it has
        all the given items.
    type: bool
    default: false
  kubeconfig:
    description: A kubeconfig as path or mapping. The runtime sets E(K8S_AUTH_KUBECONFIG).
    type: raw
  context:
    description: The context in the kubeconfig.
    type: str
  host:
    description: The URL of the API server.
    type: str
  api_key:
    description: A bearer token.
    type: str
  username:
    description: A name for basic authentication.
    type: str
  password:
    description: A password for basic authentication.
    type: str
  validate_certs:
    description: Whether the server's certificate is checked.
    type: bool
    aliases: [verify_ssl]
  ca_cert:
    description: The CA's certificate.
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description: A client certificate.
    type: path
    aliases: [cert_file]
  client_key:
    description: Its key.
    type: path
    aliases: [key_file]
  proxy:
    description: A proxy's URL.
    type: str
  persist_config:
    description: Whether a refreshed token is written back into the kubeconfig.
    type: bool
requirements:
  - kubernetes >= 24.2.0
author:
  - The ansible-operator-runner authors
"""

EXAMPLES = r"""
- name: Say where the service is
  operator_sdk.util.k8s_status:
    api_version: apps.example.com/v1alpha1
    kind: Memcached
    name: "{{ ansible_operator_meta.name }}"
    namespace: "{{ ansible_operator_meta.namespace }}"
    status:
      url: "http://{{ ansible_operator_meta.name }}:11211"
    conditions:
      - type: Ready
        status: "True"
        reason: AllPodsRunning
"""

RETURN = r"""
result:
  description: The object as it is now.
  returned: success
  type: dict
"""


ARGUMENTS = {
    "api_version": {"type": "str", "default": "v1", "aliases": ["api", "version"]},
    "kind": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str"},
    "status": {"type": "dict"},
    "conditions": {"type": "list", "elements": "dict", "options": OPTIONS},
    "replace": {"type": "bool", "default": False, "aliases": ["force"]},
    "replace_lists": {"type": "bool", "default": False},
    **api.AUTH_SPEC,
}


def wanted_status(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status that the arguments ask for; raise `Failure` where they are wrong or contradict each other."""
    status = dict(params.get("status") or {})
    try:
        conditions = validated(params.get("conditions") or [])
    except ValueError as error:
        raise api.Failure("The specified conditions failed to validate", error=str(error)) from error
    if conditions and status.get("conditions"):
        raise api.Failure("You cannot specify conditions in both the 'status' and 'conditions' parameters")
    return {**status, "conditions": conditions} if conditions else status


def next_status(current: dict[str, Any], wanted: dict[str, Any], *, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the status to write, or None where nothing would change."""
    if params.get("replace"):
        return None if current == wanted else wanted
    result = {**current, **wanted}
    if wanted.get("conditions") and isinstance(current.get("conditions"), list):
        result["conditions"] = merged(current["conditions"], wanted["conditions"])
    asked = {key: result[key] for key in wanted}
    return None if contains(current, asked, whole_lists=bool(params.get("replace_lists"))) else result


def update(client: Any, *, params: Mapping[str, Any], wanted: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the object's status to *wanted* and return the module's result."""
    resource = api.find_resource(client, kind=params["kind"], api_version=params["api_version"])
    if "status" not in (resource.subresources or {}):
        raise api.Failure(f"Resource {resource.api_version}.{resource.kind} does not support the status subresource")

    def attempt() -> dict[str, Any]:
        try:
            instance = resource.get(name=params["name"], namespace=params["namespace"]).to_dict()
        except api.DynamicApiError as error:
            raise api.Failure("Failed to retrieve requested object", error=api.answer(error)) from error
        status = next_status(instance.get("status") or {}, wanted, params=params)
        if status is None:
            return {"changed": False, "result": instance}
        if check_mode:
            return {"changed": True, "result": {**instance, "status": status}}
        return {
            "changed": True,
            "result": write(resource, instance=instance, status=status, wanted=wanted, params=params),
        }

    return api.repeat_on_conflict(attempt)


def write(
    resource: Any,
    *,
    instance: dict[str, Any],
    status: dict[str, Any],
    wanted: dict[str, Any],
    params: Mapping[str, Any],
) -> dict[str, Any]:
    """Write *status* and return the object.

    A patch carries the wanted keys only, so that others' keys can't be lost; the list of conditions is sent whole, so
    the patch holds for the version that was read.
    """
    if params["replace"]:
        return resource.status.replace(body={**instance, "status": status}).to_dict()
    body = {"metadata": {"name": params["name"]}, "status": dict(wanted)}
    if "conditions" in wanted:
        body["metadata"]["resourceVersion"] = instance["metadata"]["resourceVersion"]
        body["status"]["conditions"] = status["conditions"]
    return resource.status.patch(
        body=body,
        name=params["name"],
        namespace=params["namespace"],
        content_type="application/merge-patch+json",
    ).to_dict()


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        wanted = wanted_status(module.params)
        client = api.connect(module)
        result = update(client, params=module.params, wanted=wanted, check_mode=module.check_mode)
    except api.Failure as error:
        module.fail_json(msg=str(error), **error.details)
    except api.DynamicApiError as error:
        module.fail_json(msg=f"Failed to replace status: {api.sentence(error)}", error=api.answer(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
