"""Finds the playbook or role that an entry of watches.yaml names.

A playbook's path starts from the working directory. A role is looked for where the peer looks, in its order:
collections (for `namespace.collection.role`), ANSIBLE_ROLES_PATH, `./roles`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from runner.watches.model import Content
from runner.watches.problems import WatchesError
from runner.watches.section import Section

_SYSTEM_COLLECTIONS = "/usr/share/ansible/collections"


class ContentFinder:
    """Resolves names to paths, with one working directory and environment."""

    def __init__(self, *, cwd: Path, environ: Mapping[str, str]) -> None:
        """Read ANSIBLE_ROLES_PATH, ANSIBLE_COLLECTIONS_PATH and HOME from *environ*."""
        self._cwd = cwd
        self._roles_path = environ.get("ANSIBLE_ROLES_PATH", "")
        home = environ.get("HOME", "")
        default = ":".join([_SYSTEM_COLLECTIONS, *([f"{home}/.ansible/collections"] if home else [])])
        self._collections_path = environ.get("ANSIBLE_COLLECTIONS_PATH", "") or default

    def find(self, section: Section) -> Content:
        """Return what *section* (an entry or its finalizer) runs; a playbook wins over a role.

        Raises:
            WatchesError: it names neither, or what it names is not there.
        """
        playbook, role = section.text("playbook"), section.text("role")
        if playbook:
            if role:
                field, winner = section.at("role").field, section.at("playbook").field
                section.note("role", f"{field} {role} is ignored, because {winner} is set")
            return Content(playbook=self._playbook(playbook, section=section))
        if role:
            return Content(role=self._role(role, section=section))
        raise section.place.error("must specify Role or Playbook", remedy="add `role: NAME` or `playbook: PATH`")

    def unresolved(self, section: Section) -> Content:
        """Return what *section* names without looking whether it is there."""
        playbook, role = section.text("playbook"), section.text("role")
        if playbook:
            return Content(playbook=self._join(playbook))
        return Content(role=self._join(role)) if role else Content()

    def _playbook(self, name: str, *, section: Section) -> Path:
        path = self._join(name)
        if _is(path, directory=False):
            return path
        raise self._missing("playbook", name, section=section, wrong=f"playbook: {path} was not found", looked="")

    def _role(self, name: str, *, section: Section) -> Path:
        candidates = list(self._candidates(name))
        for candidate in candidates:
            if _is(candidate, directory=True):
                return candidate
        looked = f" (looked for the folders {', '.join(map(str, candidates))})"
        raise self._missing("role", name, section=section, wrong=f"role: {name} was not found", looked=looked)

    @staticmethod
    def _missing(field: str, name: str, *, section: Section, wrong: str, looked: str) -> WatchesError:
        remedy = f"create it or correct the {'path' if field == 'playbook' else 'name'}"
        if "${" in name:
            remedy = "set the environment variable that it names"
        return section.error(field, wrong + looked, remedy=remedy)

    def _candidates(self, name: str) -> Iterator[Path]:
        if Path(name).is_absolute():
            yield Path(name)
            return
        parts = name.split(".")
        if len(parts) == 3:
            namespace, collection, role = parts
            for folder in self._collections_path.split(":"):
                yield self._join(f"{folder or '.'}/ansible_collections/{namespace}/{collection}/roles/{role}")
        if self._roles_path:
            for folder in self._roles_path.split(":"):
                yield self._join(f"{folder or '.'}/{name}")
                yield self._join(f"{folder or '.'}/roles/{name}")
        yield self._join(f"roles/{name}")

    def _join(self, path: str) -> Path:
        """Return *path* from the working directory, without `.` and `..`."""
        return Path(os.path.normpath(self._cwd / path))


def _is(path: Path, *, directory: bool) -> bool:
    """Tell whether *path* is there and of the right sort; what may not be looked at counts as not there."""
    try:
        return path.is_dir() if directory else path.is_file()
    except OSError:
        return False
