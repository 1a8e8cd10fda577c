"""The user data by which a machine of a pool joins the cluster: kubeadm, k3s, eks, or a person's own text. Pure.

What cloud-init reads is YAML that is dumped from values, never text put together, so nothing that a person wrote can
become a line of its own; labels and taints, which a shell reads, are checked against Kubernetes' own syntax.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import labels_for_nodes

LONGEST = 16384
"""Bytes; AWS takes no more."""
FOLDER = "/etc/kubernetes/join"
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_SERVER = re.compile(r"https://[A-Za-z0-9.\-\[\]:]+/?")
_TOKEN = re.compile(r"\S+")
_PLACEHOLDER = re.compile(r"\$\{(server|caBundle|token|labels|taints|poolName)\}")
_RESERVED = ("kubernetes.io", "k8s.io")
# What a kubelet may say of itself in these domains; with any other label of them it doesn't start.
_OPEN_PREFIXES = ("node.kubernetes.io", "kubelet.kubernetes.io")
_OPEN_LABELS = (
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
_PROVIDER_ID = """\
imds=http://169.254.169.254/latest
session=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$imds/api/token")
ask() { curl -sf -H "X-aws-ec2-metadata-token: $session" "$imds/meta-data/$1"; }
provider_id="aws:///$(ask placement/availability-zone)/$(ask instance-id)"
"""
_KUBEADM = f"""\
#!/bin/sh
set -eu
. {FOLDER}/node.env
{_PROVIDER_ID}\
arguments="--provider-id=$provider_id --node-labels=$NODE_LABELS"
[ -z "$NODE_TAINTS" ] || arguments="$arguments --register-with-taints=$NODE_TAINTS"
# where the packages of Debian and of Red Hat look for it
for file in /etc/default/kubelet /etc/sysconfig/kubelet; do
  mkdir -p "${{file%/*}}"
  echo "KUBELET_EXTRA_ARGS=$arguments" > "$file"
done
kubeadm join --discovery-file={FOLDER}/discovery.conf
rm -f {FOLDER}/discovery.conf
"""
_K3S = f"""\
#!/bin/sh
set -eu
{_PROVIDER_ID}\
mkdir -p /etc/rancher/k3s/config.yaml.d
printf 'kubelet-arg: ["provider-id=%s"]\\n' "$provider_id" > /etc/rancher/k3s/config.yaml.d/provider-id.yaml
curl -sfL https://get.k3s.io | INSTALL_K3S_EXEC=agent sh -
"""
_MIME = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

{config}
--//--
"""


class UserDataError(Exception):
    """There is no user data; the message says why and what to do."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the reason, one word for a program."""
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Joining:
    """What user data is made of."""

    pool: Mapping[str, Any]
    token: str
    """Empty where none is needed."""
    cluster_ca: str
    """The CA of the cluster that the pool is in, in PEM; for a pool that names none."""

    @property
    def bootstrap(self) -> Mapping[str, Any]:
        """Return how the spec says that machines join."""
        given: Mapping[str, Any] = (self.pool.get("spec") or {}).get("bootstrap") or {}
        return given

    @property
    def server(self) -> str:
        """Return the API server's address."""
        return str(self.bootstrap.get("server") or "")

    @property
    def authority(self) -> str:
        """Return the CA in PEM."""
        return str(self.bootstrap.get("caBundle") or self.cluster_ca)

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels that a kubelet may give itself."""
        every = labels_for_nodes(self.pool)
        return {key: value for key, value in sorted(every.items()) if may_say_itself(key)}

    @property
    def taints(self) -> list[str]:
        """Return the taints as kubelets and kubectl write them."""
        return [_written(item) for item in (self.pool.get("spec") or {}).get("taints") or []]


def user_data_of(joining: Joining) -> str:
    """Return the user data; a UserDataError where the spec or what it refers to allows none."""
    _check(joining)
    kind = str(joining.bootstrap.get("type") or "")
    text = _KINDS[kind](joining)
    if len(text.encode()) > LONGEST:
        raise UserDataError(
            "UserDataTooLong",
            f"the user data has {len(text.encode())} bytes, and AWS takes {LONGEST}: shorten the template, the "
            "labels or caBundle",
        )
    return text


def check_place(pool: Mapping[str, Any], there: Iterable[Mapping[str, Any]]) -> None:
    """Raise a UserDataError where the Secret that the user data goes to is *there* and not the pool's own."""
    uid = pool["metadata"]["uid"]
    for secret in there:
        meta = secret["metadata"]
        if not any(owner.get("uid") == uid for owner in meta.get("ownerReferences") or []):
            raise UserDataError(
                "UserDataSecretTaken",
                f"the user data goes to secret {meta['name']} in namespace {meta.get('namespace')}, and one that isn't "
                "the pool's own is there: delete it, or rename it or the pool",
            )


def may_say_itself(key: str) -> bool:
    """Return whether a kubelet may give its own Node the label."""
    prefix = key.rpartition("/")[0]
    if not any(prefix == domain or prefix.endswith(f".{domain}") for domain in _RESERVED):
        return True
    return key in _OPEN_LABELS or any(prefix == item or prefix.endswith(f".{item}") for item in _OPEN_PREFIXES)


