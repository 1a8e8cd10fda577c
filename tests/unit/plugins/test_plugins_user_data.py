"""The user data of a pool's machines: what each kind of cluster reads, and what is refused."""

from __future__ import annotations

import base64
import subprocess
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.aws_operator.core.plugins.filter.node_pool import pool_user_data
from ansible_collections.aws_operator.core.plugins.module_utils.user_data import (
    Joining,
    UserDataError,
    may_say_itself,
    user_data_of,
)

from tests.unit.plugins.cluster_builders import POOL_UID, make_pool_object

SERVER = "https://10.0.0.10:6443"
CA = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
TAINTS = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}, {"key": "other", "effect": "NoExecute"}]
TOKEN = "abcdef.0123456789abcdef"
OURS = f"aws.ansible-operator.io/nodepool=workers,aws.ansible-operator.io/nodepool-uid={POOL_UID}"


def joining(kind: str = "kubeadm", *, token: str = TOKEN, **spec: Any) -> Joining:
    """Return what user data is made of; *spec* is the pool's, its `bootstrap` on top of the least one."""
    bootstrap = {"type": kind, "server": SERVER, "tokenSecretRef": {"name": "join"}, **spec.pop("bootstrap", {})}
    return Joining(pool=make_pool_object(bootstrap=bootstrap, **spec), token=token, cluster_ca=CA)


def files(text: str) -> dict[str, str]:
    """Return the files that a cloud-config writes."""
    assert text.startswith("#cloud-config\n")
    return {item["path"]: item["content"] for item in yaml.safe_load(text)["write_files"]}


def test_kubeadm_gets_server_authority_and_token() -> None:
    """A kubeadm machine gets a kubeconfig to discover the cluster with, its labels and its taints."""
    text = user_data_of(joining(labels={"team": "a"}, taints=TAINTS))
    found = files(text)
    discovery = yaml.safe_load(found["/etc/kubernetes/join/discovery.conf"])
    cluster = discovery["clusters"][0]["cluster"]
    assert cluster["server"] == SERVER
    assert base64.b64decode(cluster["certificate-authority-data"]).decode() == CA
    assert discovery["users"][0]["user"]["token"] == TOKEN
    assert found["/etc/kubernetes/join/node.env"] == (
        f"NODE_LABELS={OURS},team=a\nNODE_TAINTS=dedicated=batch:NoSchedule,other:NoExecute\n"
    )
    assert yaml.safe_load(text)["runcmd"] == [["/bin/sh", "/etc/kubernetes/join/join.sh"]]


@pytest.mark.parametrize("kind", ["kubeadm", "k3s"])
def test_scripts_are_good_shell(kind: str, tmp_path: Path) -> None:
    """A shell takes the script that a machine runs."""
    script = tmp_path / "join.sh"
    script.write_text(files(user_data_of(joining(kind)))["/etc/kubernetes/join/join.sh"])
    checked = subprocess.run(["/bin/sh", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_k3s_gets_its_configuration() -> None:
    """A k3s agent reads server, token, labels and taints from its configuration file."""
    config = yaml.safe_load(files(user_data_of(joining("k3s", taints=TAINTS)))["/etc/rancher/k3s/config.yaml"])
    assert config == {
        "server": SERVER,
        "token": TOKEN,
        "node-label": OURS.split(","),
        "node-taint": ["dedicated=batch:NoSchedule", "other:NoExecute"],
    }


def test_eks_gets_a_node_config() -> None:
    """An image of EKS reads the cluster's name, address, CA and service addresses, and the kubelet's flags."""
    given = {"clusterName": "main", "serviceCidr": "10.100.0.0/16", "tokenSecretRef": None}
    message = message_from_string(user_data_of(joining("eks", token="", taints=TAINTS, bootstrap=given)))
    _, part = message.walk()
    assert part.get_content_type() == "application/node.eks.aws"
    spec = yaml.safe_load(str(part.get_payload()))["spec"]
    assert (spec["cluster"]["name"], spec["cluster"]["cidr"]) == ("main", "10.100.0.0/16")
    assert base64.b64decode(spec["cluster"]["certificateAuthority"]).decode() == CA
    assert spec["kubelet"]["flags"] == [
        f"--node-labels={OURS}",
        "--register-with-taints=dedicated=batch:NoSchedule,other:NoExecute",
    ]


def test_template_is_filled_as_plain_text() -> None:
    """In a person's own template our names are replaced once, as they are, and everything else stays."""
    template = "${server} ${caBundle} ${token} ${labels} ${taints} ${poolName} ${other} $token {{ token }}"
    given = {"userDataTemplate": template, "caBundle": "${token}"}
    text = user_data_of(joining("custom", token="$t", bootstrap=given))
    assert text == f"{SERVER} ${{token}} $t {OURS}  workers ${{other}} $token {{{{ token }}}}"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"labels": {"team": "a b"}}, "InvalidLabel"),
        ({"labels": {"te$(reboot)am": "a"}}, "InvalidLabel"),
        ({"labels": {"team": "a\nNODE_TAINTS=x"}}, "InvalidLabel"),
        ({"taints": [{"key": "a;b", "effect": "NoSchedule"}]}, "InvalidTaint"),
        ({"taints": [{"key": "a", "value": "`x`", "effect": "NoSchedule"}]}, "InvalidTaint"),
        ({"bootstrap": {"server": "10.0.0.10:6443"}}, "InvalidServer"),
        ({"bootstrap": {"server": "https://a/ --token=x"}}, "InvalidServer"),
        ({"token": ""}, "InvalidToken"),
        ({"token": "a b"}, "InvalidToken"),
        ({"bootstrap": {"caBundle": "x" * 16384}}, "UserDataTooLong"),
    ],
)
def test_what_no_machine_could_use_is_refused(parts: dict[str, Any], reason: str) -> None:
    """What a shell or Kubernetes would misread, and what AWS wouldn't take, is refused with a reason."""
    with pytest.raises(UserDataError) as refused:
        user_data_of(joining(**parts))
    assert refused.value.reason == reason


