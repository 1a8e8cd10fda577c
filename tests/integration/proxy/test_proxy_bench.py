"""The commands that time and load the proxy, with small numbers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from runner.kube.client import KubeClient
from runner.localdev.plane import ControlPlane
from tests.integration.proxy.proxied import proxied
from tools.proxy_bench.__main__ import main


@pytest.mark.parametrize(
    ("requests", "seconds", "changes"), [(100, 2, 10), pytest.param(2_000, 30, 50, marks=pytest.mark.full)]
)
def test_the_soak_tells_what_the_operator_holds(
    plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str], requests: int, seconds: int, changes: int
) -> None:
    """Every request is answered, every dependent is changed, and memory, files and threads are told."""
    samples = tmp_path / "samples.csv"
    sizes = [f"--requests={requests}", f"--seconds={seconds}", f"--changes={changes}"]
    assert main(["soak", f"--plane={plane.kubeconfig.parent}", *sizes, f"--samples={samples}"]) == 0
    told = capsys.readouterr().out
    assert f"{requests} requests through the proxy" in told
    assert f"{changes * seconds} changes of dependents" in told
    assert "broken connections: none" in told
    assert " 403" not in told
    assert re.search(r"\| open files \| \d+\.\d \| \d+\.\d \|", told)
    rows = samples.read_text().splitlines()
    assert rows[0] == "seconds,memory_mib,files,threads,cpu_seconds"
    assert len(rows) > seconds // 2


async def test_the_latency_table_has_a_row_per_way(
    plane: ControlPlane, kube: KubeClient, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kind of request is measured directly and through a proxy that is given, watch events among them."""
    async with proxied(plane.kubeconfig, kube=kube, namespace=namespace) as proxy:
        sizes = ["--requests=10", "--connections", "2"]
        arguments = ["latency", f"--plane={plane.kubeconfig.parent}", f"--proxy={proxy.url}", *sizes]
        assert await asyncio.to_thread(main, arguments) == 0
    told = capsys.readouterr().out
    for work in ("GET one ConfigMap", "GET /version", "LIST 100 ConfigMaps", "POST a ConfigMap"):
        assert re.search(rf"\| {work} \| 2 \| direct \| 10 \|", told)
        assert re.search(rf"\| {work} \| 2 \| proxy \| 10 \|", told)
    assert told.count("| watch event after a PATCH |") == 2
