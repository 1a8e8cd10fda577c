"""A real operator's runs: warm by default, out of it by flag, key of a watch and annotation of an object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.execution.chosen import ANNOTATION
from runner.kube.events import EVENTS
from runner.localdev.operator_process import OperatorProcess
from runner.testing.cluster import wait_until
from tests.integration.operator.conftest import Project, StartOperator

READY = "The fork server is ready: runs are warm"


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the log records of the only operator that ran in *folder*."""
    (log,) = folder.glob("operator-*.log")
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def starts(folder: Path) -> list[tuple[str, str]]:
    """Return the object and the executor of each run, in the order of their starts."""
    told = [record for record in records(folder) if record["msg"] == "The play starts"]
    return [(record["name"], record["executor"]) for record in told]


async def begin(start: StartOperator, *arguments: str) -> OperatorProcess:
    """Start an operator that logs everything, and return it when it is ready."""
    operator = start("--zap-log-level=debug", *arguments)

    async def answers() -> bool:
        return operator.ready()

    await wait_until(answers, what="readiness", limit=180)
    return operator


async def run(project: Project, *names: str) -> None:
    """Wait until each of *names* was run with success."""
    for name in names:

        async def successful(name: str = name) -> bool:
            return await project.successful(name)

        await wait_until(successful, what=f"the run of {name}", limit=180)


async def test_runs_are_warm_and_an_annotation_leads_out_of_it(project: Project, start: StartOperator) -> None:
    """An object may choose cold; any other value is ignored, and its log line and Event say so once."""
    operator = await begin(start)
    assert [record["msg"] for record in records(project.folder)].count(READY) == 1

    await project.create("plain")
    await project.create("out", annotations={ANNOTATION: "cold"})
    await project.create("wrong", annotations={ANNOTATION: "hot"})
    await run(project, "plain", "out", "wrong")
    await project.patch("wrong", {"spec": {"again": True}})

    async def repeated() -> bool:
        return await project.successful("wrong", generation=2)

    await wait_until(repeated, what="the second run", limit=180)
    assert operator.stop() == 0

    executors: dict[str, set[str]] = {}
    for name, executor in starts(project.folder):
        executors.setdefault(name, set()).add(executor)
    assert executors == {"plain": {"warm"}, "out": {"cold"}, "wrong": {"warm"}}
    assert [row[0] for row in project.runs()].count("end") == 4
    ignored = [record for record in records(project.folder) if ANNOTATION in record["msg"]]
    assert [(record["level"], record["name"], record["value"]) for record in ignored] == [("warn", "wrong", "hot")]
    events = await project.kube.list(EVENTS, namespace=project.namespace)
    (event,) = [event for event in events if event["reason"] == "ExecutorIgnored"]
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "wrong")
    assert event["message"].endswith('can only choose cold, and is ignored: it is "hot"')


async def test_without_a_warm_watch_there_is_no_fork_server(project: Project, start: StartOperator) -> None:
    """The key of a watch wins over the flag, and what nobody needs is not started."""
    watches = project.folder / "watches.yaml"
    watches.write_text(f"{watches.read_text()}  executor: cold\n")
    operator = await begin(start)
    await project.create("one")
    await run(project, "one")
    assert operator.stop() == 0

    assert set(starts(project.folder)) == {("one", "cold")}
    told = records(project.folder)
    assert not [record for record in told if record["logger"].endswith("warm")]
    (watch,) = [record for record in told if record["msg"] == "Watch"]
    assert watch["executor"] == "cold"


async def test_a_watch_may_be_warm_where_the_flag_says_cold(project: Project, start: StartOperator) -> None:
    """One role at a time can be tried warm; with the flag alone nothing is."""
    watches = project.folder / "watches.yaml"
    watches.write_text(f"{watches.read_text()}  executor: warm\n")
    operator = await begin(start, "--executor=cold")
    await project.create("one")
    await run(project, "one")
    assert operator.stop() == 0

    assert set(starts(project.folder)) == {("one", "warm")}
