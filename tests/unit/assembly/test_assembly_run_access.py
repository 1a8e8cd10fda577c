"""What joins executor and proxy: a kubeconfig for each run, with a secret that dies with it."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
import yaml

from runner.assembly.run_access import RunAccess
from runner.errors import ExecutionError
from runner.proxy.runs import CallerRefused
from runner.testing.executor import run_request


def header_of(kubeconfig: Path) -> str:
    """Return what a client of *kubeconfig* sends."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    return aiohttp.encode_basic_auth(user["username"], user["password"])


def test_the_kubeconfig_speaks_for_the_object_of_the_run(tmp_path: Path) -> None:
    """The file is private and names the proxy's port; its credentials are those of the run, while it lasts."""
    access = RunAccess()
    access.port = 12345
    with access.for_run(run_request(ident="7"), folder=tmp_path) as path:
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.read_text().count("@localhost:12345\n") == 1
        header = header_of(path)
        caller = access.runs.authenticate(header)
    assert caller is not None
    assert (caller.run, caller.owner.name, caller.owner.uid) == ("7", "probe", "8d7f0f0c")
    assert (str(caller.owner.gvk), caller.owner.namespace) == ("bugs.example.com/v1, Kind=Probe", "default")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CallerRefused, match="the run 7 is over"):
        access.runs.authenticate(header)


def test_a_run_without_a_proxy_is_refused(tmp_path: Path) -> None:
    """A run never starts with a kubeconfig that leads nowhere."""
    with pytest.raises(ExecutionError, match="does not listen"), RunAccess().for_run(run_request(), folder=tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