def _check(joining: Joining) -> None:
    for key, value in labels_for_nodes(joining.pool).items():
        if not (_KEY.fullmatch(key) and _VALUE.fullmatch(value)):
            raise UserDataError("InvalidLabel", f"{key}={value} is no label: correct spec.labels")
    for item in (joining.pool.get("spec") or {}).get("taints") or []:
        if not (_KEY.fullmatch(str(item.get("key") or "")) and _VALUE.fullmatch(str(item.get("value") or ""))):
            raise UserDataError("InvalidTaint", f"{_written(item)} is no taint: correct spec.taints")
    if joining.bootstrap.get("type") != "custom" and joining.server and not _SERVER.fullmatch(joining.server):
        raise UserDataError(
            "InvalidServer", f"spec.bootstrap.server {joining.server!r} is no address such as https://10.0.0.10:6443"
        )
    if joining.bootstrap.get("tokenSecretRef") and not _TOKEN.fullmatch(joining.token):
        raise UserDataError("InvalidToken", "the token of spec.bootstrap.tokenSecretRef has blanks in it, or is empty")


def _kubeadm(joining: Joining) -> str:
    if not joining.authority:
        raise UserDataError("CABundleMissing", "kubeadm needs spec.bootstrap.caBundle: this cluster tells no CA itself")
    environment = f"NODE_LABELS={_pairs(joining.labels)}\nNODE_TAINTS={','.join(joining.taints)}\n"
    files = [
        _file(f"{FOLDER}/discovery.conf", _document(_discovery(joining)), mode="0600"),
        _file(f"{FOLDER}/node.env", environment, mode="0644"),
        _file(f"{FOLDER}/join.sh", _KUBEADM, mode="0700"),
    ]
    return _cloud_config(files, command=f"{FOLDER}/join.sh")


def _discovery(joining: Joining) -> dict[str, Any]:
    """Return the kubeconfig that kubeadm takes server, CA and token from."""
    cluster = {
        "server": joining.server,
        "certificate-authority-data": base64.b64encode(joining.authority.encode()).decode(),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes", "cluster": cluster}],
        "users": [{"name": "bootstrap", "user": {"token": joining.token}}],
        "contexts": [{"name": "join", "context": {"cluster": "kubernetes", "user": "bootstrap"}}],
        "current-context": "join",
    }


def _k3s(joining: Joining) -> str:
    config = {
        "server": joining.server,
        "token": joining.token,
        "node-label": [f"{key}={value}" for key, value in joining.labels.items()],
        "node-taint": joining.taints,
    }
    files = [
        _file("/etc/rancher/k3s/config.yaml", _document(config), mode="0600"),
        _file(f"{FOLDER}/join.sh", _K3S, mode="0700"),
    ]
    return _cloud_config(files, command=f"{FOLDER}/join.sh")


def _eks(joining: Joining) -> str:
    """Return a NodeConfig, which the images of Amazon Linux 2023 for EKS read."""
    given = joining.bootstrap
    if not (joining.server and joining.authority and given.get("serviceCidr")):
        raise UserDataError(
            "EKSClusterUnknown",
            "eks needs spec.bootstrap.server, serviceCidr and caBundle, as `aws eks describe-cluster` tells them",
        )
    flags = [f"--node-labels={_pairs(joining.labels)}"]
    flags += [f"--register-with-taints={','.join(joining.taints)}"] if joining.taints else []
    cluster = {
        "name": given["clusterName"],
        "apiServerEndpoint": joining.server,
        "certificateAuthority": base64.b64encode(joining.authority.encode()).decode(),
        "cidr": given["serviceCidr"],
    }
    spec = {"cluster": cluster, "kubelet": {"flags": flags}}
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    return _MIME.format(config=_document(config).rstrip())


def _custom(joining: Joining) -> str:
    values = {
        "server": joining.server,
        "caBundle": joining.authority,
        "token": joining.token,
        "labels": _pairs(joining.labels),
        "taints": ",".join(joining.taints),
        "poolName": str(joining.pool["metadata"]["name"]),
    }
    return _PLACEHOLDER.sub(lambda found: values[found.group(1)], str(joining.bootstrap.get("userDataTemplate") or ""))


_KINDS: Mapping[str, Callable[[Joining], str]] = {
    "kubeadm": _kubeadm,
    "k3s": _k3s,
    "eks": _eks,
    "custom": _custom,
}


def _written(item: Mapping[str, Any]) -> str:
    value = f"={item['value']}" if item.get("value") else ""
    return f"{item.get('key')}{value}:{item.get('effect')}"


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _file(path: str, content: str, *, mode: str) -> dict[str, str]:
    return {"path": path, "permissions": mode, "content": content}


def _cloud_config(files: Iterable[Mapping[str, str]], *, command: str) -> str:
    return f"#cloud-config\n{_document({'write_files': list(files), 'runcmd': [['/bin/sh', command]]})}"


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as people do."""


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _as_block)


def _document(value: Mapping[str, Any]) -> str:
    text: str = yaml.dump(value, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=LONGEST)
    return text
