"""What happens, and when, after `kubectl scale --replicas=10` of a WebApp's Deployment: `python -m tools.webapp_trace`.

Runs `examples/01-webapp` as a process on a control plane, with its sample, and prints a table in Markdown. The moments
of objects are those at which a watch told them, the operator's are those at which its log did.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from runner.clock import SystemClock
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery, Resource
from runner.kube.objects import GVK, name_of
from runner.localdev.cache import kubernetes_version
from runner.localdev.nodes import fake_node
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.logs import Logger, RecordingSink
from runner.settings import InformerSettings, KubeSettings, environment
from runner.sources.informer import Informer, Target, WatchContext
from runner.sources.store import Change, ChangeKind
from runner.testing.cluster import NAMESPACES, install_crd, wait_until
from runner.testing.waiting import ended, eventually
from tools.machine import control_plane, head

_PROJECT = Path(__file__).resolve().parents[1] / "examples" / "01-webapp"
_NODES = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)
_DEPLOYMENT, _POD = GVK("apps", "v1", "Deployment"), GVK("", "v1", "Pod")
_WISHED = 3
_LIMIT = 300.0


@dataclass(kw_only=True)
class Trace:
    """What was told so far, with the seconds since the scale."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)
    """When, of which series, what."""
    begun: float = 0.0
    """By the monotonic clock; 0 before the scale."""
    webapp: str = ""
    """Phase and available replicas."""
    replicas: int = 0
    pods: set[str] = field(default_factory=set)
    terminating: set[str] = field(default_factory=set)

    def tell(self, what: str, *, series: str = "") -> None:
        """Note that *what* is so from now on; of neighbours of one series, only the last, with both moments."""
        if not self.begun:
            return
        when = f"{time.monotonic() - self.begun:.2f}"
        if series and self.rows and self.rows[-1][1] == series:
            first = self.rows.pop()[0].split(" ")[0]
            when = f"{first} to {when}"
        self.rows.append((when, series, what))

    def log(self, record: Mapping[str, Any]) -> None:
        """Note a record of the operator's log about a changed dependent, or the begin of a run."""
        if record.get("msg") == "Dependent changed":
            fields = "; ".join("{field} desired {desired}, actual {actual}".format_map(one) for one in record["fields"])
            self.tell(f"log: Dependent changed: {record['dependent']}: {fields}")
        elif record.get("msg") == "Starting a run":
            self.tell("log: Starting a run")

    def changed(self, kind: str, change: Change) -> None:
        """Note what a watch told."""
        obj = change.obj
        if kind == "Pod":
            self._pod(
                name_of(obj), gone=change.kind is ChangeKind.DELETED, leaving="deletionTimestamp" in obj["metadata"]
            )
        elif kind == "Deployment":
            if obj["spec"]["replicas"] != self.replicas:
                self.replicas = obj["spec"]["replicas"]
                self.tell(f"Deployment: spec.replicas {self.replicas}")
        else:
            status = obj.get("status", {})
            now = f"{status.get('phase')} {status.get('availableReplicas')}/{_WISHED}"
            if now != self.webapp:
                self.webapp = now
                self.tell(f"WebApp: {now}")

    def _pod(self, name: str, *, gone: bool, leaving: bool) -> None:
        if leaving and not gone and name not in self.terminating:
            self.terminating.add(name)
            self.tell(f"Pods: {len(self.terminating)} Terminating", series="terminating")
        before = len(self.pods)
        self.pods = self.pods - {name} if gone else self.pods | {name}
        if len(self.pods) != before:
            self.tell(f"Pods: {len(self.pods)} there", series="there")

    def settled(self) -> bool:
        """Tell whether all is as the WebApp says."""
        return (self.webapp, self.replicas, len(self.pods)) == (f"Running {_WISHED}/{_WISHED}", _WISHED, _WISHED)

    def healed(self) -> bool:
        """Tell whether all is so again, after the phase was another one."""
        return self.settled() and any(what.startswith("WebApp: Scaling") for _, _, what in self.rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Trace one scale and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.webapp_trace", description=__doc__)
    parser.add_argument("--plane", type=Path, help="the folder of a running control plane; otherwise one is started")
    folder = parser.parse_args(arguments).plane
    with control_plane(folder) as plane:
        trace = asyncio.run(_traced(plane))
    print(f"{head(kubernetes_version())}\n\n| seconds | what |\n|---|---|")
    print("\n".join(f"| {when} | {what} |" for when, _, what in trace.rows))
    return 0


async def _traced(plane: ControlPlane) -> Trace:
    trace, namespace = Trace(), f"webapp-trace-{secrets.token_hex(3)}"
    sample = yaml.safe_load((_PROJECT / "config/samples/webapp.yaml").read_text())
    async with KubeClient(settings=KubeSettings(kubeconfig=str(plane.kubeconfig))) as kube, _place(kube, namespace):
        primary = await install_crd(kube, yaml.safe_load((_PROJECT / "crds/webapps.yaml").read_text()))
        async with (
            _watched(kube, kinds=(primary.gvk, _DEPLOYMENT, _POD), namespace=namespace, trace=trace),
            _operator(plane, namespace=namespace, trace=trace),
        ):
            await kube.create(primary, namespace=namespace, body=sample)
            await eventually(trace.settled, limit=_LIMIT)
            await _scale(plane, namespace=namespace, name=name_of(sample), trace=trace)
            await eventually(trace.healed, limit=_LIMIT)
    return trace


@contextlib.asynccontextmanager
async def _place(kube: KubeClient, namespace: str) -> AsyncIterator[None]:
    """Make the namespace, and a node of its name on which the Pods become Ready, for the block."""
    await kube.create(_NODES, body=fake_node(namespace, address="10.64.9.2"))
    await kube.create(NAMESPACES, body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    try:
        yield
    finally:
        await kube.delete(NAMESPACES, name=namespace)
        await kube.delete(_NODES, name=namespace)


async def _scale(plane: ControlPlane, *, namespace: str, name: str, trace: Trace) -> None:
    command = ("scale", f"deployment/{name}", "--replicas=10")
    options = (f"--kubeconfig={plane.kubeconfig}", f"--namespace={namespace}")
    trace.begun = time.monotonic()
    trace.tell(f"`kubectl {' '.join(command)}` is started")
    process = await asyncio.create_subprocess_exec(str(plane.assets.kubectl), *options, *command)
    if await process.wait():
        raise RuntimeError("kubectl scale failed; its words are above")


@contextlib.asynccontextmanager
async def _watched(kube: KubeClient, *, kinds: Sequence[GVK], namespace: str, trace: Trace) -> AsyncIterator[None]:
    context = WatchContext(
        client=kube,
        discovery=Discovery(client=kube),
        settings=InformerSettings(),
        clock=SystemClock(),
        logger=Logger("trace", sink=RecordingSink()),
    )
    async with contextlib.AsyncExitStack() as stack:
        for gvk in kinds:
            told = functools.partial(trace.changed, gvk.kind)
            informer = Informer(target=Target(gvk=gvk, namespace=namespace), context=context, on_change=told)
            stack.push_async_callback(ended, asyncio.create_task(informer.run()))
        yield


@contextlib.asynccontextmanager
async def _operator(plane: ControlPlane, *, namespace: str, trace: Trace) -> AsyncIterator[None]:
    """Run the example's operator in *namespace* during the block."""
    loop = asyncio.get_running_loop()

    def follow(record: Mapping[str, Any]) -> None:  # in a thread
        loop.call_soon_threadsafe(trace.log, record)

    own = {"KUBECONFIG": str(plane.kubeconfig), "WATCH_NAMESPACE": namespace, "ANSIBLE_GATHERING": "explicit"}
    with tempfile.TemporaryDirectory(prefix="webapp-trace-") as folder:
        operator = OperatorProcess(
            project=_PROJECT,
            environ={**environment(), **own, "TMPDIR": folder},
            log=Path(folder) / "operator.log",
            port=free_ports(1)[0],
            follower=follow,
        )
        operator.start(arguments=["--zap-log-level=debug"])

        async def ready() -> bool:
            return operator.ready()

        try:
            await wait_until(ready, what="the operator to be ready", limit=_LIMIT)
            yield
        finally:
            await asyncio.to_thread(operator.stop)


if __name__ == "__main__":
    sys.exit(main())
