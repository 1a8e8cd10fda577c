"""Reads user data as cloud-init and EKS's nodeadm do: files to write, scripts to run, configurations of nodes.

user data -> `boot` (here, by way of `shell`) -> `styles` (the join in it) -> `discovery`, `kubelet`
"""

from __future__ import annotations

import base64
import binascii
import email
import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from runner.errors import LocalPlaneError
from runner.localdev.machines.metadata import Metadata
from runner.localdev.machines.shell import Shell

_CLOUD_CONFIG = "text/cloud-config"
_SCRIPT = "text/x-shellscript"
_NODE_CONFIG = "application/node.eks.aws"
_MULTIPART = ("content-type: multipart", "mime-version:")


@dataclass(kw_only=True)
class Boot:
    """What the first boot of a machine leaves: files, variables and commands of its scripts."""

    shell: Shell
    node_configs: list[Mapping[str, Any]] = field(default_factory=list)
    """EKS's NodeConfig objects."""


def boot(user_data: str, *, metadata: Metadata) -> Boot:
    """Return what *user_data* makes of a machine; nothing of it is executed.

    Raises:
        LocalPlaneError: a part can't be read.
    """
    booted = Boot(shell=Shell(substitute=metadata.answer))
    for kind, text in _parts(user_data):
        if kind == _SCRIPT:
            booted.shell.read(text)
        elif kind == _CLOUD_CONFIG:
            _cloud_config(_mapping(text, what="the cloud-config"), shell=booted.shell)
        elif kind == _NODE_CONFIG:
            booted.node_configs.append(_mapping(text, what="the NodeConfig"))
    return booted


def _parts(user_data: str) -> list[tuple[str, str]]:
    """Return the parts with their types, as cloud-init finds them out."""
    text = user_data.lstrip()
    if text.lower().startswith(_MULTIPART):
        found = [part for part in email.message_from_string(text).walk() if not part.is_multipart()]
        return [(part.get_content_type(), _payload(part.get_payload(decode=True))) for part in found]
    if text.startswith("#cloud-config"):
        return [(_CLOUD_CONFIG, text)]
    if text.startswith("#!"):
        return [(_SCRIPT, text)]
    if "apiVersion: node.eks.aws/" in text:
        return [(_NODE_CONFIG, text)]
    return []


def _payload(raw: object) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else ""


def _mapping(text: str, *, what: str) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise LocalPlaneError(f"{what} in the user data is no YAML{where(error)}") from error
    return found if isinstance(found, Mapping) else {}


def where(error: yaml.YAMLError) -> str:
    """Return what is wrong and in which line; a parser's own text quotes the lines, which may hold a token."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f": line {mark.line + 1}: {problem}" if mark is not None else ""


def _cloud_config(config: Mapping[str, Any], *, shell: Shell) -> None:
    for entry in config.get("write_files") or []:
        shell.files[str(entry.get("path"))] = _content(entry)
    for key in ("bootcmd", "runcmd"):
        for item in config.get(key) or []:
            if isinstance(item, list):
                shell.run([str(word) for word in item] or [":"])
            else:
                shell.read(str(item))


def _content(entry: Mapping[str, Any]) -> str:
    content, encoding = entry.get("content", ""), str(entry.get("encoding", ""))
    raw = content if isinstance(content, bytes) else str(content).encode()
    try:
        if "b64" in encoding or "base64" in encoding:
            raw = base64.b64decode(raw)
        if "gz" in encoding:
            raw = gzip.decompress(raw)
        return raw.decode()
    except (binascii.Error, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise LocalPlaneError(f"the file {entry.get('path')} in the user data isn't {encoding}: {error}") from error
