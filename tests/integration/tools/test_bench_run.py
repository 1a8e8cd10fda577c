"""`make bench` on a real control plane, with one round."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runner.localdev.plane import ControlPlane
from tools.bench import report
from tools.bench.__main__ import main


@pytest.mark.timeout(600)
def test_a_run_prints_a_table_and_keeps_its_values(
    plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cold run takes longer than its API calls alone, and a run of one section leaves the document as it is."""
    document, values = report.DOCUMENT.read_bytes(), tmp_path / "values.json"
    arguments = ["one-task", "--only=floor,cold", "--rounds=1", f"--plane={plane.folder}", f"--record={values}"]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert re.search(r"\| one-task role: created to Successful, s \| \d+\.\d\d \(1\) \| \d+\.\d\d \(1\) \|", told)
    assert re.search(r"- \*\*cold\*\*: ours with `--executor=cold`; ansible-core \d", told)
    found = json.loads(values.read_text())
    assert found["notes"] == []
    for key in ("one-task/new", "one-task/edit", "one-task/cpu"):
        assert found["values"][key]["cold"] > found["values"][key]["floor"]
    assert report.DOCUMENT.read_bytes() == document
