"""Module payloads that an earlier run of the same content built, put where ansible-core looks for those of this run.

Ansible builds an archive of each module and what it imports once per `ansible-playbook`, in its folder of temporary
files. What goes into it is on the disk of the operator, and a server is replaced when that changes. It isn't where a
role or playbook brings modules or module utilities of its own: then nothing is kept, and what was put is taken away.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

FOLDER = "ansiballz_cache"
"""As ansible-core calls it, in its folder of temporary files (2.18, 2.19)."""
OWN_FOLDERS = frozenset({"library", "module_utils"})
"""Loaders' folders that change what a module of a given name is."""
_UNFINISHED = ("-part", ".lock")
_CONTENT = ("-p", "--playbook", "-r", "--role", "--roles-path")


def key_of(argv: Sequence[str]) -> str:
    """Return the name of what ansible-runner's *argv* plays: runs with one key play the same role or playbook."""
    given = [f"{name}={value}" for name, value in itertools.pairwise(argv) if name in _CONTENT]
    return hashlib.sha256("\0".join(given).encode(errors="surrogateescape")).hexdigest()[:32]


class PayloadCache:
    """The payloads of one run: from *store*, a folder of the server's, and back to it."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._target: Path | None = None
        self._put: set[Path] = set()
        self._spoiled = False

    def put(self, local_temp: Path) -> None:
        """Put what the store has into the folder that Ansible will look into, below *local_temp*."""
        self._target = local_temp / FOLDER
        names = _names_in(self._store)
        if names:
            self._target.mkdir(mode=0o755, exist_ok=True)
        for name in names:
            with contextlib.suppress(OSError):  # it will be built, as always
                os.link(self._store / name, self._target / name)
                self._put.add(self._target / name)

    def spoil(self, folder: str) -> None:
        """A loader was given a directory called *folder*: take back what was put where that may change modules."""
        if folder not in OWN_FOLDERS or self._spoiled:
            return
        self._spoiled = True
        for path in self._put:
            with contextlib.suppress(OSError):
                path.unlink()

    def keep(self) -> None:
        """Take into the store what this run built."""
        if self._target is None or self._spoiled:
            return
        with contextlib.suppress(OSError):
            self._store.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in _names_in(self._target):
                with contextlib.suppress(FileExistsError):
                    os.link(self._target / name, self._store / name)


def _names_in(folder: Path) -> list[str]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names are what is asked for
    except OSError:
        return []
    return [name for name in names if not name.endswith(_UNFINISHED)]
