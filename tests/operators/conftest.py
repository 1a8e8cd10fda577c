"""The bundled operator of this repository as a process, watching one namespace of the plane."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.kube.client import KubeClient
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.settings import environment
from runner.testing.cluster import install_crd
from tests.content.ec2_instance.role_harness import ROOT, Bench
from tests.content.node_pool.pool_bench import PoolSite
from tests.operators.crash_gate import CrashGate, gates


@dataclass(kw_only=True)
class RunLog:
    """When runs started and ended, as the operator's log told it."""

    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def follow(self, record: Mapping[str, Any]) -> None:
        """Take one record of the log."""
        if record.get("msg") == "Starting a run":
            self.starts.append(time.monotonic())
        if record.get("msg") == "Ansible-runner exited successfully":
            self.ends.append(time.monotonic())

    def pauses(self) -> list[float]:
        """Return the seconds from each run's end to the next one's start."""
        return [start - end for end, start in zip(self.ends, self.starts[1:], strict=False)]


StartOperator = Callable[[], OperatorProcess]


@pytest.fixture
async def bench(
    plane: ControlPlane, ec2: str, kube: KubeClient, namespace: str, tmp_path: Path
) -> AsyncIterator[Bench]:
    """Give a bench with fast state changes; finalizers that are left at the end are taken off."""
    await install_crd(kube, yaml.safe_load((ROOT / "crds" / "ec2instances.yaml").read_text()))
    aws = Ec2Control(ec2)
    aws.reset()
    aws.configure(pending=0.0, stopping=0.0, shutting_down=0.0)
    bench = Bench(kube=kube, kubeconfig=plane.kubeconfig, namespace=namespace, aws=aws, endpoint=ec2, folder=tmp_path)
    yield bench
    aws.clear_faults()
    await bench.release_all()


@pytest.fixture
def runs() -> RunLog:
    """Give the log of the operator's runs."""
    return RunLog()


@pytest.fixture
async def site(bench: Bench) -> AsyncIterator[PoolSite]:
    """Give the namespace of a NodePool; what is left is let go afterwards."""
    await install_crd(bench.kube, yaml.safe_load((ROOT / "crds" / "nodepools.yaml").read_text()))
    site = PoolSite(kube=bench.kube, namespace=bench.namespace)
    yield site
    await site.release()
    await site.clean()


StartFor = Callable[[Bench], contextlib.AbstractContextManager[StartOperator]]


@pytest.fixture
def start(bench: Bench, start_for: StartFor) -> Iterator[StartOperator]:
    """Start the operator; all of them are stopped at the end."""
    with start_for(bench) as begin:
        yield begin


@pytest.fixture
def start_for(runs: RunLog) -> StartFor:
    """Give what starts operators for a bench, and stops them at the end of a block."""
    return lambda bench: _operators(bench, runs=runs)


@contextlib.contextmanager
def _operators(bench: Bench, *, runs: RunLog) -> Iterator[StartOperator]:
    environ = {
        **{key: value for key, value in environment().items() if not key.startswith("AWS_")},
        "KUBECONFIG": str(bench.kubeconfig),
        "WATCH_NAMESPACE": bench.namespace,
        "AWS_ENDPOINT_URL": bench.endpoint,
        "AWS_ACCESS_KEY_ID": "CANARYaccesskey",
        "AWS_SECRET_ACCESS_KEY": "CANARYsecretkey",
        "ANSIBLE_GATHERING": "explicit",
        "TMPDIR": str(bench.folder),
    }
    with contextlib.ExitStack() as stack:

        def begin() -> OperatorProcess:
            number = len(list(bench.folder.glob("operator-*.log")))
            log = bench.folder / f"operator-{number}.log"
            operator = OperatorProcess(
                project=ROOT, environ=environ, log=log, port=free_ports(1)[0], follower=runs.follow
            )
            operator.start(arguments=["--zap-log-level=debug"])
            stack.callback(operator.stop)
            return operator

        yield begin


@pytest.fixture
async def gated(bench: Bench, tmp_path: Path) -> AsyncIterator[tuple[Bench, CrashGate]]:
    """Give a bench as the operator sees it, through the gate."""
    gate = CrashGate()
    async with gates(gate, kubeconfig=bench.kubeconfig, endpoint=bench.endpoint, folder=tmp_path) as (kubeconfig, aws):
        yield replace(bench, kubeconfig=kubeconfig, endpoint=aws), gate
