"""Kubeconfig files for tests: pointing at a proxy, with a token (file), derived from another one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from runner.execution.executor import RunRequest
from runner.execution.files import write_private


class GivenKubeconfig:
    """A `KubeconfigSource` without a proxy: each run gets a copy of one kubeconfig, and its rights."""

    def __init__(self, source: Path) -> None:
        """Give copies of *source*."""
        self._source = source

    @contextlib.contextmanager
    def for_run(self, request: RunRequest, *, folder: Path) -> Iterator[Path]:
        """Write the copy into *folder*, and remove it in the end."""
        del request  # all of them are equal
        path = folder / "kubeconfig"
        write_private(path, self._source.read_bytes())
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def write_kubeconfig(path: Path, *, server: str, user: dict[str, Any] | None = None, insecure: bool = False) -> Path:
    """Write a kubeconfig for *server* to *path* (mode 0600) and return the path."""
    cluster: dict[str, Any] = {"server": server}
    if insecure:
        cluster["insecure-skip-tls-verify"] = True
    return _write(path, cluster=cluster, user=user or {})


def derived_kubeconfig(path: Path, *, source: Path, server: str = "", user: dict[str, Any] | None = None) -> Path:
    """Write *source*'s current cluster and user to *path*, with another *server* or *user* where given."""
    document = yaml.safe_load(source.read_text(encoding="utf-8"))
    context = _named(document["contexts"], document["current-context"])["context"]
    cluster = dict(_named(document["clusters"], context["cluster"])["cluster"])
    original = dict(_named(document["users"], context["user"])["user"])
    if server:
        cluster["server"] = server
    return _write(path, cluster=cluster, user=original if user is None else user)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _write(path: Path, *, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path
