"""Each test of this folder runs its plays on every supported ansible-core."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from runner.execution.executor import RunRequest
from runner.watches.model import Content
from tests.integration.environments.interpreters import CORES, interpreter_of
from tests.integration.execution.bench import Bench


class _OwnBench(Bench):
    """A bench whose runs nobody else's clean-up takes for its own: ids are the marks of a run's processes."""

    def request(self, content: Content, *, spec: Mapping[str, Any] | None = None, **watch: Any) -> RunRequest:
        """Return a request as `Bench.request` does, with a random id as in production."""
        return replace(super().request(content, spec=spec, **watch), ident=str(secrets.randbits(63)))


@dataclass(frozen=True, kw_only=True)
class Plays:
    """The environment that the plays of a test run on."""

    core: str
    """The series of its ansible-core."""
    python: str

    def bench(self, root: Path, **environ: str) -> Bench:
        """Return a bench in *root* whose runs take place in this environment."""
        root.mkdir(parents=True, exist_ok=True)
        bench = _OwnBench(root, environ=environ)
        bench.settings = replace(bench.settings, ansible_python=self.python)
        return bench

    def is_that_of(self, seen: dict[str, Any]) -> bool:
        """Tell whether what a play wrote was written in this environment."""
        return seen["core"].startswith(f"{self.core}.") and Path(seen["python"]).parent == Path(self.python).parent


@pytest.fixture(scope="module", params=CORES)
def plays(request: pytest.FixtureRequest) -> Plays:
    """Give the environment for plays; ansible-core 2.18 in `make test-full` only."""
    return Plays(core=request.param, python=interpreter_of(request.param))
