"""Runs the cases that were asked for, both sides at the same time, once per ansible-core; each test reads its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner.execution.cold import ColdLauncher
from runner.execution.launcher import Launcher
from tests.integration.environments.interpreters import CORES, interpreter_of
from tests.integration.equality.cases import WORLDS, Case
from tests.integration.equality.recording import Recording
from tests.integration.equality.sides import Side, Surroundings, make_side, warm
from tests.integration.equality.web import web_server


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark by which a test names cases that it reads besides its parameter."""
    config.addinivalue_line("markers", "cases(*cases): cases of the equality suite that a test reads")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One case, as both sides played it."""

    cold: Recording
    warm: Recording


@dataclass(frozen=True, kw_only=True)
class Compared:
    """All cases of one ansible-core."""

    pairs: Mapping[str, Pair]
    log: tuple[Mapping[str, Any], ...]
    """What the warm sides logged."""

    def of(self, case: Case) -> Pair:
        """Return the pair of *case*."""
        return self.pairs[case.name]


@pytest.fixture(scope="session", params=CORES)
def compared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    """Give the recordings of the cases that tests of this session name in their parameters or their `cases` mark."""
    python = interpreter_of(request.param)
    cases = _wanted(request, core=request.param)
    root = tmp_path_factory.mktemp(f"equality-{request.param}")
    plane = request.getfixturevalue("plane") if any(case.world == "cluster" for case in cases) else None
    previous, tempfile.tempdir = tempfile.tempdir, str(root / "scratch")
    (root / "scratch").mkdir()
    try:
        with web_server() as web:
            worlds = {
                name: Surroundings(
                    python=python,
                    environ=environ,
                    web=web,
                    kubeconfig=plane.kubeconfig if plane is not None and name == "cluster" else None,
                )
                for name, environ in WORLDS.items()
            }
            yield asyncio.run(_compare(cases, worlds=worlds, root=root))
    finally:
        tempfile.tempdir = previous


def _wanted(request: pytest.FixtureRequest, *, core: str) -> list[Case]:
    """Return the cases of the tests that will run on *core*, each once, in their order."""
    found: dict[str, Case] = {}
    for item in request.session.items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if parameters.get("compared") == core:
            marked: Iterable[Case] = [case for mark in item.iter_markers("cases") for case in mark.args]
            named = [parameters["case"]] if "case" in parameters else []
            found.update({case.name: case for case in (*named, *marked)})
    return list(found.values())


async def _compare(cases: list[Case], *, worlds: Mapping[str, Surroundings], root: Path) -> Compared:
    pairs: dict[str, Pair] = {}
    log: list[Mapping[str, Any]] = []
    for world in dict.fromkeys(case.world for case in cases):
        (root / world).mkdir()
        own = [case for case in cases if case.world == world]
        cold_side, warm_side = (make_side(root / world / name, surroundings=worlds[world]) for name in ("cold", "warm"))
        async with warm(warm_side, cases=own) as launcher:
            cold, warmed = await asyncio.gather(
                _play(own, side=cold_side, launcher=ColdLauncher(settings=cold_side.settings)),
                _play(own, side=warm_side, launcher=launcher),
            )
        pairs.update({case.name: Pair(cold=cold[case.name], warm=warmed[case.name]) for case in own})
        log += warm_side.sink.records
    return Compared(pairs=pairs, log=tuple(log))


async def _play(cases: list[Case], *, side: Side, launcher: Launcher) -> dict[str, Recording]:
    return {case.name: await side.run(case, launcher=launcher) for case in cases}