def test_machines_without_a_ca_are_refused() -> None:
    """No machine joins a cluster that it can't know: without a CA there is no user data."""
    given = joining()
    with pytest.raises(UserDataError, match=r"needs spec\.bootstrap\.caBundle"):
        user_data_of(Joining(pool=given.pool, token=given.token, cluster_ca=""))
    eks = joining("eks", bootstrap={"clusterName": "main"})
    with pytest.raises(UserDataError, match="describe-cluster"):
        user_data_of(eks)


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("team", True),
        ("example.com/team", True),
        ("node.kubernetes.io/pool", True),
        ("x.node.kubernetes.io/pool", True),
        ("kubernetes.io/os", True),
        ("node-role.kubernetes.io/worker", False),
        ("kubernetes.io/team", False),
        ("x.k8s.io/team", False),
        ("notkubernetes.io/team", True),
    ],
)
def test_labels_of_kubernetes_are_left_to_the_operator(label: str, allowed: bool) -> None:  # noqa: FBT001 - a column
    """A kubelet is told no label that would keep it from starting."""
    assert may_say_itself(label) is allowed
    text = user_data_of(joining(labels={label: "x"}))
    assert (f"{label}=x" in text) is allowed


def test_filter_tells_what_is_missing() -> None:
    """The filter takes token and CA from what was read, and tells which secret or key isn't there."""
    pool = joining().pool
    maps = [{"data": {"ca.crt": CA}}]
    secret = {"data": {"token": base64.b64encode(f"{TOKEN}\n".encode()).decode()}}
    good = pool_user_data(pool, secrets=[secret], authorities=maps)
    assert (good["obstacle"], good["user_data"]) == ({}, user_data_of(joining()))
    missing = pool_user_data(pool, secrets=[], authorities=maps)["obstacle"]
    assert (missing["reason"], missing["message"].partition(";")[0]) == (
        "SecretNotFound",
        "there is no secret join in namespace team",
    )
    assert "no key token" in pool_user_data(pool, secrets=[{"data": {}}], authorities=maps)["obstacle"]["message"]
    assert pool_user_data(pool, secrets=[secret])["obstacle"]["reason"] == "CABundleMissing"


def test_secret_of_somebody_else_is_in_the_way() -> None:
    """User data never goes to a Secret that the pool doesn't own, and the remedy is told."""
    pool = joining().pool
    maps = [{"data": {"ca.crt": CA}}]
    secret = {"data": {"token": base64.b64encode(TOKEN.encode()).decode()}}
    place: dict[str, Any] = {"metadata": {"name": "workers-user-data", "namespace": "team"}}
    for owners in ([], [{"kind": "NodePool", "name": "workers", "uid": "another"}]):
        place["metadata"]["ownerReferences"] = owners
        found = pool_user_data(pool, secrets=[secret], authorities=maps, there=[place])
        assert (found["user_data"], found["obstacle"]["reason"]) == ("", "UserDataSecretTaken")
        assert "secret workers-user-data in namespace team" in found["obstacle"]["message"]
        assert "delete it, or rename it or the pool" in found["obstacle"]["message"]
    place["metadata"]["ownerReferences"] = [{"kind": "NodePool", "uid": pool["metadata"]["uid"]}]
    assert pool_user_data(pool, secrets=[secret], authorities=maps, there=[place])["obstacle"] == {}
