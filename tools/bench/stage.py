"""Brings contestants and sections together: who runs when, on one API server, and what is printed meanwhile."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import name_of
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.plane import ControlPlane
from runner.settings import KubeSettings
from runner.testing.cluster import NAMESPACES, crd, install_crd, remove_crd
from tools.bench import batches, holding, latency, report
from tools.bench.budget import Budget, Rounds
from tools.bench.catalogue import EC2, MEMORY, ONE_TASK, THREE_TASKS, TWENTY, Section
from tools.bench.content import EC2_KIND, EIGHT_WORKERS, HELD, KINDS, ROOT, TWO_WORKERS
from tools.bench.content import ONE_TASK as ONE_TASK_KIND
from tools.bench.content import THREE_TASKS as THREE_TASKS_KIND
from tools.bench.contestants import Contestant, Ground, Running, doubts, started
from tools.bench.results import Results
from tools.bench.watching import RunFailedError
from tools.proxy_bench.target import Way, direct, opened


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be measured, with whom and where."""

    contestants: Sequence[Contestant]
    sections: Sequence[Section]
    budget: Budget
    settle: float
    held: int
    rounds: int | None
    """Instead of the catalogue's."""
    plane: ControlPlane
    own_plane: bool
    folder: Path

    def turns(self, section: Section) -> Iterator[int]:
        """Give the rounds of *section* that there is time for."""
        wanted = section.rounds if self.rounds is None else Rounds(least=1, most=self.rounds)
        return self.budget.rounds(section.name, wanted=wanted)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The plan with an API server to carry it out on."""

    plan: Plan
    ground: Ground
    kinds: dict[str, Resource]
    way: Way
    results: Results


async def measure_all(plan: Plan, *, results: Results) -> None:
    """Measure section by section; what is measured is in *results* at once, so that it can be cut at any time."""
    settings = KubeSettings(kubeconfig=str(plan.plane.kubeconfig))
    async with KubeClient(settings=settings) as kube, opened(await direct(plan.plane.kubeconfig)) as way:
        ground = Ground(
            kube=kube,
            kubeconfig=plan.plane.kubeconfig,
            folder=plan.folder,
            group=f"bench{secrets.token_hex(2)}.example.com",
            held=plan.held,
            ec2=_emulator(plan),
        )
        kinds = await install(ground)
        stage = Stage(plan=plan, ground=ground, kinds=kinds, way=way, results=results)
        try:
            await _sections(stage)
        finally:
            if not plan.own_plane:
                await remove(ground, kinds=kinds)


async def _sections(stage: Stage) -> None:
    names = {section.name for section in stage.plan.sections}
    if MEMORY.name in names:
        await _memory(stage)
    if not names - {MEMORY.name}:
        return
    async with contextlib.AsyncExitStack() as stack:
        runnings = await _start_all(stage, stack)
        for section, kind in ((ONE_TASK, ONE_TASK_KIND), (THREE_TASKS, THREE_TASKS_KIND), (EC2, EC2_KIND)):
            if section.name in names:
                racers = latency.with_ansible(runnings) if section is EC2 else runnings
                await _latency(stage, section, racers=racers, kind=kind)
        if TWENTY.name in names:
            await _twenty(stage, runnings)
        for running in runnings:
            for message in doubts(running.project.folder / "operator.log"):
                stage.results.note(f"{running.name} was not warm all the time: {message}")


async def _start_all(stage: Stage, stack: contextlib.AsyncExitStack) -> list[Running]:
    """Start the contestants; one that doesn't start is left out, and the results say so."""
    runnings = []
    for contestant in stage.plan.contestants:
        print(f"starting {contestant.name}", flush=True)
        try:
            running = await stack.enter_async_context(started(contestant, ground=stage.ground))
            await running.calm()
            runnings.append(running)
        except (RuntimeError, TimeoutError) as error:
            stage.results.note(f"{contestant.name} did not start: {error}")
    return runnings


async def _memory(stage: Stage) -> None:
    """Measure each operator alone: processes of one kind share pages, and PSS would split them."""
    for contestant in stage.plan.contestants:
        if not contestant.has_ansible:
            continue
        print(f"memory: {contestant.name} alone", flush=True)
        try:
            async with (
                started(contestant, ground=stage.ground, suffix="-alone") as running,
                latency.lanes(stage.way, [running], kind=stage.kinds[HELD]) as (lane,),
            ):
                await holding.measure(lane, settle=stage.plan.settle, results=stage.results)
        except (RunFailedError, RuntimeError, TimeoutError) as error:
            stage.results.note(f"{contestant.name}: memory could not be measured to the end: {error}")
    _print(stage, MEMORY)


async def _latency(stage: Stage, section: Section, *, racers: Sequence[Running], kind: str) -> None:
    async with latency.lanes(stage.way, racers, kind=stage.kinds[kind]) as lanes:
        await latency.measure(section.name, lanes, rounds=stage.plan.turns(section), results=stage.results)
    _print(stage, section)


async def _twenty(stage: Stage, runnings: Sequence[Running]) -> None:
    async with (
        latency.lanes(stage.way, runnings, kind=stage.kinds[TWO_WORKERS]) as two,
        latency.lanes(stage.way, runnings, kind=stage.kinds[EIGHT_WORKERS]) as eight,
    ):
        await batches.measure({2: two, 8: eight}, rounds=stage.plan.turns(TWENTY), results=stage.results)
    _print(stage, TWENTY)


def _print(stage: Stage, section: Section) -> None:
    keys = [figure.key for figure in section.figures]
    print(f"\n{section.name} ({stage.plan.budget.left / 60:.1f} minutes left)\n", flush=True)
    print("\n".join(report.table(stage.results, keys=keys)) + "\n", flush=True)


def _emulator(plan: Plan) -> str:
    """Return the URL of the EC2 emulator where it is needed; its machines change their state at once."""
    endpoint = plan.plane.ec2_endpoint
    if endpoint is None:
        raise SystemExit("the control plane has no EC2 emulator: start it without --no-ec2")
    if plan.own_plane:
        Ec2Control(endpoint).configure(pending=0.0, stopping=0.0, shutting_down=0.0)
    return endpoint


async def install(ground: Ground) -> dict[str, Resource]:
    """Install the kinds that operators under test serve."""
    kinds = {kind: await install_crd(ground.kube, crd(kind, group=ground.group)) for kind in KINDS}
    ec2 = await install_crd(ground.kube, yaml.safe_load((ROOT / "crds" / "ec2instances.yaml").read_text()))
    return {**kinds, EC2_KIND: ec2}


async def remove(ground: Ground, *, kinds: Mapping[str, Resource]) -> None:
    """Remove what was made on a control plane that is not ours alone."""
    kube, mark = ground.kube, ground.group.partition(".")[0]
    for obj in await kube.list(kinds[EC2_KIND]):
        namespace = obj["metadata"]["namespace"]
        if namespace.startswith(mark):
            body = {"metadata": {"finalizers": None}}
            await kube.patch(kinds[EC2_KIND], namespace=namespace, name=name_of(obj), body=body)
    for kind in KINDS:
        await remove_crd(kube, f"{kinds[kind].plural}.{ground.group}")
    for namespace in await kube.list(NAMESPACES):
        if name_of(namespace).startswith(f"{mark}-"):
            await kube.delete(NAMESPACES, name=name_of(namespace))
