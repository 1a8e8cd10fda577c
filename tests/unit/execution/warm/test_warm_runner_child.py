"""Which runs are forked at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runner.execution.warm.far import warmup
from runner.execution.warm.far.protocol import Run
from runner.execution.warm.far.runner_child import why_not

ARGV = ("/bin/python", "-P", "-m", "ansible_runner", "run", "/data", "-p", "/play.yml", "-i", "17")
STARTED_WITH = {"HOME": "/home", "ANSIBLE_OPERATOR_RUN": "0"}


@pytest.fixture(autouse=True)
def prepared() -> Iterator[None]:
    """Give a server that is prepared."""
    state = warmup.State(started_with=STARTED_WITH, why_never=None)
    former = warmup.replace_state(state)
    yield
    warmup.replace_state(former)


def run(*, argv: tuple[str, ...] = ARGV, environ: Mapping[str, str] | None = None) -> Run:
    """Return a run."""
    variables = {"HOME": "/home", "ANSIBLE_OPERATOR_RUN": "17", "TMPDIR": "/scratch", **(environ or {})}
    return Run(id=1, ident="17", argv=argv, environ=variables, cwd="/", complaints=str(Path("/dev/null")))


def test_warm_run_of_the_operator_is_forked() -> None:
    """A run with the server's variables and those of a run is forked."""
    assert why_not(run()) is None


def test_warm_run_with_other_variables_is_not_forked() -> None:
    """A variable of another value keeps a run from being forked, and only its name is told."""
    assert why_not(run(environ={"HOME": "secret"})) == "variables differ from the fork server's: HOME"


@pytest.mark.parametrize(
    "argv",
    [ARGV[:-2], (ARGV[0], *ARGV[2:]), (*ARGV[:3], "ansible_other", *ARGV[4:])],
    ids=["no ident", "no -P", "other"],
)
def test_warm_run_of_another_command_line_is_not_forked(argv: tuple[str, ...]) -> None:
    """A command line that isn't the operator's is started."""
    assert why_not(run(argv=argv)) == "it is no command line of the operator's"


def test_warm_run_is_not_forked_where_none_can_be() -> None:
    """What keeps every run from being forked is told."""
    warmup.replace_state(replace(warmup.State(), started_with=STARTED_WITH, why_never="ANSIBLE_DEBUG is on"))
    assert why_not(run()) == "ANSIBLE_DEBUG is on"
