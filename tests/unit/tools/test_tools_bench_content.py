"""What the operators under test run, and when one of their objects is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.bench.__main__ import main
from tools.bench.content import KINDS, Project
from tools.bench.contestants import doubts
from tools.bench.watching import completion, ready, successful


def _object(*, generation: int = 1, running: str = "Successful", observed: int | None = None) -> dict[str, Any]:
    success: dict[str, Any] = {"type": "Successful", "status": "True", "reason": "Successful"}
    if observed is not None:
        success["observedGeneration"] = observed
    result = {"completion": "2026-11-30T03:00:00.1+00:00"}
    state = {"type": "Running", "status": "True", "reason": running, "ansibleResult": result}
    return {"metadata": {"name": "a", "generation": generation}, "status": {"conditions": [state, success]}}


def test_an_object_is_done_when_both_conditions_say_so() -> None:
    """A run that is still under way, and an object without a status, are not done."""
    assert successful(_object())
    assert not successful(_object(running="Running"))
    assert not successful({"metadata": {"name": "a", "generation": 1}})


def test_after_an_edit_the_old_success_does_not_count() -> None:
    """Ours is known by its generation, the peer's by a completion that isn't the old one."""
    assert not successful(_object(generation=2, observed=1))
    assert successful(_object(generation=2, observed=2))
    assert not successful(_object(generation=2), after=completion(_object()))
    assert successful(_object(generation=2), after="2026-11-30T02:00:00.1+00:00")


def test_ready_is_what_the_role_says() -> None:
    """The runtime's conditions play no part in it."""
    assert not ready(_object())
    assert ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})


def test_the_project_has_a_role_and_workers_for_each_kind(tmp_path: Path) -> None:
    """Every kind is watched, its role is there, and the batches differ in their workers only."""
    project = Project(folder=tmp_path, group="bench1.example.com", held=3, ec2=True)
    folder = project.write()
    watches = yaml.safe_load((folder / "watches.yaml").read_text())
    assert [watch["kind"] for watch in watches] == [*KINDS, "EC2Instance"]
    assert all((folder / "roles" / watch["role"] / "tasks/main.yml").exists() for watch in watches)
    suffix = "BENCH1_EXAMPLE_COM"
    assert project.workers() == {
        f"MAX_CONCURRENT_RECONCILES_TWOWORKERS_{suffix}": "2",
        f"MAX_CONCURRENT_RECONCILES_EIGHTWORKERS_{suffix}": "8",
        f"MAX_CONCURRENT_RECONCILES_HELD_{suffix}": "3",
    }


def test_a_section_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt section ends before anything is started, with the names that there are."""
    with pytest.raises(SystemExit):
        main(["one-tusk"])
    assert "there are memory, one-task, three-tasks, ec2, twenty" in capsys.readouterr().err


def test_warm_runs_that_went_cold_are_told(tmp_path: Path) -> None:
    """A log that tells of a fork server's end casts doubt on the figures, that it is ready does not."""
    log = tmp_path / "operator.log"
    log.write_text(
        '{"msg": "The fork server is ready: runs are warm"}\n{"msg": "Starting a run"}\nplain text\n[1]\n'
        '{"msg": "Runs go cold until there is a new fork server", "reason": "a role changed"}\n' * 2
    )
    assert doubts(log) == ["Runs go cold until there is a new fork server (a role changed)"]
