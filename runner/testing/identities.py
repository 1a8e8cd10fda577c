"""Service accounts with exactly the rights that a test grants, and kubeconfigs that carry their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.errors import Call
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.testing.kubeconfig import derived_kubeconfig

SERVICE_ACCOUNTS = Resource(gvk=GVK("", "v1", "ServiceAccount"), plural="serviceaccounts")
_RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(gvk=GVK(_RBAC, "v1", "Role"), plural="roles")
ROLE_BINDINGS = Resource(gvk=GVK(_RBAC, "v1", "RoleBinding"), plural="rolebindings")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A service account without any right until `grant`."""

    admin: KubeClient
    namespace: str
    name: str

    async def token(self) -> str:
        """Return a new token."""
        path = SERVICE_ACCOUNTS.path(namespace=self.namespace, name=self.name, subresource="token")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        call = Call(verb="create", resource="serviceaccounts/token", namespace=self.namespace, name=self.name)
        return str((await self.admin.request("POST", path, body=body, call=call))["status"]["token"])

    async def kubeconfig(self, path: Path, *, source: Path) -> Path:
        """Write a kubeconfig (mode 0600) for *source*'s server with a token of this account."""
        return derived_kubeconfig(path, source=source, user={"token": await self.token()})

    async def grant(
        self, resource: Resource, *, verbs: Sequence[str] = ("get", "list", "watch"), namespace: str = ""
    ) -> None:
        """Allow *verbs* on *resource* in *namespace* (by default the account's own) with a Role."""
        where = namespace or self.namespace
        name = f"{self.name}-{resource.plural}"
        rule = {"apiGroups": [resource.gvk.group], "resources": [resource.plural], "verbs": list(verbs)}
        role = {**_head(ROLES, name), "rules": [rule]}
        await self.admin.create(ROLES, namespace=where, body=role)
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        reference = {"apiGroup": _RBAC, "kind": "Role", "name": name}
        binding = {**_head(ROLE_BINDINGS, name), "roleRef": reference, "subjects": [subject]}
        await self.admin.create(ROLE_BINDINGS, namespace=where, body=binding)


async def new_identity(admin: KubeClient, *, namespace: str, name: str = "tester") -> Identity:
    """Create a service account."""
    await admin.create(SERVICE_ACCOUNTS, namespace=namespace, body=_head(SERVICE_ACCOUNTS, name))
    return Identity(admin=admin, namespace=namespace, name=name)


def _head(resource: Resource, name: str) -> Object:
    return {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind, "metadata": {"name": name}}
