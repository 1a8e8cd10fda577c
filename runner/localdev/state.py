"""What a later command needs to know of a running plane: `plane.json` in its folder, readable only by its owner.

`plane` creates the file before the first process starts, which also claims the folder, and writes it again with
each process, so that a plane whose starter was killed can still be stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runner.errors import LocalPlaneError
from runner.localdev.components import Ports
from runner.localdev.pki import write_private
from runner.localdev.processes import Process

NAME = "plane.json"
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class PlaneOptions:
    """What a plane is started with."""

    nodes: int = 0
    """Fake nodes, Ready when the start returns."""
    ec2: bool = False
    """Start the EC2 emulator too."""
    join_instances: bool = False
    """Play the machines behind the emulator's instances: they boot by their user data, and join as nodes."""
    apiserver_args: tuple[str, ...] = ()
    """Further flags of kube-apiserver; the last of two equal ones counts."""
    apiserver_port: int = 0
    """0: any free one."""
    start_limit: float = 180.0
    """Seconds after which a start has failed."""


@dataclass(frozen=True, kw_only=True)
class PlaneState:
    """The content of the file."""

    assets: Path
    ports: Ports
    options: PlaneOptions
    made_folder: bool
    """We made the folder itself, and remove it at the end."""
    ready: bool = False
    processes: Mapping[str, Process] = field(default_factory=dict)
    """By name, in their start order."""

    def claim(self, folder: Path) -> None:
        """Write the first state.

        Raises:
            LocalPlaneError: there is one already: a plane runs here, or is being started.
        """
        try:
            os.close(os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError as error:
            raise LocalPlaneError(
                f"{folder} has a control plane already: use it, stop it (`ansible-operator dev down`), "
                "or name another folder"
            ) from error
        self.write(folder)

    def write(self, folder: Path) -> None:
        """Replace the file at once."""
        processes = {name: {"pid": process.pid, "started": process.started} for name, process in self.processes.items()}
        document = {
            "version": _VERSION,
            "assets": str(self.assets),
            "ports": asdict(self.ports),
            "options": asdict(self.options),
            "made_folder": self.made_folder,
            "ready": self.ready,
            "processes": processes,
        }
        write_private(folder / NAME, json.dumps(document, indent=1).encode())


def exists(folder: Path) -> bool:
    """Tell whether *folder* belongs to a plane, running or not."""
    return (folder / NAME).exists()


def read(folder: Path) -> PlaneState:
    """Read the state in *folder*.

    Raises:
        LocalPlaneError: there is none, or it can't be understood.
    """
    path = folder / NAME
    try:
        document = json.loads(path.read_bytes())
        return _parse(document, folder=folder)
    except FileNotFoundError as error:
        raise LocalPlaneError(
            f"no control plane in {folder} ({NAME} is missing): start one with `ansible-operator dev up`"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LocalPlaneError(
            f"cannot read {path} ({type(error).__name__}: {error}): end the processes whose command lines name "
            f"{folder}, remove that folder and start again"
        ) from error


def _parse(document: Mapping[str, Any], *, folder: Path) -> PlaneState:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']}, expected {_VERSION}")
    options = dict(document["options"])
    options["apiserver_args"] = tuple(options["apiserver_args"])
    processes = {
        name: Process(
            name=name, pid=int(entry["pid"]), started=str(entry["started"]), log=folder / "logs" / f"{name}.log"
        )
        for name, entry in document["processes"].items()
    }
    return PlaneState(
        assets=Path(document["assets"]),
        ports=Ports(**document["ports"]),
        options=PlaneOptions(**options),
        made_folder=bool(document["made_folder"]),
        ready=bool(document["ready"]),
        processes=processes,
    )
