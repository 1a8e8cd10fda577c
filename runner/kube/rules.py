"""What this process may do in a namespace, asked once (SelfSubjectRulesReview), so that nothing needs to be refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.errors import Call, KubeError
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


class Rules:
    """Rights in one namespace, those in the whole cluster included."""

    def __init__(self, status: Mapping[str, Any] | None) -> None:
        """Read a review's *status*; without one, or where the API server can't tell all, anything may be allowed."""
        told = status or {}
        self.complete = status is not None and not told.get("incomplete")
        """Whether what isn't told may not be done."""
        self.vague = bool(told.get("incomplete"))
        """Whether the API server answered that it can't tell all; asked again it will say the same."""
        self._rules: list[Mapping[str, Any]] = [rule for rule in told.get("resourceRules") or [] if rule]

    def may(self, verb: str, resource: Resource) -> bool:
        """Tell whether *verb* may be allowed on all objects of *resource*."""
        asked = {"verbs": verb, "apiGroups": resource.gvk.group, "resources": resource.plural}
        return not self.complete or any(_allows(rule, asked) for rule in self._rules)


async def rules_in(client: KubeClient, namespace: str) -> Rules:
    """Return the rights in *namespace*; where that can't be asked, `Rules` that exclude nothing."""
    call = Call(verb="create", resource="selfsubjectrulesreviews.authorization.k8s.io", namespace=namespace)
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
    try:
        answer = await client.request("POST", _PATH, body=body, call=call)
    except KubeError:
        return Rules(None)
    return Rules(answer.get("status"))


def _allows(rule: Mapping[str, Any], asked: Mapping[str, str]) -> bool:
    if rule.get("resourceNames"):
        return False
    return all({value, "*"} & set(rule.get(key) or ()) for key, value in asked.items())
