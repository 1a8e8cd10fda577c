"""Reads `kubeadm join`: a command line, a JoinConfiguration or a discovery file, and the kubelet's extra arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from runner.errors import LocalPlaneError
from runner.localdev.machines.cloud_init import Boot
from runner.localdev.machines.flags import (
    KubeletFlags,
    bare,
    is_set,
    kubelet_flags,
    last,
    listed,
    merged,
    options_of,
    taint_text,
)
from runner.localdev.machines.join import BOOTSTRAP_TOKEN, KUBEADM, Join, decoded, read_yaml, written_file

_UNSAFE = "--discovery-token-unsafe-skip-ca-verification"
_SWITCHES = {_UNSAFE, "--control-plane", "--experimental-control-plane", "--dry-run"}
"""What `kubeadm join` has of options without a value."""
_NODE_ENV = "node.env"
_EXTRA_ARGS = re.compile(r"^\s*(?:export\s+)?KUBELET_EXTRA_ARGS=(.*)$", re.MULTILINE)
_ENTRY = re.compile(r"^(NODE_LABELS|NODE_TAINTS)=['\"]?([^'\"\n]*)", re.MULTILINE)


def kubeadm_join(words: Sequence[str], *, boot: Boot) -> Join:
    """Return the join that *words*, what comes after `kubeadm join`, describe.

    Raises:
        LocalPlaneError: something is missing or can't be read.
    """
    options, others = options_of(words, switches=_SWITCHES)
    flags = _extra_args(boot)
    if "--config" in options:
        return _kubeadm_config(last(options, "--config"), boot=boot, flags=flags)
    named = last(options, "--node-name")
    own = kubelet_flags(merged(_defaults(flags, boot=boot), {"hostname-override": [named]} if named else {}))
    if file := last(options, "--discovery-file"):
        return _from_kubeconfig(file, boot=boot, token=last(options, "--tls-bootstrap-token", "--token"), flags=own)
    if not others:
        raise LocalPlaneError("kubeadm join: it is given no API server, --discovery-file or --config")
    return _complete(
        Join(
            style=KUBEADM,
            server=f"https://{others[0].removeprefix('https://')}",
            token=last(options, "--token") or last(options, "--discovery-token"),
            pins=tuple(listed(options.get("--discovery-token-ca-cert-hash", ()))),
            unsafe=is_set(options, _UNSAFE),
            flags=own,
        )
    )


def _defaults(flags: dict[str, list[str]], *, boot: Boot) -> dict[str, list[str]]:
    return flags if "node-labels" in flags or "register-with-taints" in flags else {**flags, **_from_node_env(boot)}


def _from_kubeconfig(path: str, *, boot: Boot, token: str, flags: KubeletFlags) -> Join:
    """Read a discovery file: a kubeconfig with server and CA, and perhaps the token."""
    documents = read_yaml(written_file(path, boot=boot), what=path)
    config = documents[0] if documents else {}
    try:
        cluster = config["clusters"][0]["cluster"]
        server, encoded = str(cluster["server"]), str(cluster.get("certificate-authority-data", ""))
        users = [entry.get("user") or {} for entry in config.get("users") or []]
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise LocalPlaneError(f"{path}: it is no kubeconfig with a cluster") from error
    inside = next((str(user["token"]) for user in users if user.get("token")), "")
    named = str(cluster.get("certificate-authority", ""))
    authority = decoded(encoded, what=path) if encoded else (written_file(named, boot=boot) if named else "")
    return _complete(Join(style=KUBEADM, server=server, token=inside or token, authority=authority, flags=flags))


def _kubeadm_config(path: str, *, boot: Boot, flags: Mapping[str, Sequence[str]]) -> Join:
    documents = read_yaml(written_file(path, boot=boot), what=path)
    config = next((item for item in documents if item.get("kind") == "JoinConfiguration"), None)
    if config is None:
        raise LocalPlaneError(f"{path}: it has no JoinConfiguration")
    registration = config.get("nodeRegistration") or {}
    given = kubelet_flags(merged(flags, _registration_flags(registration)))
    discovery = config.get("discovery") or {}
    token = str(discovery.get("tlsBootstrapToken") or "")
    if "file" in discovery:
        return _from_kubeconfig(str(discovery["file"].get("kubeConfigPath")), boot=boot, token=token, flags=given)
    bootstrap = discovery.get("bootstrapToken") or {}
    return _complete(
        Join(
            style=KUBEADM,
            server=f"https://{str(bootstrap.get('apiServerEndpoint', '')).removeprefix('https://')}",
            token=token or str(bootstrap.get("token", "")),
            pins=tuple(str(pin) for pin in bootstrap.get("caCertHashes") or ()),
            unsafe=bool(bootstrap.get("unsafeSkipCAVerification")),
            flags=given,
        )
    )


def _registration_flags(registration: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return nodeRegistration as flags; extra arguments are a mapping (v1beta3) or a list (v1beta4)."""
    extra = registration.get("kubeletExtraArgs") or {}
    pairs = extra.items() if isinstance(extra, Mapping) else [(item["name"], item["value"]) for item in extra]
    flags = {str(name): [str(value)] for name, value in pairs}
    if registration.get("name"):
        flags["hostname-override"] = [str(registration["name"])]
    for taint in registration.get("taints") or ():
        flags.setdefault("register-with-taints", []).append(taint_text(taint))
    return flags


def _complete(join: Join) -> Join:
    if not BOOTSTRAP_TOKEN.fullmatch(join.token):
        raise LocalPlaneError(f"{join.style} join: the token has not the form abcdef.0123456789abcdef")
    if not join.authority and not join.pins and not join.unsafe:
        raise LocalPlaneError(f"{join.style} join: neither a CA nor --discovery-token-ca-cert-hash is given")
    return join


def _extra_args(boot: Boot) -> dict[str, list[str]]:
    """Return KUBELET_EXTRA_ARGS of the files that systemd reads them from, or of the script."""
    shell = boot.shell
    texts = [found for text in shell.files.values() if not text.startswith("#!") for found in _EXTRA_ARGS.findall(text)]
    if not texts and "KUBELET_EXTRA_ARGS" in shell.variables:
        texts = [shlex.quote(shell.variables["KUBELET_EXTRA_ARGS"])]
    words = [word for text in texts for part in shlex.split(text) for word in part.split()]
    return bare(options_of(words)[0])


def _from_node_env(boot: Boot) -> dict[str, list[str]]:
    """Return what the NodePool role's node.env says, for a script that hides its flags from us."""
    texts = [text for path, text in boot.shell.files.items() if PurePosixPath(path).name == _NODE_ENV]
    flags = {"NODE_LABELS": "node-labels", "NODE_TAINTS": "register-with-taints"}
    return {flags[name]: [value] for text in texts for name, value in _ENTRY.findall(text)}
