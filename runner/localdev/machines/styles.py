"""Finds in the first boot of a machine how it joins a cluster: by kubeadm, by k3s, or to EKS."""

from __future__ import annotations

from pathlib import PurePosixPath

from runner.localdev.machines.cloud_init import Boot
from runner.localdev.machines.eks import eks_join, eks_script_join
from runner.localdev.machines.join import Join
from runner.localdev.machines.k3s import k3s_join, starts_agent
from runner.localdev.machines.kubeadm import kubeadm_join

_PROGRAMS = ("kubeadm", "k3s", "/etc/eks/bootstrap.sh", "nodeadm")


def named(user_data: str, *, boot: Boot) -> str:
    """Return the first program that joins machines of which *user_data* or a file that it writes speaks, or nothing."""
    texts = [user_data, *boot.shell.files.values()]
    return next((program for program in _PROGRAMS if any(program in text for text in texts)), "")


def find(boot: Boot) -> Join | None:
    """Return the join that *boot* describes, None where it is no machine of a cluster.

    Raises:
        LocalPlaneError: it tries to join, and something is missing or can't be read.
    """
    for config in boot.node_configs:
        return eks_join(config)
    for words in boot.shell.commands:
        name = PurePosixPath(words[0]).name
        if name == "kubeadm" and "join" in words:
            return kubeadm_join(words[words.index("join") + 1 :], boot=boot)
        if name == "bootstrap.sh" and "eks" in words[0]:
            return eks_script_join(words[1:])
        if starts_agent(words, boot=boot):
            return k3s_join(words, boot=boot)
    return None
