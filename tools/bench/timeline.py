"""Where each millisecond of a warm reconcile goes: `python -m tools.bench.timeline`, as root on Linux.

One object is edited again and again while the kernel's scheduler is traced; medians of the parts are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import statistics
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runner.execution.warm.far import procfs
from runner.kube.client import KubeClient
from runner.localdev.cache import kubernetes_version
from runner.localdev.plane import PlaneOptions
from runner.settings import KubeSettings
from tools.bench import latency
from tools.bench.catalogue import ONE_TASK, THREE_TASKS
from tools.bench.content import ONE_TASK as ONE_TASK_KIND
from tools.bench.content import THREE_TASKS as THREE_TASKS_KIND
from tools.bench.contestants import WARM, Ground, own, started
from tools.bench.ftrace import Trace, recorded
from tools.bench.stage import install, remove
from tools.bench.watching import completion, successful
from tools.machine import commit, control_plane, load, moment
from tools.proxy_bench.target import direct, opened

_ROLES = {ONE_TASK.name: ONE_TASK_KIND, THREE_TASKS.name: THREE_TASKS_KIND}
_FIRST = 3
"""So many runs fill caches and don't count."""
_SERVER, _STANDING_BY, _MODULES = "warm-server", "warm-run", "warm-modules"
_KUBERNETES = ("kube-", "etcd")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.timeline", description=__doc__)
    parser.add_argument("role", nargs="?", choices=list(_ROLES), default=ONE_TASK.name)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--plane", type=Path, help="the folder of a running control plane; otherwise one is started")
    options = parser.parse_args()
    folder, before = Path(tempfile.mkdtemp(prefix="timeline-")), load()
    try:
        with control_plane(options.plane, options=PlaneOptions(nodes=0, ec2=False)) as plane:
            parts = asyncio.run(_measure(plane.kubeconfig, options=options, folder=folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{options.role} role, edited to Successful, medians of {len(parts)} runs in ms; {moment()}, commit {commit()},"
    )
    print(f"Kubernetes {kubernetes_version()}, load before {before}, after {load()}\n")
    print("| part | ms |\n|---|---|")
    for name in dict.fromkeys(name for part in parts for name in part):
        print(f"| {name} | {statistics.median(part.get(name, 0.0) for part in parts) * 1000:.1f} |")


async def _measure(kubeconfig: Path, *, options: argparse.Namespace, folder: Path) -> list[Mapping[str, float]]:
    settings = KubeSettings(kubeconfig=str(kubeconfig))
    async with KubeClient(settings=settings) as kube, opened(await direct(kubeconfig)) as way:
        group = f"timeline{secrets.token_hex(2)}.example.com"
        ground = Ground(kube=kube, kubeconfig=kubeconfig, folder=folder, group=group, held=1, ec2="")
        kinds = await install(ground)
        try:
            async with (
                started(own(WARM), ground=ground) as running,
                latency.lanes(way, [running], kind=kinds[_ROLES[options.role]]) as (lane,),
            ):
                return [part async for part in _rounds(lane, number=options.rounds)]
        finally:
            await remove(ground, kinds=kinds)


async def _rounds(lane: latency.Lane, *, number: int) -> AsyncIterator[Mapping[str, float]]:
    """Edit the object *number* times and yield the parts of each reconcile."""
    _, future = await lane.objects.create("one", spec={"size": 0}, test=successful)
    told = await lane.passed(future)
    for size in range(1, number + _FIRST + 1):
        await lane.running.calm()
        processes = _Processes.of(lane.running.pid)
        after = completion(told.obj)
        with recorded() as trace:
            begun, future = await lane.objects.edit("one", spec={"size": size}, test=partial(successful, after=after))
            told = await lane.passed(future)
        if size > _FIRST:
            yield dict(processes.parts(trace, begun=begun, done=told.at))


@dataclass(frozen=True, kw_only=True)
class _Processes:
    """The processes of a warm operator that rests."""

    operator: int
    server: int
    runner: int
    """What will be the ansible-runner of the next run."""
    playbook: int
    """And its ansible-playbook."""

    @classmethod
    def of(cls, operator: int) -> _Processes:
        """Find them.

        Raises:
            RuntimeError: no process stands by.
        """
        (server,) = [child for child in _children(operator) if _name(child) == _SERVER]
        runners = [child for child in _children(server) if _name(child) == _STANDING_BY]
        playbooks = [child for runner in runners for child in _children(runner)]
        if len(runners) != 1 or len(playbooks) != 1:
            raise RuntimeError("no process stands by for the next run; the operator's log tells why")
        return cls(operator=operator, server=server, runner=runners[0], playbook=playbooks[0])

    def parts(self, trace: Trace, *, begun: float, done: float) -> Iterator[tuple[str, float]]:
        """Yield what took how many seconds, in its order, and then how much processor time who used."""
        runner, playbook = (trace.first(pid, after=begun) or begun for pid in (self.runner, self.playbook))
        workers = [
            (at, trace.exits[child])
            for at, parent, child in trace.forks
            if parent == self.playbook and child in trace.exits
        ]
        first, last = (workers[0][0], workers[-1][1]) if workers else (playbook, playbook)
        ends = trace.exits[self.playbook], trace.exits[self.runner]
        yield "answer to the edit until ansible-runner starts (sees it, writes Running, prepares)", runner - begun
        yield "ansible-runner until ansible-playbook starts", playbook - runner
        yield "ansible-playbook until it forks for the first task", first - playbook
        yield "the tasks' processes", sum(end - begin for begin, end in workers)
        yield "ansible-playbook between them", last - first - sum(end - begin for begin, end in workers)
        yield "ansible-playbook after the last one until its end", ends[0] - last
        yield "ansible-runner after that until its end", ends[1] - ends[0]
        yield "operator until a watch tells Successful (reads events, clears up, writes)", done - ends[1]
        yield "**all**", done - begun
        used = self._used(trace, begun=begun, done=done)
        yield from ((f"processor: {name}", seconds) for name, seconds in used.items())

    def _used(self, trace: Trace, *, begun: float, done: float) -> dict[str, float]:
        family = {self.operator: "operator", self.server: "fork server", self.runner: "ansible-runner"}
        family[self.playbook] = "ansible-playbook"
        modules = {child for child in _children(self.server) if _name(child) == _MODULES}
        modules |= {child for module in modules for child in _children(module)}  # those that modules are forked from
        family |= dict.fromkeys(modules, "modules")
        names = dict.fromkeys([*family.values(), "the tasks' processes", "modules", "Kubernetes and etcd"], 0.0)
        for _, parent, child in trace.forks:
            if parent == self.playbook:
                family[child] = "the tasks' processes" if child in trace.exits else "ansible-playbook"
            elif parent in modules:
                modules.add(child)
                family[child] = "modules"
        for part in trace.slices:
            lasted = min(part.end, done) - max(part.begin, begun)
            kubernetes = "Kubernetes and etcd" if part.name.startswith(_KUBERNETES) else None
            if lasted > 0 and (name := family.get(part.pid, kubernetes)):
                names[name] += lasted
        return names


def _children(pid: int) -> Sequence[int]:
    return [child for child, parent in procfs.parents().items() if parent == pid]


def _name(pid: int) -> str:
    return procfs.read(pid, "comm").decode().strip()


if __name__ == "__main__":
    main()
