"""Long steps: what they say, what they remember, and how they fail."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tools.steps import Step, StepError, Steps

WAIT_FOR_FILE = "import os, sys\nwhile not os.path.exists(sys.argv[1]): pass"


class Watched(io.StringIO):
    """An output that creates a file as soon as a heartbeat with a text is written: what the waiting child ends by."""

    def __init__(self, signal: Path, *, text: str) -> None:
        """Create *signal* at the first heartbeat that tells *text*."""
        super().__init__()
        self.signal = signal
        self.text = text

    def write(self, text: str) -> int:
        """Look for the heartbeat in *text*."""
        if f" ... {self.text}" in text:
            self.signal.touch()
        return super().write(text)


def step(code: str, *arguments: str) -> Step:
    """Return a step that runs a line of Python."""
    return Step(name="setup: sample", doing="do the sample", command=(sys.executable, "-c", code, *arguments))


def test_a_step_says_what_it_does_and_how_long_it_took_last_time(tmp_path: Path) -> None:
    """The first run has no estimate, the second one names the time of the first."""
    out = io.StringIO()
    (tmp_path / "durations.json").write_text(json.dumps({"setup: sample": 171.4, "other": 3}))
    steps = Steps(cache=tmp_path, out=out)
    steps.run(step("pass"))
    assert out.getvalue().startswith("do the sample (last time 171 s)\n")
    remembered = steps.durations()
    assert remembered["other"] == 3
    assert remembered["setup: sample"] < 171


def test_a_broken_file_of_durations_is_as_good_as_none(tmp_path: Path) -> None:
    """Somebody else's half-written file costs the estimate, not the set-up."""
    (tmp_path / "durations.json").write_text('{"setup: sam')
    out = io.StringIO()
    Steps(cache=tmp_path, out=out).run(step("pass"))
    assert out.getvalue().startswith("do the sample\n")
    assert json.loads((tmp_path / "durations.json").read_text())


def test_a_step_without_a_terminal_shows_whole_lines_with_the_last_line_of_its_log(tmp_path: Path) -> None:
    """A heartbeat comes while the step runs, and tells what it is at."""
    out = Watched(tmp_path / "go", text="Collecting things")
    code = f"print('Collecting things', flush=True)\n{WAIT_FOR_FILE}"
    Steps(cache=tmp_path, out=out, heartbeat=0.05).run(step(code, str(tmp_path / "go")))
    assert any(line.endswith("... Collecting things") for line in out.getvalue().splitlines())
    assert "\r" not in out.getvalue()


def test_a_failed_step_names_tail_log_and_the_way_on(tmp_path: Path) -> None:
    """The error has the exit code, the end of the log, its path and what to run next."""
    with pytest.raises(StepError) as caught:
        Steps(cache=tmp_path, out=io.StringIO()).run(step("import sys; print('it broke'); sys.exit(3)"))
    said = str(caught.value)
    assert "could not do the sample: exit code 3" in said
    assert "    it broke" in said
    assert f"whole log: {tmp_path / 'logs' / 'setup-sample.log'}" in said
    assert "make setup" in said
    assert Steps(cache=tmp_path, out=io.StringIO()).durations() == {}


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("[Errno -3] Temporary failure in name resolution", "check network, proxy"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "nothing was installed"),
    ],
)
def test_a_failure_with_a_known_cause_names_its_remedy(tmp_path: Path, line: str, remedy: str) -> None:
    """No network and a wrong hash are told apart from other failures."""
    with pytest.raises(StepError, match=remedy):
        Steps(cache=tmp_path, out=io.StringIO()).run(step("import sys; sys.exit(sys.argv[1])", line))
