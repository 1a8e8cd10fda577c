"""Reads what starts a k3s agent: the program or the script that installs it, its environment, its config.yaml."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from runner.errors import LocalPlaneError
from runner.localdev.machines.cloud_init import Boot
from runner.localdev.machines.flags import bare, kubelet_flags, last, merged, options_of
from runner.localdev.machines.join import BOOTSTRAP_TOKEN, K3S, Join, read_yaml, written_file

_CONFIG = "/etc/rancher/k3s/config.yaml"
_MORE_CONFIG = f"{_CONFIG}.d/"
_K3S_TOKEN = re.compile(r"(?:K10(?P<hash>[0-9a-f]{64})::)?(?P<credential>.*)", re.DOTALL)


def starts_agent(words: Sequence[str], *, boot: Boot) -> bool:
    """Tell whether *words* start an agent: the program itself, or the script that installs it."""
    if PurePosixPath(words[0]).name == "k3s":
        return "agent" in words
    known = boot.shell.variables
    configured = "K3S_URL" in known or "agent" in words or "agent" in known.get("INSTALL_K3S_EXEC", "")
    installs = any("get.k3s.io" in word or "k3s-install" in word for word in (*words, *_all_words(boot)))
    return configured and installs and (words[0] in {"sh", "bash"} or "k3s" in words[0])


def _all_words(boot: Boot) -> Iterable[str]:
    return (word for words in boot.shell.commands for word in words)


def k3s_join(words: Sequence[str], *, boot: Boot) -> Join:
    """Return the join of the agent that *words* start.

    Raises:
        LocalPlaneError: something is missing or can't be read, or it needs a k3s server.
    """
    known = boot.shell.variables
    after = list(words[words.index("agent") + 1 :]) if "agent" in words else []
    given = bare(options_of([*shlex.split(known.get("INSTALL_K3S_EXEC", "")), *after])[0])
    options = merged(_k3s_file(boot), _environment(known), given)
    server = last(options, "s", "server")
    if not server:
        raise LocalPlaneError("k3s agent: it is given no server")
    digest, token = _token(options, boot=boot)
    return Join(
        style=K3S,
        server=server,
        token=token,
        pins=(f"sha256:{digest}",) if digest else (),
        unsafe=not digest,  # k3s trusts the first that answers
        flags=kubelet_flags(_k3s_flags(options)),
    )


def _environment(variables: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the options that an agent takes from its environment."""
    names = {"K3S_URL": "server", "K3S_TOKEN": "token", "K3S_TOKEN_FILE": "token-file", "K3S_NODE_NAME": "node-name"}
    return {option: [variables[name]] for name, option in names.items() if variables.get(name)}


def _token(options: Mapping[str, Sequence[str]], *, boot: Boot) -> tuple[str, str]:
    """Return the hash of the server's CA, empty where the token has none, and the bootstrap token."""
    path = last(options, "token-file")
    text = last(options, "t", "token") or (written_file(path, boot=boot).strip() if path else "")
    found = _K3S_TOKEN.fullmatch(text)
    if found is None or not BOOTSTRAP_TOKEN.fullmatch(found["credential"]):
        raise LocalPlaneError(
            "k3s agent: the token is none of `k3s token create`; a local control plane has no k3s server, "
            "it knows bootstrap tokens only"
        )
    return found["hash"] or "", found["credential"]


def _k3s_file(boot: Boot) -> dict[str, list[str]]:
    """Return the options in config.yaml and in the folder beside it, whose files are read in order."""
    files = boot.shell.files
    config: dict[str, list[str]] = {}
    for path in [_CONFIG, *sorted(path for path in files if path.startswith(_MORE_CONFIG))]:
        for part in read_yaml(files.get(path, ""), what=path):
            config |= {str(name): _texts(value) for name, value in part.items()}
    return config


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _k3s_flags(options: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the kubelet's flags among an agent's options."""
    passed = [f"--{text.removeprefix('--')}" for text in options.get("kubelet-arg", ())]
    flags = bare(options_of(passed)[0])
    for own, flag in {"node-label": "node-labels", "node-taint": "register-with-taints"}.items():
        flags.setdefault(flag, []).extend(options.get(own, ()))
    if chosen := last(options, "node-name"):
        flags["hostname-override"] = [chosen]
    return flags
