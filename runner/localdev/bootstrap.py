"""What `kubeadm init` leaves in a cluster so that machines can join it: bindings, `cluster-info`, bootstrap tokens.

`plane` installs it at each start. `new_token` is for demos and tests: what `kubeadm token create` does.
"""

from __future__ import annotations

import base64
import json
import secrets
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from runner.localdev.api import Api

CLOUD_USER = "ansible-operator-local:cloud"
"""Who plays the cloud controller manager."""
_RBAC = "rbac.authorization.k8s.io"
_RBAC_PATH = f"/apis/{_RBAC}/v1"
_TOKENS = "/api/v1/namespaces/kube-system/secrets"
_CLUSTER_INFO = "cluster-info"
_PUBLIC = "kube-public"
_ALPHABET = string.ascii_lowercase + string.digits
_LIFETIME = timedelta(hours=24)
_APPROVAL = "system:certificates.k8s.io:certificatesigningrequests"
_BINDINGS = (
    ("node-bootstrap", "system:node-bootstrapper", "system:bootstrappers"),
    ("node-approval", f"{_APPROVAL}:nodeclient", "system:bootstrappers"),
    ("node-renewal", f"{_APPROVAL}:selfnodeclient", "system:nodes"),
)
"""What lets the holder of a bootstrap token have the certificate of a node signed, and the node renew it."""


@dataclass(frozen=True, kw_only=True)
class BootstrapToken:
    """A token that machines join with."""

    ident: str
    """The public half: it names the Secret and stands in logs."""
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """Return the token as a machine gets it."""
        return f"{self.ident}.{self.secret}"


def install(api: Api, *, server: str, authority: str) -> None:
    """Create all of it; what is there already stays.

    Raises:
        LocalPlaneError: the API server refused something.
    """
    for path, body in _objects(server=server, authority=authority):
        api.create(path, body=body)


def new_token(api: Api, *, lifetime: timedelta = _LIFETIME) -> BootstrapToken:
    """Make a token that machines can join with, and that signs `cluster-info`, and return it.

    Raises:
        LocalPlaneError: the API server refused it.
    """
    token = BootstrapToken(ident=_random(6), secret=_random(16))
    content = {
        "token-id": token.ident,
        "token-secret": token.secret,
        "expiration": (datetime.now(tz=UTC) + lifetime).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
    }
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{token.ident}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": content,
    }
    api.create(_TOKENS, body=body)
    return token


def _objects(*, server: str, authority: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, role, group in _BINDINGS:
        yield _binding(name, kind="ClusterRole", role=role, subject=("Group", group))
    # Anonymous, as a machine that has only a token knows nobody yet; the token's signature makes it worth reading.
    public = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [_CLUSTER_INFO], "verbs": ["get"]}]
    yield _role(_CLUSTER_INFO, kind="Role", rules=public, namespace=_PUBLIC)
    yield _binding(
        _CLUSTER_INFO, kind="Role", role=_named(_CLUSTER_INFO), subject=("User", "system:anonymous"), namespace=_PUBLIC
    )
    yield f"/api/v1/namespaces/{_PUBLIC}/configmaps", _cluster_info(server=server, authority=authority)
    cloud = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch", "delete"]}]
    yield _role("cloud", kind="ClusterRole", rules=cloud)
    yield _binding("cloud", kind="ClusterRole", role=_named("cloud"), subject=("User", CLOUD_USER))
    tokens = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]
    yield _role("cloud", kind="Role", rules=tokens, namespace="kube-system")
    yield _binding("cloud", kind="Role", role=_named("cloud"), subject=("User", CLOUD_USER), namespace="kube-system")


def _named(name: str) -> str:
    return f"ansible-operator-local:{name}"


def _metadata(name: str, namespace: str) -> Mapping[str, str]:
    return {"name": name, **({"namespace": namespace} if namespace else {})}


def _path(kind: str, namespace: str) -> str:
    return f"{_RBAC_PATH}/{f'namespaces/{namespace}/' if namespace else ''}{kind.lower()}s"


def _role(name: str, *, kind: str, rules: list[dict[str, Any]], namespace: str = "") -> tuple[str, Mapping[str, Any]]:
    body = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": _metadata(_named(name), namespace),
        "rules": rules,
    }
    return _path(kind, namespace), body


def _binding(
    name: str, *, kind: str, role: str, subject: tuple[str, str], namespace: str = ""
) -> tuple[str, Mapping[str, Any]]:
    bound = f"{'Role' if namespace else 'ClusterRole'}Binding"
    body = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": bound,
        "metadata": _metadata(_named(name), namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": subject[0], "name": subject[1]}],
    }
    return _path(bound, namespace), body


def _cluster_info(*, server: str, authority: str) -> Mapping[str, Any]:
    """Return the ConfigMap that tells a machine whom to trust; the controller manager adds a signature per token."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority.encode()).decode()}
    kubeconfig: Mapping[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": cluster}],
        "contexts": None,
        "current-context": "",
        "preferences": {},
        "users": None,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(_CLUSTER_INFO, _PUBLIC),
        "data": {"kubeconfig": json.dumps(kubeconfig, indent=1)},
    }


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
