"""What a machine keeps over a stop, and what one that was once booted doesn't do again: a folder per instance."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from runner.kube.objects import Object
from runner.localdev.pki import write_private

_STATE = "machine.json"
_CREDENTIALS = "kubelet.pem"


@dataclass(frozen=True, kw_only=True)
class Disk:
    """The disk of one machine after its first boot."""

    server: str = ""
    authority: str = ""
    node: Object | None = None
    """The Node as the kubelet registers it; None: the machine is in no cluster, and will never be."""
    reason: str = ""
    """Why it isn't."""


class Disks:
    """All disks; they outlive a restart of the simulator."""

    def __init__(self, folder: Path) -> None:
        """Keep them below *folder*, which is made where it isn't there."""
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def known(self) -> list[str]:
        """Return the instances that have a disk."""
        return sorted(path.parent.name for path in self._folder.glob(f"*/{_STATE}"))

    def read(self, instance: str) -> Disk | None:
        """Return an instance's disk, None where it was never booted."""
        path = self._folder / instance / _STATE
        return Disk(**json.loads(path.read_bytes())) if path.exists() else None

    def write(self, instance: str, disk: Disk, *, credentials: bytes = b"") -> None:
        """Keep *disk*, and the kubelet's certificate with its key."""
        place = self._folder / instance
        place.mkdir(mode=0o700, exist_ok=True)
        if credentials:
            write_private(self.credentials(instance), credentials)
        write_private(place / _STATE, json.dumps(asdict(disk)).encode())

    def credentials(self, instance: str) -> Path:
        """Return the file with the kubelet's certificate and key."""
        return self._folder / instance / _CREDENTIALS

    def remove(self, instance: str) -> None:
        """Forget an instance's disk; harmless where there is none."""
        shutil.rmtree(self._folder / instance, ignore_errors=True)
