"""How a machine joins, read from its user data: kubeadm, k3s and EKS, in the forms that people write."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest
import yaml
from ansible_collections.aws_operator.core.plugins.module_utils.user_data import Joining, user_data_of

from runner.errors import LocalPlaneError
from runner.localdev.machines import styles
from runner.localdev.machines.cloud_init import boot
from runner.localdev.machines.flags import KubeletFlags
from runner.localdev.machines.join import Join
from runner.localdev.machines.metadata import Metadata

TOKEN = "abcdef.0123456789abcdef"
UNSAFE = "--discovery-token-unsafe-skip-ca-verification"
PIN = "sha256:" + "ab" * 32
AUTHORITY = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"
ENCODED = base64.b64encode(AUTHORITY.encode()).decode()
MACHINE = Metadata(
    instance_id="i-0123", instance_type="m5.large", zone="eu-west-1b", region="eu-west-1", address="10.0.0.7"
)
TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}


def found(user_data: str) -> Join:
    """Return the join in *user_data*."""
    join = styles.find(boot(user_data, metadata=MACHINE))
    assert join is not None
    return join


def cloud_config(*, files: dict[str, str], run: list[Any]) -> str:
    """Return a cloud-config."""
    entries = [{"path": path, "content": content} for path, content in files.items()]
    return "#cloud-config\n" + yaml.safe_dump({"write_files": entries, "runcmd": run})


def pool(kind: str, **bootstrap: str) -> dict[str, Any]:
    """Return a NodePool."""
    more = {"type": kind, "server": "https://10.0.0.10:6443", "tokenSecretRef": {"name": "t"}, **bootstrap}
    spec = {"labels": {"team": "a"}, "taints": [TAINT], "bootstrap": more}
    return {"metadata": {"name": "workers", "uid": "u-1", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("kind", "bootstrap", "authority", "token"),
    [
        ("kubeadm", {}, AUTHORITY, TOKEN),
        ("k3s", {}, "", TOKEN),
        ("eks", {"clusterName": "c", "serviceCidr": "10.100.0.0/16"}, AUTHORITY, ""),
    ],
)
def test_the_user_data_of_a_node_pool_is_understood(
    kind: str, bootstrap: dict[str, str], authority: str, token: str
) -> None:
    """What the NodePool role writes for each kind of cluster is read back: server, CA, token, labels, taints."""
    join = found(user_data_of(Joining(pool=pool(kind, **bootstrap), token=TOKEN, cluster_ca=AUTHORITY)))
    assert (join.style, join.server, join.authority, join.token) == (
        kind, "https://10.0.0.10:6443", authority, token,
    )  # fmt: skip
    assert join.flags.labels["team"] == "a"
    assert join.flags.labels["aws.ansible-operator.io/nodepool"] == "workers"
    assert join.flags.taints == (TAINT,)
    assert join.flags.provider_id in {"aws:///eu-west-1b/i-0123", ""}


def test_kubeadm_with_a_hash_on_its_command_line() -> None:
    """The form of every tutorial: server, token and hash as arguments, flags of the kubelet in its own file."""
    join = found(
        "#!/bin/bash\n"
        "cat <<EOF >/etc/default/kubelet\n"
        "KUBELET_EXTRA_ARGS='--node-labels=a=b,c= --register-with-taints=dedicated=batch:NoSchedule,x:NoExecute'\n"
        "EOF\n"
        f"sudo kubeadm join 10.0.0.10:6443 --token {TOKEN} \\\n"
        f'  --discovery-token-ca-cert-hash {PIN} --node-name "$(hostname)" -v 5\n'
    )
    assert join == Join(
        style="kubeadm",
        server="https://10.0.0.10:6443",
        token=TOKEN,
        pins=(PIN,),
        flags=KubeletFlags(
            labels={"a": "b", "c": ""},
            taints=(TAINT, {"key": "x", "effect": "NoExecute"}),
            name="ip-10-0-0-7.eu-west-1.compute.internal",
        ),
    )


@pytest.mark.parametrize(
    "command",
    [
        f"sudo -E kubeadm join s:1 --token {TOKEN} {UNSAFE}",
        f"timeout 300 kubeadm join s:1 --token {TOKEN} {UNSAFE}",
        f"kubeadm join {UNSAFE} s:1 --token {TOKEN}",
        f"kubeadm join --control-plane --token {TOKEN} {UNSAFE}=true s:1 # don't ask",
    ],
)
def test_kubeadm_behind_other_programs_and_with_its_words_in_any_order(command: str) -> None:
    """What starts kubeadm is looked through, and an option without a value doesn't swallow the address."""
    join = found(f"#!/bin/sh\n{command}\n")
    assert (join.server, join.token, join.unsafe) == ("https://s:1", TOKEN, True)


