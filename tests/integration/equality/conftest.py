"""Has the cases that were asked for played by a recorder, once per ansible-core; each test waits for its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator

import pytest

from tests.integration.environments.interpreters import CORES, interpreter_of
from tests.integration.equality.cases import WORLDS, Case
from tests.integration.equality.recorder import Recorder
from tests.integration.equality.sides import Surroundings
from tests.integration.equality.web import web_server


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark by which a test names cases that it reads besides its parameter."""
    config.addinivalue_line("markers", "cases(*cases): cases of the equality suite that a test reads")


@pytest.fixture(scope="module", params=CORES)
def recorder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """Give what plays the cases that tests of this module name in their parameters or their `cases` mark."""
    python = interpreter_of(request.param)
    cases = _wanted(request, core=request.param)
    root = tmp_path_factory.mktemp(f"equality-{request.param}")
    plane = request.getfixturevalue("plane") if any(case.world == "cluster" for case in cases) else None
    previous, tempfile.tempdir = tempfile.tempdir, str(root / "scratch")
    (root / "scratch").mkdir()
    try:
        with web_server() as web:
            surroundings = {
                name: Surroundings(
                    python=python,
                    environ=environ,
                    web=web,
                    kubeconfig=plane.kubeconfig if plane is not None and name == "cluster" else None,
                )
                for name, environ in WORLDS.items()
            }
            with Recorder(cases, surroundings=surroundings, root=root) as playing:
                yield playing
    finally:
        tempfile.tempdir = previous


def _wanted(request: pytest.FixtureRequest, *, core: str) -> list[Case]:
    """Return the cases of the tests that will run on *core*, each once, in their order."""
    found: dict[str, Case] = {}
    for item in request.session.items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if parameters.get("recorder") == core:
            marked: Iterable[Case] = [case for mark in item.iter_markers("cases") for case in mark.args]
            named = [parameters["case"]] if "case" in parameters else []
            found.update({case.name: case for case in (*named, *marked)})
    return list(found.values())
