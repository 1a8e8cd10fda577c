"""Whoever looks at what a run left can't tell whether it was warm: events, results, files, modes, processes."""

from __future__ import annotations

import os

import pytest

from tests.integration.equality.cases import AFTER_BAD_ONES, BAD_ONES, CASES, CREDENTIALS, PROBE, Case
from tests.integration.equality.recorder import Recorder
from tests.integration.equality.recording import differences

_AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else without a password")


def _parameter(case: Case) -> object:
    marks = [*([pytest.mark.full] if case.full else []), *([_AS_ROOT] if case.root else [])]
    return pytest.param(case, id=case.name.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_a_warm_run_leaves_what_a_cold_one_does(recorder: Recorder, case: Case) -> None:
    """Events in their order, outcome, files with their modes, and processes are the same but for what `masks` names."""
    pair = recorder.pair(case)
    found = "\n".join(differences(pair.cold, pair.warm))
    assert not found, found
    outcome = pair.cold.texts["outcome"]
    assert case.ends in outcome, outcome
    assert ('"success": true' in outcome) == (not case.ends), outcome
    assert case.cold or not pair.went_cold, pair.went_cold


@pytest.mark.cases(PROBE, *BAD_ONES, AFTER_BAD_ONES)
def test_a_run_after_bad_ones_is_as_the_first_one(recorder: Recorder) -> None:
    """What modules of earlier runs changed, leaked or broke is nowhere to be seen."""
    found = "\n".join(differences(recorder.pair(PROBE).cold, recorder.pair(AFTER_BAD_ONES).warm))
    assert not found, found


@pytest.mark.cases(PROBE)
def test_modules_of_warm_runs_are_forked(recorder: Recorder) -> None:
    """The command line of a module's process is the fork server's, and a cold one's is its own."""
    pair = recorder.pair(PROBE)
    assert any("/warm/far/__main__.py " in line for line in pair.warm.witnessed), pair.warm.witnessed
    assert all("/AnsiballZ_probe.py" in line for line in pair.cold.witnessed), pair.cold.witnessed


@pytest.mark.cases(PROBE, *BAD_ONES)
def test_a_fork_server_survives_what_its_modules_do(recorder: Recorder) -> None:
    """It comes up once for each environment, and logs no error and no warning of its own."""
    for case in (PROBE, *BAD_ONES):
        recorder.pair(case)
    of_servers = [entry for entry in recorder.log if entry["logger"] == "warm" and entry["level"] in {"warn", "error"}]
    assert not of_servers, of_servers


@pytest.mark.cases(*CREDENTIALS)
def test_random_values_never_come_twice(recorder: Recorder) -> None:
    """Modules of one run, and of two runs, draw different numbers, tokens and UUIDs."""
    drawn = [str(value) for case in CREDENTIALS for value in recorder.pair(case).warm.drawn]
    assert len(drawn) == len(set(drawn)) > 20, drawn


@pytest.mark.cases(*CREDENTIALS)
def test_each_object_has_its_own_credentials(recorder: Recorder) -> None:
    """A warm run uses the web identity token as it is at that moment, and nothing of the run before."""
    for case, token in zip(CREDENTIALS, ("one", "two"), strict=True):
        keys = recorder.pair(case).warm.keys
        assert keys == [
            f"key-for-token-{token}",
            f"key-for-rotated-{token}",
            f"of-{token}",
            f"of-profile-{token}",
            f"key-for-rotated-{token}",
        ]
