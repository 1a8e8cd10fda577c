"""Where the official client keeps certificates and keys that stand in a kubeconfig: OpenSSL reads them from files only.

The client removes them when Python ends in good order. This folder of the process goes in other cases, too: with
`remove_folder` before a hard exit, and by the sweep of the next operator after a SIGKILL.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from runner import owner

PREFIX = "ansible-operator-kube-"
_made: list[Path] = []
"""The folder of this process, once there is one."""


def folder() -> Path:
    """Return the folder, 0700 and marked as this process's; make it the first time.

    Raises:
        OSError: it cannot be made.
    """
    if not _made:
        made = Path(tempfile.mkdtemp(prefix=PREFIX)).absolute()
        _made.append(made)
        atexit.register(remove_folder)
        owner.mark(made)
    return _made[0]


def remove_folder() -> None:
    """Remove the folder; this process can read no kubeconfig with a key in it afterwards."""
    for path in _made:
        shutil.rmtree(path, ignore_errors=True)
