#!/usr/bin/python
"""Read objects of one kind, all or one; an answer that doesn't tell what there is fails."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_list
short_description: Read objects, and fail where nobody knows what there is
description:
  - Lists the objects of one kind, or looks one up by its name. M(kubernetes.core.k8s_info) returns an empty list as
    well where the API server answers 404 or serves no such kind, as one does that starts; who acts on what is missing
    would then make or end things.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  api_version:
    description: Group and version.
    type: str
    default: v1
  kind:
    description: The kind.
    type: str
    required: true
  namespace:
    description: The namespace; all of them where left out.
    type: str
  name:
    description: Name of the one object to look up; a kind with namespaces needs O(namespace) too.
    type: str
  field_selectors:
    description: Which objects to list.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
requirements:
  - kubernetes >= 24.2.0
"""

EXAMPLES = r"""
- name: List the pods of a node
  aws_operator.core.kube_list:
    kind: Pod
    field_selectors:
      - spec.nodeName=n1
"""

RETURN = r"""
resources:
  description: The objects.
  returned: always
  type: list
  elements: dict
"""

from typing import Any  # noqa: E402 - Ansible wants the documentation first

from ansible_collections.aws_operator.core.plugins.module_utils.kube_calls import (  # noqa: E402
    UNANSWERED,
    UnreadError,
    listed,
    looked_up,
    status_of,
)
from ansible_collections.kubernetes.core.plugins.module_utils.ansiblemodule import AnsibleModule  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException  # noqa: E402
from kubernetes.dynamic.exceptions import ResourceNotFoundError, ResourceNotUniqueError  # noqa: E402


def argument_spec() -> dict[str, Any]:
    """Return the module's arguments."""
    return {
        **AUTH_ARG_SPEC,
        "api_version": {"type": "str", "default": "v1"},
        "kind": {"type": "str", "required": True},
        "namespace": {"type": "str"},
        "name": {"type": "str"},
        "field_selectors": {"type": "list", "elements": "str", "default": []},
    }


def read(client: Any, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what there is; see `listed` and `looked_up`."""
    try:
        resource = client.resource(wanted["kind"], wanted["api_version"])
    except (ResourceNotFoundError, ResourceNotUniqueError) as error:
        raise UnreadError(f"the API server serves no {wanted['kind']} of {wanted['api_version']}") from error
    parts = {
        "namespace": wanted["namespace"],
        "name": wanted["name"],
        "field_selector": ",".join(wanted["field_selectors"]),
    }
    query = {key: value for key, value in parts.items() if value}

    def ask() -> bytes:
        body: bytes = client.get(resource, serialize=False, **query).data
        return body

    name, kind = wanted["name"], wanted["kind"]
    found: list[dict[str, Any]] = looked_up(name, ask) if name else listed(kind, ask)
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleK8SModule(module_class=AnsibleModule, argument_spec=argument_spec(), supports_check_mode=True)
    kind, name = module.params["kind"], module.params["name"]
    what = f"{kind} {name}" if name else f"the list of {kind}"
    try:
        found = read(get_api_client(module), module.params)
    except UnreadError as error:
        hint = "nothing is done, as the API server may be starting"
        module.fail_json(msg=f"ReadFailed: {what} can't be read: {error}; {hint}")
    except CoreException as error:
        module.fail_json(msg=f"ReadFailed: {what} can't be read: {error}")
    except UNANSWERED as error:
        module.fail_json(msg=f"ReadFailed: {what} can't be read: {status_of(error)['message']}")
    module.exit_json(changed=False, resources=found)


if __name__ == "__main__":
    main()
