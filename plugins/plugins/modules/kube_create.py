#!/usr/bin/python
"""Create objects by plain POSTs; one that is there already is done, and is never changed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_create
short_description: Create objects, and leave those alone that are there
description:
  - Sends one POST for each object. M(kubernetes.core.k8s) would look first and change what is there.
  - An object of that name with the same owners counts as created before. One of somebody else's is reported in
    RV(taken).
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  objects:
    description: The objects, whole, with their names and namespaces.
    type: list
    elements: dict
    required: true
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
requirements:
  - kubernetes >= 24.2.0
"""

EXAMPLES = r"""
- name: Create a ConfigMap
  aws_operator.core.kube_create:
    objects:
      - apiVersion: v1
        kind: ConfigMap
        metadata:
          name: web
          namespace: prod
"""

RETURN = r"""
created:
  description: Names of the objects that were created.
  returned: always
  type: list
  elements: str
existed:
  description: Names of those that were there, with the same owners.
  returned: always
  type: list
  elements: str
taken:
  description: Names that objects of others have.
  returned: always
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping  # noqa: E402 - Ansible wants the documentation first
from typing import Any  # noqa: E402

from ansible_collections.aws_operator.core.plugins.module_utils.kube_calls import UNANSWERED, created, status_of  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.ansiblemodule import AnsibleModule  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException  # noqa: E402


def argument_spec() -> dict[str, Any]:
    """Return the module's arguments."""
    return {**AUTH_ARG_SPEC, "objects": {"type": "list", "elements": "dict", "required": True}}


def create_one(client: Any, obj: Mapping[str, Any]) -> str:
    """Create *obj*; see `created`."""
    resource = client.resource(obj["kind"], obj["apiVersion"])
    meta = obj["metadata"]

    def read() -> Mapping[str, Any]:
        found: Mapping[str, Any] = client.get(resource, name=meta["name"], namespace=meta.get("namespace")).to_dict()
        return found

    create: Callable[[], Any] = lambda: client.create(resource, dict(obj), namespace=meta.get("namespace"))  # noqa: E731
    return str(created(obj, create=create, read=read))


def main() -> None:
    """Run the module."""
    module = AnsibleK8SModule(module_class=AnsibleModule, argument_spec=argument_spec(), supports_check_mode=False)
    done: dict[str, list[str]] = {"created": [], "existed": [], "taken": []}
    name = ""
    try:
        client = get_api_client(module)
        for obj in module.params["objects"]:
            name = f"{obj['kind']} {obj['metadata']['name']}"
            done[create_one(client, obj)].append(obj["metadata"]["name"])
    except CoreException as error:
        module.fail_json(msg=str(error), changed=bool(done["created"]), **done)
    except UNANSWERED as error:
        message = f"{name} can't be created: {status_of(error)['message']}"
        module.fail_json(msg=message, changed=bool(done["created"]), **done)
    module.exit_json(changed=bool(done["created"]), **done)


if __name__ == "__main__":
    main()
