"""Reads how a machine joins EKS: nodeadm's NodeConfig, or the arguments of /etc/eks/bootstrap.sh."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from runner.localdev.machines.flags import bare, kubelet_flags, last, merged, options_of, taint_text
from runner.localdev.machines.join import EKS, Join, decoded


def eks_join(config: Mapping[str, Any]) -> Join:
    """Read a NodeConfig, as nodeadm does on Amazon Linux 2023."""
    spec = config.get("spec") or {}
    cluster, kubelet = spec.get("cluster") or {}, spec.get("kubelet") or {}
    flags = bare(options_of([str(flag) for flag in kubelet.get("flags") or ()])[0])
    own = kubelet.get("config") or {}
    if own.get("maxPods"):
        flags["max-pods"] = [str(own["maxPods"])]
    taints = [taint_text(taint) for taint in own.get("registerWithTaints") or ()]
    encoded = str(cluster.get("certificateAuthority") or "")
    return Join(
        style=EKS,
        server=str(cluster.get("apiServerEndpoint") or ""),
        authority=decoded(encoded, what="the NodeConfig") if encoded else "",
        flags=kubelet_flags(merged(flags, {"register-with-taints": taints})),
    )


def eks_script_join(words: Sequence[str]) -> Join:
    """Read the arguments of Amazon Linux 2's /etc/eks/bootstrap.sh."""
    options, _ = options_of(words, taking="--kubelet-extra-args")
    extra = [word for text in options.get("--kubelet-extra-args", ()) for word in shlex.split(text)]
    encoded = last(options, "--b64-cluster-ca")
    return Join(
        style=EKS,
        server=last(options, "--apiserver-endpoint"),
        authority=decoded(encoded, what="--b64-cluster-ca") if encoded else "",
        flags=kubelet_flags(bare(options_of(extra)[0])),
    )
