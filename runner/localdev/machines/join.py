"""One join of a machine, and what all ways of describing it have in common; `styles` knows the ways."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from runner.errors import LocalPlaneError
from runner.localdev.machines.cloud_init import Boot, where
from runner.localdev.machines.flags import KubeletFlags

KUBEADM = "kubeadm"
K3S = "k3s"
EKS = "eks"
BOOTSTRAP_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
"""What the API server takes for a bootstrap token."""


@dataclass(frozen=True, kw_only=True)
class Join:
    """One join."""

    style: str
    """`kubeadm`, `k3s` or `eks`."""
    server: str
    """Empty where EKS is to be asked."""
    token: str = field(default="", repr=False)
    """A bootstrap token; empty on EKS, where the machine's IAM role takes its place."""
    authority: str = ""
    """Certificates in PEM; empty where they are to be discovered."""
    pins: tuple[str, ...] = ()
    """Hashes by which discovered certificates are trusted: `sha256:HEX`."""
    unsafe: bool = False
    """Trust what is discovered without a pin."""
    flags: KubeletFlags = field(default_factory=KubeletFlags)


def read_yaml(text: str, *, what: str) -> list[Mapping[str, Any]]:
    """Return the mappings in *text*; LocalPlaneError: it is no YAML."""
    try:
        return [item for item in yaml.safe_load_all(text) if isinstance(item, Mapping)]
    except yaml.YAMLError as error:
        raise LocalPlaneError(f"{what} is no YAML{where(error)}") from error


def written_file(path: str, *, boot: Boot) -> str:
    """Return the content of a file that the user data writes; LocalPlaneError: it writes none of this *path*."""
    if path not in boot.shell.files:
        raise LocalPlaneError(f"{path}: the user data writes no such file")
    return boot.shell.files[path]


def decoded(text: str, *, what: str) -> str:
    """Return base64 as text; LocalPlaneError: it is none."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise LocalPlaneError(f"{what}: the CA in it is no base64 of PEM: {error}") from error
