"""The programs of the control plane: where they are, and what is off without some of them.

`plane` starts what an `Assets` names. They come from $KUBEBUILDER_ASSETS (the folder that Go's envtest uses), else
from the cache, else they are built. Only etcd and kube-apiserver are needed; the rest is optional.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.errors import LocalPlaneError
from runner.localdev.build import build
from runner.localdev.cache import Cache, Report

_NEEDED = ("etcd", "kube-apiserver")
_WITHOUT = {
    "kube-controller-manager": "no garbage collection, no Deployments or Jobs, no service accounts (so no Pods)",
    "kube-scheduler": "Pods stay Pending",
    "kwok": "no fake nodes",
    "kubectl": "no `dev kubectl`",
}


@dataclass(frozen=True, kw_only=True)
class Assets:
    """The programs in one folder; None: not there, and what it does is off."""

    folder: Path
    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path | None = None
    kube_scheduler: Path | None = None
    kwok: Path | None = None
    kubectl: Path | None = None

    @property
    def api_only(self) -> bool:
        """Tell whether there is an API server but nothing that acts on its objects."""
        return self.kube_controller_manager is None

    def limits(self) -> tuple[str, ...]:
        """Return a sentence for each program that is missing."""
        present = {
            "kube-controller-manager": self.kube_controller_manager,
            "kube-scheduler": self.kube_scheduler,
            "kwok": self.kwok,
            "kubectl": self.kubectl,
        }
        return tuple(f"{name} is not in {self.folder}: {_WITHOUT[name]}" for name, path in present.items() if not path)


def in_folder(folder: Path, *, origin: str) -> Assets:
    """Return the programs in *folder*; *origin* is who named it, for the message.

    Raises:
        LocalPlaneError: etcd or kube-apiserver is missing or can't be executed.
    """
    remedy = "Unset it to use the programs that this package builds, or put the file there."
    if not folder.is_dir():
        raise LocalPlaneError(f"{origin} names {folder}, which is no folder. {remedy}")
    for name in _NEEDED:
        if _program(folder, name) is None:
            fault = "is not executable" if (folder / name).exists() else "is missing"
            raise LocalPlaneError(f"{origin} names {folder}, but the file {name} {fault} there. {remedy}")
    return Assets(
        folder=folder,
        etcd=folder / "etcd",
        kube_apiserver=folder / "kube-apiserver",
        kube_controller_manager=_program(folder, "kube-controller-manager"),
        kube_scheduler=_program(folder, "kube-scheduler"),
        kwok=_program(folder, "kwok"),
        kubectl=_program(folder, "kubectl"),
    )


def find(environ: Mapping[str, str], *, report: Report) -> Assets:
    """Return the programs: those that *environ* names, else the cached ones, else build them.

    Raises:
        LocalPlaneError: $KUBEBUILDER_ASSETS is wrong, or the build failed.
    """
    named = environ.get("KUBEBUILDER_ASSETS", "")
    if named:
        return in_folder(Path(named).expanduser().absolute(), origin="KUBEBUILDER_ASSETS")
    cache = Cache.of(environ)
    folder = cache.binaries if cache.binaries.is_dir() else build(environ, cache=cache, report=report)
    return in_folder(folder, origin="The cache")


def _program(folder: Path, name: str) -> Path | None:
    path = folder / name
    return path if path.is_file() and os.access(path, os.X_OK) else None
