"""The start of the operator: what is told before a watches file is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.assembly.serve import serve
from runner.logs import Logger, RecordingSink
from runner.settings import Settings
from runner.watches.problems import WatchesError


async def test_what_was_odd_is_told_before_a_refusal(tmp_path: Path) -> None:
    """A misspelt key is often the reason of the one that is missing, so its note comes before the error."""
    file = tmp_path / "watches.yaml"
    file.write_text("- {version: v1, kind: Web, roles: web}\n")
    sink = RecordingSink()

    with pytest.raises(WatchesError, match="must specify Role or Playbook"):
        await serve(settings=Settings(watches_file=file), logger=Logger("cmd", sink=sink))

    assert [(record["level"], record["logger"], record.get("note")) for record in sink.records] == [
        ("warn", "watches", "line 1: unknown key roles is ignored; did you mean role?")
    ]
