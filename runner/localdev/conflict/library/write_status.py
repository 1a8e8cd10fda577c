#!/usr/bin/python
"""Writes a status where the object is still as it was read; what happens after a conflict is the caller's choice."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from kubernetes import client, config

DOCUMENTATION = r"""
module: write_status
short_description: Write a status with a resource version
description:
  - Puts a status onto an object of the resource version that was read before. The API server answers 409 where the
    object was changed since.
options:
  api_version:
    description: Group and version.
    type: str
    required: true
  plural:
    description: The name of the kind in URLs.
    type: str
    required: true
  name:
    description: The object's name.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    required: true
  resource_version:
    description: The one that was read.
    type: str
    required: true
  status:
    description: The whole status.
    type: dict
    required: true
  on_conflict:
    description: Whether a conflict ends the task, or the object is read again and written once more.
    type: str
    choices: [fail, write_again]
    required: true
"""

_CONFLICT = 409
_TRIES = 20


def _write(api: Any, *, where: dict[str, str], version: str, status: dict[str, Any]) -> str:
    """Write the status; return what the API server said of a conflict, empty where there was none."""
    body = {"metadata": {"resourceVersion": version}, "status": status}
    try:
        api.patch_namespaced_custom_object_status(body=body, **where)
    except client.ApiException as error:
        if error.status != _CONFLICT:
            raise
        return f"HTTP 409: {error.body}"
    return ""


def main() -> None:
    """Run the module."""
    kinds: dict[str, Any] = {name: {"type": "str", "required": True} for name in ("api_version", "plural", "name")}
    kinds |= {name: {"type": "str", "required": True} for name in ("namespace", "resource_version")}
    kinds |= {"status": {"type": "dict", "required": True}}
    kinds |= {"on_conflict": {"type": "str", "required": True, "choices": ["fail", "write_again"]}}
    module = AnsibleModule(argument_spec=kinds)
    given = module.params
    # ansible-core 2.18 gives texts where a template makes numbers
    status = {key: int(value) if key != "phase" else value for key, value in given["status"].items()}
    config.load_kube_config()
    api = client.CustomObjectsApi()
    group, _, version = given["api_version"].partition("/")
    where = {"group": group, "version": version, **{key: given[key] for key in ("plural", "name", "namespace")}}
    first = said = _write(api, where=where, version=given["resource_version"], status=status)
    for _ in range(_TRIES):
        if not said or given["on_conflict"] == "fail":
            break
        live = api.get_namespaced_custom_object(**where)
        said = _write(api, where=where, version=live["metadata"]["resourceVersion"], status=status)
    module.exit_json(changed=not said, rc=1 if said else 0, msg=said or "written", conflict=first)


if __name__ == "__main__":
    main()
