#!/usr/bin/python
"""Write the scale subresource of one object, as it was read: somebody else's edit since then is never overwritten."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pool_scale
short_description: Scale one object that is as it was read
description:
  - Writes C(spec.replicas) of the scale subresource with the O(resource_version) that was read, under a field manager
    of its own. Where the object has changed since then the API server refuses, and nothing is written.
  - M(kubernetes.core.k8s_scale) compares before it writes, so that an edit in between is lost; it knows no custom
    resources without C(spec.replicas), and names no field manager.
  - What the API server refuses is no failure but RV(refusal), so that the caller can tell all of it.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  api_version:
    description: The API version of the object.
    type: str
    required: true
  kind:
    description: Its kind.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    required: true
  name:
    description: Its name.
    type: str
    required: true
  replicas:
    description: The number to write.
    type: int
    required: true
  resource_version:
    description: The object's C(metadata.resourceVersion), as it was read.
    type: str
    required: true
  field_manager:
    description: Who writes, for C(metadata.managedFields).
    type: str
    required: true
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
"""

EXAMPLES = r"""
- name: Raise the pool
  aws_operator.core.pool_scale:
    api_version: aws.ansible-operator.io/v1alpha1
    kind: NodePool
    namespace: default
    name: workers
    replicas: 2
    resource_version: "4711"
    field_manager: aws-autoscaler
"""

RETURN = r"""
refusal:
  description: C(reason) (such as Conflict, NotFound or Forbidden) and C(message) of the API server, else empty.
  returned: success
  type: dict
"""

import copy  # noqa: E402 - Ansible wants the documentation first
from typing import Any  # noqa: E402

from ansible_collections.aws_operator.core.plugins.module_utils.kube_calls import UNANSWERED, status_of  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.ansiblemodule import AnsibleModule  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException  # noqa: E402
from kubernetes.dynamic.exceptions import DynamicApiError  # noqa: E402

_SPEC = {
    "api_version": {"type": "str", "required": True},
    "kind": {"type": "str", "required": True},
    "namespace": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "replicas": {"type": "int", "required": True},
    "resource_version": {"type": "str", "required": True},
    "field_manager": {"type": "str", "required": True},
}


def scale(module: Any) -> dict[str, Any]:
    """Write, and return the module's result."""
    params = module.params
    resource = get_api_client(module=module).resource(params["kind"], params["api_version"])
    body = {
        "metadata": {"resourceVersion": params["resource_version"]},
        "spec": {"replicas": params["replicas"]},
    }
    try:
        resource.scale.patch(
            body=body,
            name=params["name"],
            namespace=params["namespace"],
            content_type="application/merge-patch+json",
            field_manager=params["field_manager"],
        )
    except DynamicApiError as error:
        status = status_of(error)
        return {"changed": False, "refusal": {name: status[name] for name in ("reason", "message")}}
    return {"changed": True, "refusal": {}}


def main() -> None:
    """Run the module."""
    module = AnsibleK8SModule(
        module_class=AnsibleModule,
        argument_spec={**copy.deepcopy(AUTH_ARG_SPEC), **_SPEC},
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True, refusal={})
    try:
        module.exit_json(**scale(module))
    except CoreException as error:
        module.fail_from_exception(error)
    except UNANSWERED as error:
        module.fail_json(msg=f"{module.params['name']} can't be scaled: {status_of(error)['message']}")


if __name__ == "__main__":
    main()
