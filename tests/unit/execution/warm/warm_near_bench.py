"""A near side over the stand-in of the far one (scripts/stand_in.py), for the tests of this folder."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from runner.execution.chosen import WarmContent
from runner.execution.launcher import PlayCommand
from runner.execution.processes import MARK, OWNER_MARK
from runner.execution.warm.server import Limits, ServerPlan
from runner.logs import Logger, RecordingSink
from runner.owner import own_identity
from runner.settings import ExecutionSettings, environment
from runner.testing.executor import run_request

SECRET = "hunter2hunter2"
_STAND_IN = Path(__file__).parent / "scripts" / "stand_in.py"
_ROOT = Path(__file__).parents[4]


class NearBench:
    """Settings, a log, and commands in one folder."""

    def __init__(self, root: Path) -> None:
        """Work in *root*."""
        self.root = root
        self.sink = RecordingSink()
        self.logger = Logger(level="debug", sink=self.sink)
        self._numbers = itertools.count(7001)

    def plan(
        self, mood: str = "", *, content: WarmContent | None = None, limits: Limits | None = None, collections: str = ""
    ) -> ServerPlan:
        """Return a plan of fork servers of that *mood*."""
        path = environment().get("PATH", "/usr/bin:/bin")
        own = {"PATH": path, "PYTHONPATH": str(_ROOT), "API_TOKEN": SECRET, "STAND_IN": mood, "HOME": str(self.root)}
        settings = ExecutionSettings(
            ansible_python=sys.executable,
            environ=own,
            collections_path=collections or str(self.root / "no-collections"),
            kill_grace=1.0,
        )
        return ServerPlan(
            settings=settings, content=content or WarmContent(), program=_STAND_IN, limits=limits or Limits()
        )

    def command(self, line: str) -> PlayCommand:
        """Return a command that runs the shell *line*, with an ident of its own."""
        ident = str(next(self._numbers))
        complaints = self.root / f"{ident}.err"
        complaints.touch()
        return PlayCommand(
            request=run_request(ident=ident),
            argv=["/bin/sh", "-c", line],
            environ={"PATH": "/usr/bin:/bin", MARK: ident, OWNER_MARK: own_identity()},
            complaints=complaints,
        )

    def records(self, sentence: str) -> list[dict[str, object]]:
        """Return the log's records that begin with *sentence*."""
        return [dict(record) for record in self.sink.records if str(record["msg"]).startswith(sentence)]
