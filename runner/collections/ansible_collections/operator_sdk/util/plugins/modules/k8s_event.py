#!/usr/bin/python
"""Create a core/v1 Event about an object, or count up the one that is there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.operator_sdk.util.plugins.module_utils import api

DOCUMENTATION = r"""
module: k8s_event
short_description: Create Kubernetes Events
version_added: "0.1.0"
description:
  - Creates a core/v1 Event. One of the same name and reason is counted up.
options:
  state:
    description: With C(absent) the Event of this name is deleted.
    type: str
    choices: [present, absent]
    default: present
  name:
    description: The name of the Event.
    type: str
    required: true
  namespace:
    description: The namespace of the Event, which must be that of the object that it is about.
    type: str
    required: true
  merge_type:
    description: Accepted for compatibility. Events are always merged.
    type: list
    elements: str
    choices: [json, merge, strategic-merge]
  message:
    description: What happened, for people.
    type: str
    required: true
  reason:
    description: What happened, as one CamelCase word.
    type: str
    required: true
  reportingComponent:
    description: The name of the controller that reports.
    type: str
  type:
    description: The type of the Event.
    type: str
    choices: [Normal, Warning]
  source:
    description: Who reports.
    type: dict
    suboptions:
      component:
        description: The name of the reporting component.
        type: str
        required: true
      host:
        description: The node that it runs on.
        type: str
  involvedObject:
    description: The object that the Event is about.
    type: dict
    suboptions:
      apiVersion:
        description: Its API version.
        type: str
        required: true
      kind:
        description: Its kind.
        type: str
        required: true
      name:
        description: Its name.
        type: str
        required: true
      namespace:
        description: Its namespace, if it has one.
        type: str
  appendTimestamp:
    description: Make the name unique by the time, so that each call creates an Event.
    type: bool
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
- name: Tell about the migration
  operator_sdk.util.k8s_event:
    name: "{{ ansible_operator_meta.name }}-migration"
    namespace: "{{ ansible_operator_meta.namespace }}"
    message: The data was moved
    reason: Migrated
    type: Normal
    involvedObject:
      apiVersion: apps.example.com/v1alpha1
      kind: Memcached
      name: "{{ ansible_operator_meta.name }}"
      namespace: "{{ ansible_operator_meta.namespace }}"
"""

RETURN = r"""
result:
  description: The Event as it is now.
  returned: success
  type: dict
"""


ARGUMENTS = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "required": True},
    "merge_type": {"type": "list", "elements": "str", "choices": ["json", "merge", "strategic-merge"]},
    "message": {"type": "str", "required": True},
    "reason": {"type": "str", "required": True},
    "reportingComponent": {"type": "str"},
    "type": {"type": "str", "choices": ["Normal", "Warning"]},
    "source": {"type": "dict", "options": {"component": {"type": "str", "required": True}, "host": {"type": "str"}}},
    "involvedObject": {
        "type": "dict",
        "options": {
            "apiVersion": {"type": "str", "required": True},
            "kind": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str"},
        },
    },
    "appendTimestamp": {"type": "bool"},
    **api.AUTH_SPEC,
}


def event_body(
    params: Mapping[str, Any], *, name: str, involved: dict[str, Any], prior: dict[str, Any] | None, now: str
) -> dict[str, Any]:
    """Return the Event to write; *prior* is the one of its name that is there, or None."""
    again = prior is not None and prior.get("reason") == params["reason"]
    source = {key: value for key, value in (params.get("source") or {}).items() if value is not None}
    optional = {"reportingComponent": params.get("reportingComponent"), "source": source}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": params["namespace"]},
        "message": params["message"],
        "reason": params["reason"],
        "type": params.get("type") or "Normal",
        "involvedObject": involved,
        "count": (prior.get("count") or 1) + 1 if again else 1,
        "firstTimestamp": prior.get("firstTimestamp") or now if again else now,
        "lastTimestamp": now,
        **{key: value for key, value in optional.items() if value},
    }


def event_name(params: Mapping[str, Any]) -> str:
    """Return the Event's name; with a time stamp it ends as those of other controllers do."""
    return f"{params['name']}.{time.time_ns():x}" if params.get("appendTimestamp") else params["name"]


def involved_object(client: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference to the object that the Event is about, with its UID where it can be read."""
    given = params.get("involvedObject")
    if not given:
        return {"namespace": params["namespace"]}
    reference = {key: value for key, value in given.items() if value is not None}
    try:
        resource = api.find_resource(client, kind=given["kind"], api_version=given["apiVersion"])
        found = resource.get(name=given["name"], namespace=given.get("namespace"))
    except (api.Failure, api.DynamicApiError):
        return reference  # an Event about something that is gone, or that the operator may not read, is still one
    return {**reference, "uid": found.metadata.uid, "resourceVersion": found.metadata.resourceVersion}


def read(events: Any, params: Mapping[str, Any], *, name: str) -> dict[str, Any] | None:
    """Return the Event *name*, or None."""
    try:
        return events.get(name=name, namespace=params["namespace"]).to_dict()
    except api.NotFoundError:
        return None


def present(client: Any, events: Any, *, params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Create the Event or count it up."""
    name = event_name(params)
    involved = involved_object(client, params)

    def attempt() -> dict[str, Any]:
        prior = read(events, params, name=name)
        now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = event_body(params, name=name, involved=involved, prior=prior, now=now)
        if check_mode:
            return body
        if prior is None:
            return events.create(body=body, namespace=params["namespace"]).to_dict()
        body["metadata"]["resourceVersion"] = prior["metadata"]["resourceVersion"]
        return events.patch(
            body=body, name=name, namespace=params["namespace"], content_type="application/merge-patch+json"
        ).to_dict()

    return {"changed": True, "result": api.repeat_on_conflict(attempt)}


def absent(events: Any, *, params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Delete the Event."""
    prior = read(events, params, name=params["name"])
    if prior is not None and not check_mode:
        events.delete(name=params["name"], namespace=params["namespace"])
    return {"changed": prior is not None, "result": prior or {}}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        client = api.connect(module)
        events = api.find_resource(client, kind="Event", api_version="v1")
        if module.params["state"] == "absent":
            result = absent(events, params=module.params, check_mode=module.check_mode)
        else:
            result = present(client, events, params=module.params, check_mode=module.check_mode)
    except api.Failure as error:
        module.fail_json(msg=str(error), **error.details)
    except api.DynamicApiError as error:
        module.fail_json(msg=f"Unable to create event: {api.sentence(error)}", error=api.answer(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