def test_a_switch_that_says_no_is_off() -> None:
    """--discovery-token-unsafe-skip-ca-verification=false asks for a hash as if it weren't there."""
    with pytest.raises(LocalPlaneError, match="neither a CA nor"):
        found(f"#!/bin/sh\nkubeadm join s:1 --token {TOKEN} {UNSAFE}=false\n")
    join = found(f"#!/bin/sh\nkubeadm join s:1 --token {TOKEN} {UNSAFE}=false --discovery-token-ca-cert-hash {PIN}\n")
    assert (join.unsafe, join.pins) == (False, (PIN,))


@pytest.mark.parametrize("arguments", [{"node-labels": "a=b"}, [{"name": "node-labels", "value": "a=b"}]])
def test_kubeadm_with_a_configuration(arguments: object) -> None:
    """A JoinConfiguration says it all, in the old form of extra arguments and in the new one."""
    configuration = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {"token": TOKEN, "apiServerEndpoint": "10.0.0.10:6443", "caCertHashes": [PIN]}},
        "nodeRegistration": {"name": "Worker-1", "kubeletExtraArgs": arguments, "taints": [TAINT]},
    }
    files = {"/run/join.yaml": yaml.safe_dump(configuration)}
    join = found(cloud_config(files=files, run=["kubeadm join --config=/run/join.yaml"]))
    assert (join.server, join.token, join.pins) == ("https://10.0.0.10:6443", TOKEN, (PIN,))
    assert join.flags == KubeletFlags(labels={"a": "b"}, taints=(TAINT,), name="worker-1")


def test_a_node_env_counts_where_the_script_hides_its_flags() -> None:
    """Labels and taints in the file that the NodePool role always writes are enough."""
    config = {"clusters": [{"cluster": {"server": "https://s:1", "certificate-authority-data": ENCODED}}]}
    files = {"/j/discovery.conf": yaml.safe_dump(config), "/j/node.env": "NODE_LABELS=a=b\nNODE_TAINTS=x:NoSchedule\n"}
    run = ["/opt/own-program", f"kubeadm join --discovery-file /j/discovery.conf --tls-bootstrap-token {TOKEN}"]
    join = found(cloud_config(files=files, run=run))
    assert join.flags == KubeletFlags(labels={"a": "b"}, taints=({"key": "x", "effect": "NoSchedule"},))
    assert (join.authority, join.token) == (AUTHORITY, TOKEN)


def test_files_of_a_cloud_config_may_be_encoded() -> None:
    """base64, and gzip in it, are undone."""
    packed = base64.b64encode(gzip.compress(f"kubeadm join s:1 --token {TOKEN} {UNSAFE}".encode()))
    entry = {"path": "/join.sh", "encoding": "gz+b64", "content": packed.decode()}
    join = found("#cloud-config\n" + yaml.safe_dump({"write_files": [entry], "runcmd": [["sh", "/join.sh"]]}))
    assert (join.server, join.unsafe) == ("https://s:1", True)


def test_k3s_by_its_installer() -> None:
    """URL and token in the environment, labels and taints as the agent's arguments."""
    join = found(
        "#!/bin/sh\n"
        f"curl -sfL https://get.k3s.io | K3S_URL=https://10.0.0.10:6443 K3S_TOKEN=K10{'ab' * 32}::{TOKEN} "
        "sh -s - agent --node-label a=b --node-taint dedicated=batch:NoSchedule --kubelet-arg=max-pods=9 "
        "--node-name w\n"
    )
    assert join == Join(
        style="k3s",
        server="https://10.0.0.10:6443",
        token=TOKEN,
        pins=(PIN,),
        flags=KubeletFlags(labels={"a": "b"}, taints=(TAINT,), name="w", max_pods=9),
    )


