#!/usr/bin/python
"""Evict pods by their UIDs; what is refused, by a disruption budget or for good, is reported, and is no failure."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_evict
short_description: Evict pods, each known by its UID, without waiting
description:
  - Sends one Eviction for each pod, which a pod of another UID isn't met by. M(kubernetes.core.k8s_drain) fails where a
    disruption budget refuses, waits within the play, and picks the pods itself.
  - Never waits for a pod to go, and never tries again; the caller comes back.
  - Fails only where the API server doesn't answer, or knows nobody; one pod's refusal keeps no other one from going.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  pods:
    description: The pods.
    type: list
    elements: dict
    required: true
    suboptions:
      namespace:
        description: The pod's namespace.
        type: str
        required: true
      name:
        description: The pod's name.
        type: str
        required: true
      uid:
        description: The pod's UID.
        type: str
        required: true
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
requirements:
  - kubernetes >= 24.2.0
"""

EXAMPLES = r"""
- name: Evict a pod
  aws_operator.core.kube_evict:
    pods:
      - namespace: prod
        name: web-0
        uid: 0b9d5c9e-4c57-4f0e-8f43-3a5f5f0b7a01
"""

RETURN = r"""
evicted:
  description: Pods whose eviction was taken, as C(namespace/name).
  returned: always
  type: list
  elements: str
gone:
  description: Pods that aren't there any more.
  returned: always
  type: list
  elements: str
blocked:
  description: Pods that a disruption budget protects, with the API server's C(message).
  returned: always
  type: list
  elements: dict
refused:
  description: Pods whose eviction is refused for good, for missing rights or by an admission, with the C(message).
  returned: always
  type: list
  elements: dict
"""

from collections.abc import Sequence  # noqa: E402 - Ansible wants the documentation first
from typing import Any  # noqa: E402

from ansible_collections.aws_operator.core.plugins.module_utils.kube_calls import (  # noqa: E402
    FAILED,
    UNANSWERED,
    evicted,
    status_of,
)
from ansible_collections.kubernetes.core.plugins.module_utils.ansiblemodule import AnsibleModule  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule  # noqa: E402
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException  # noqa: E402
from kubernetes.client import (  # noqa: E402
    CoreV1Api,
    V1DeleteOptions,
    V1Eviction,
    V1ObjectMeta,
    V1Preconditions,
)


def argument_spec() -> dict[str, Any]:
    """Return the module's arguments."""
    text = {"type": "str", "required": True}
    pod = {"namespace": text, "name": text, "uid": text}
    return {**AUTH_ARG_SPEC, "pods": {"type": "list", "elements": "dict", "required": True, "options": pod}}


def evict_one(api: Any, pod: dict[str, str]) -> tuple[str, str]:
    """Evict one pod; see `evicted`."""
    body = V1Eviction(
        metadata=V1ObjectMeta(name=pod["name"], namespace=pod["namespace"]),
        delete_options=V1DeleteOptions(preconditions=V1Preconditions(uid=pod["uid"])),
    )
    found: tuple[str, str] = evicted(
        lambda: api.create_namespaced_pod_eviction(name=pod["name"], namespace=pod["namespace"], body=body)
    )
    return found


def result_of(answers: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """Return what the module tells of pods, verdicts and messages."""

    def told(wanted: str) -> list[dict[str, str]]:
        return [{"pod": pod, "message": message} for pod, verdict, message in answers if verdict == wanted]

    return {
        "evicted": [item["pod"] for item in told("evicted")],
        "gone": [item["pod"] for item in told("gone")],
        "blocked": told("blocked"),
        "refused": told(FAILED),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleK8SModule(module_class=AnsibleModule, argument_spec=argument_spec(), supports_check_mode=False)
    answers: list[tuple[str, str, str]] = []
    name = "pods"
    try:
        api = CoreV1Api(get_api_client(module).client.client)
        for pod in module.params["pods"]:
            name = f"{pod['namespace']}/{pod['name']}"
            answers.append((name, *evict_one(api, pod)))
    except CoreException as error:
        module.fail_json(msg=str(error))
    except UNANSWERED as error:
        message = f"EvictionFailed: {name} can't be evicted: {status_of(error)['message']}"
        module.fail_json(msg=message, changed=bool(result_of(answers)["evicted"]), **result_of(answers))
    result = result_of(answers)
    module.exit_json(changed=bool(result["evicted"]), **result)


if __name__ == "__main__":
    main()
