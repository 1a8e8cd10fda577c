"""The kubeconfig that one run gets: a private file with the operator's own rights, gone when the run ends.

`cold` takes any `KubeconfigSource`; an owner-injecting proxy is another one.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import yaml

from runner.errors import ExecutionError
from runner.execution.executor import RunRequest
from runner.execution.files import write_private
from runner.kube.service_account import SERVICE_ACCOUNT
from runner.settings import KubeSettings

_PATH_KEYS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_REMEDY = "set KUBECONFIG to a kubeconfig file, or run inside a cluster with a service account"


class KubeconfigSource(Protocol):
    """Gives each run a kubeconfig."""

    def for_run(self, request: RunRequest, *, folder: Path) -> AbstractContextManager[Path]:
        """Return a context in which a kubeconfig for *request* exists, as a private file in *folder*."""
        ...


class RunKubeconfig:
    """Copies the operator's own configuration into one self-contained file for each run."""

    def __init__(
        self, *, settings: KubeSettings, environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT
    ) -> None:
        """Read where *settings* say; inside a cluster the server's address is in *environ*."""
        self._settings = settings
        self._environ = environ
        self._service_account = service_account

    @contextlib.contextmanager
    def for_run(self, request: RunRequest, *, folder: Path) -> Iterator[Path]:
        """Write the file, and remove it in the end; credentials are read again for each run."""
        del request  # every run has the operator's rights
        path = folder / "kubeconfig"
        write_private(path, json.dumps(self._document()))
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _document(self) -> Mapping[str, Any]:
        if self._settings.kubeconfig:
            return flatten([Path(part) for part in self._settings.kubeconfig.split(":") if part])
        if (self._service_account / "token").exists():
            return in_cluster(environ=self._environ, service_account=self._service_account)
        return flatten([Path("~/.kube/config")])


def flatten(paths: list[Path]) -> dict[str, Any]:
    """Merge kubeconfig files, the first one winning per name as in $KUBECONFIG; relative paths become absolute.

    Raises:
        ExecutionError: none of the files is there, or one is broken.
    """
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": ""}
    entries: dict[str, dict[str, Any]] = {"clusters": {}, "users": {}, "contexts": {}}
    found = [path.expanduser().absolute() for path in paths if path.expanduser().exists()]
    if not found:
        raise ExecutionError(f"no kubeconfig at {', '.join(str(path) for path in paths)}: {_REMEDY}")
    for path in found:
        document = _read(path)
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for section, known in entries.items():
            for entry in document.get(section) or []:
                known.setdefault(entry["name"], _absolute(entry, base=path.parent))
    return {**merged, **{section: list(known.values()) for section, known in entries.items()}}


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
        if isinstance(document, dict):
            return document
        problem = "its content is no mapping"
    except (OSError, UnicodeDecodeError) as error:
        problem = str(error)
    except yaml.YAMLError:
        problem = "it is no YAML"  # the parser's own sentence may quote a credential
    raise ExecutionError(f"cannot use the kubeconfig {path}: {problem}; {_REMEDY}")


def _absolute(entry: Mapping[str, Any], *, base: Path) -> dict[str, Any]:
    """Return a copy of a named entry with its file names, and an exec plugin's, resolved against *base*."""
    section = next((key for key in ("cluster", "user", "context") if key in entry), "")
    body = dict(entry.get(section) or {})
    body.update({key: str(base / body[key]) for key in _PATH_KEYS if body.get(key)})
    command = (body.get("exec") or {}).get("command", "")
    if "/" in command:  # a bare name is looked up in PATH
        body["exec"] = {**body["exec"], "command": str(base / command)}
    return {**entry, section: body}


def in_cluster(*, environ: Mapping[str, str], service_account: Path) -> dict[str, Any]:
    """Return a kubeconfig for the pod's service account; the token stays in its file, where it is rotated."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ExecutionError(f"KUBERNETES_SERVICE_HOST is not set though {service_account} exists: {_REMEDY}")
    address = f"[{host}]" if ":" in host else host
    namespace = service_account / "namespace"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "in-cluster",
        "clusters": [
            {
                "name": "in-cluster",
                "cluster": {
                    "server": f"https://{address}:{port}",
                    "certificate-authority": str(service_account / "ca.crt"),
                },
            }
        ],
        "users": [{"name": "in-cluster", "user": {"tokenFile": str(service_account / "token")}}],
        "contexts": [
            {
                "name": "in-cluster",
                "context": {
                    "cluster": "in-cluster",
                    "user": "in-cluster",
                    "namespace": namespace.read_text().strip() if namespace.exists() else "default",
                },
            }
        ],
    }