def test_k3s_without_a_hash_trusts_the_first_that_answers() -> None:
    """A token without a hash is what k3s warns about."""
    join = found(f"#!/bin/sh\nk3s agent --server https://s:6443 --token {TOKEN}\n")
    assert (join.unsafe, join.pins) == (True, ())


def test_eks_of_amazon_linux_2() -> None:
    """The arguments of bootstrap.sh are read; where they name no API server, EKS is to be asked."""
    join = found(
        "#!/bin/bash\n/etc/eks/bootstrap.sh my-cluster --kubelet-extra-args '--node-labels=a=b "
        "--register-with-taints=dedicated=batch:NoSchedule'\n"
    )
    assert join == Join(style="eks", server="", flags=KubeletFlags(labels={"a": "b"}, taints=(TAINT,)))
    join = found(f"#!/bin/bash\n/etc/eks/bootstrap.sh c --b64-cluster-ca {ENCODED} --apiserver-endpoint https://e\n")
    assert (join.server, join.authority) == ("https://e", AUTHORITY)


def test_a_node_config_of_eks() -> None:
    """The maxPods and registerWithTaints of the kubelet's configuration count."""
    config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {"apiServerEndpoint": "https://e", "certificateAuthority": ENCODED},
            "kubelet": {"config": {"maxPods": 5, "registerWithTaints": [TAINT]}, "flags": ["--node-labels=a=b"]},
        },
    }
    join = found(yaml.safe_dump(config, sort_keys=True))
    assert join.flags == KubeletFlags(labels={"a": "b"}, taints=(TAINT,), max_pods=5)


@pytest.mark.parametrize("user_data", ["", "hello", "#!/bin/sh\napt-get install nginx\n", "#cloud-config\n{}\n"])
def test_a_machine_of_no_cluster(user_data: str) -> None:
    """User data without a join is none."""
    assert styles.find(boot(user_data, metadata=MACHINE)) is None


@pytest.mark.parametrize(
    ("user_data", "message"),
    [
        ("#!/bin/sh\nkubeadm join\n", "no API server"),
        ("#!/bin/sh\nkubeadm join s:1 --token nonsense\n", "has not the form"),
        (f"#!/bin/sh\nkubeadm join s:1 --token {TOKEN}\n", "neither a CA nor"),
        ("#!/bin/sh\nkubeadm join --config /none\n", "/none: the user data writes no such file"),
        (f"#!/bin/sh\nkubeadm join --discovery-file /none --token {TOKEN}\n", "/none: the user data writes no such"),
        ("#!/bin/sh\nk3s agent --server https://s --token K10aa::server:pw\n", "bootstrap tokens only"),
        (f"#!/bin/sh\nk3s agent --token {TOKEN}\n", "given no server"),
        ("#cloud-config\na: [\n", "no YAML: line 3"),
    ],
)
def test_a_join_that_cannot_work_says_why(user_data: str, message: str) -> None:
    """What would stop kubeadm, k3s or cloud-init is an error with the reason."""
    with pytest.raises(LocalPlaneError, match=message):
        styles.find(boot(user_data, metadata=MACHINE))


def test_a_taint_that_the_kubelet_refuses() -> None:
    """A kubelet doesn't start with a taint that has no effect."""
    text = f"#!/bin/sh\nKUBELET_EXTRA_ARGS=--register-with-taints=x\nkubeadm join s:1 --token {TOKEN} {UNSAFE}\n"
    with pytest.raises(LocalPlaneError, match="invalid taint spec 'x'"):
        found(text)


def test_an_error_does_not_quote_what_may_be_a_token() -> None:
    """A YAML file that can't be read is named with the line, not with its text."""
    with pytest.raises(LocalPlaneError) as caught:
        found(cloud_config(files={"/c": f"token: {TOKEN}: x"}, run=["kubeadm join --config /c"]))
    assert TOKEN not in str(caught.value)
    assert "line 1" in str(caught.value)


def test_a_join_is_shown_without_its_token() -> None:
    """What a log might get of a join has no token in it."""
    assert TOKEN not in repr(found(f"#!/bin/sh\nk3s agent --server https://s:6443 --token {TOKEN}\n"))


def test_the_name_of_a_machine_is_its_private_dns_name() -> None:
    """us-east-1 has a domain of its own."""
    assert MACHINE.hostname == "ip-10-0-0-7.eu-west-1.compute.internal"
