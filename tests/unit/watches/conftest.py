"""A project folder with a watches file, for the loader's tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.settings import Settings
from runner.watches.loader import Watches, load_watches
from runner.watches.model import Watch


@dataclass(frozen=True, kw_only=True)
class Project:
    """A folder with one role, `web`, and one playbook, `play.yml`."""

    folder: Path

    def add(self, *folders: str) -> None:
        """Make folders below the project."""
        for folder in folders:
            (self.folder / folder).mkdir(parents=True)

    def load(self, text: str, *, environ: Mapping[str, str] | None = None, settings: Settings | None = None) -> Watches:
        """Load *text* as watches.yaml, in *environ* and nothing else."""
        (self.folder / "watches.yaml").write_text(text)
        return load_watches(
            Path("watches.yaml"),
            settings=settings or Settings(max_concurrent_reconciles=4),
            environ=environ or {},
            cwd=self.folder,
        )

    def one(self, text: str, *, environ: Mapping[str, str] | None = None, settings: Settings | None = None) -> Watch:
        """Load *text* and return its only watch, after checking that it gave no notes."""
        loaded = self.load(text, environ=environ, settings=settings)
        assert [note for note in loaded.notes if "has no effect" not in note] == []
        (watch,) = loaded.watches
        return watch


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project in a fresh folder."""
    made = Project(folder=tmp_path)
    made.add("roles/web")
    (tmp_path / "play.yml").write_text("[]\n")
    return made
