"""The seam to whoever gives each run its way to the API server: `cold` asks, `runner.assembly.run_access` answers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from runner.execution.executor import RunRequest


class KubeconfigSource(Protocol):
    """Gives each run a kubeconfig."""

    def for_run(self, request: RunRequest, *, folder: Path) -> AbstractContextManager[Path]:
        """Return a context in which a kubeconfig for *request* exists, as a private file in *folder*."""
        ...
