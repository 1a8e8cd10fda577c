"""EC2Instance under the whole operator: how often the role runs, and what a crash leaves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from runner.kube.objects import conditions_of, generation_of, resource_version_of
from runner.localdev.ec2.faults import Fault
from runner.testing.cluster import wait_until
from tests.content.ec2_instance.role_harness import EC2_INSTANCES, Bench
from tests.operators.conftest import RunLog, StartOperator


@pytest.mark.timeout(600)
@pytest.mark.parametrize("intervals", [2, pytest.param(5, marks=pytest.mark.full)])
async def test_an_idle_instance_runs_once_per_check_interval(
    bench: Bench, start: StartOperator, runs: RunLog, intervals: int
) -> None:
    """After its first run an idle object waits its interval before each run, though each writes lastCheckedAt."""
    start()
    await bench.create(checkInterval="3s")
    stamps: set[str] = set()

    async def waited() -> bool:
        stamps.add((await bench.get()).get("status", {}).get("lastCheckedAt", ""))
        return len(runs.ends) >= 1 + intervals

    await wait_until(waited, what=f"{intervals} intervals", limit=500)
    assert len(stamps - {""}) >= intervals
    assert min(runs.pauses()) > 2.5
    assert [call.action for call in bench.aws.calls() if call.write] == ["RunInstances"]


@pytest.mark.timeout(600)
async def test_labels_and_annotations_start_no_run_and_an_edit_starts_one(
    bench: Bench, start: StartOperator, runs: RunLog
) -> None:
    """Label and annotation move the resource version alone; one spec edit moves the generation and is one run."""
    start()
    await bench.create(checkInterval="1h")
    await wait_until(lambda: _successful(bench, 1), what="the first run", limit=200)
    first = await bench.get()
    labelled = await _patch_metadata(bench, {"labels": {"tier": "gold"}})
    annotated = await _patch_metadata(bench, {"annotations": {"note": "hello"}})
    assert len({resource_version_of(obj) for obj in (first, labelled, annotated)}) == 3
    assert generation_of(first) == generation_of(annotated) == 1
    await bench.patch(tags={"team": "blue"})
    await wait_until(lambda: _successful(bench, 2), what="the edit's run", limit=200)
    assert len(runs.starts) == 2


@pytest.mark.timeout(600)
async def test_an_operator_killed_during_a_launch_leaves_one_instance(bench: Bench, start: StartOperator) -> None:
    """SIGKILL while RunInstances has no answer yet: the next operator ends Successful with one instance (E1)."""
    bench.aws.add_fault(Fault(action="RunInstances", delay=300.0))
    operator = start()
    obj = await bench.create(checkInterval="1h")
    await wait_until(lambda: _launching(bench), what="RunInstances to be on its way", limit=200)
    operator.kill()
    assert not bench.mine(obj)
    bench.aws.clear_faults()  # the call that was on its way is carried out now, with nobody to hear its answer
    start()
    await wait_until(lambda: _successful(bench, 1), what="Successful", limit=300)
    (instance,) = bench.mine(obj, "pending", "running", "stopping", "stopped", "shutting-down", "terminated")
    assert (await bench.get())["status"]["instanceId"] == instance.id


@pytest.mark.timeout(600)
async def test_a_deleted_object_takes_its_instance_along(bench: Bench, start: StartOperator) -> None:
    """The finalizer terminates the instance before the object goes, and no secret is in the operator's log."""
    start()
    obj = await bench.create(checkInterval="1h")
    await wait_until(lambda: _successful(bench, 1), what="the instance", limit=200)
    await bench.kube.delete(EC2_INSTANCES, namespace=bench.namespace, name="web")
    await wait_until(lambda: _gone(bench), what="the object to go", limit=200)
    assert not bench.mine(obj)
    assert len(bench.mine(obj, "terminated")) == 1
    assert "CANARYsecretkey" not in (bench.folder / "operator-0.log").read_text()


async def _successful(bench: Bench, generation: int) -> bool:
    entries = {entry["type"]: entry for entry in conditions_of(await bench.get())}
    found = entries.get("Successful", {})
    done = entries.get("Running", {}).get("reason") == "Successful"
    return done and found.get("status") == "True" and found.get("observedGeneration") == generation


async def _launching(bench: Bench) -> bool:
    return any(call.action == "RunInstances" for call in bench.aws.calls())


async def _gone(bench: Bench) -> bool:
    return not await bench.kube.list(EC2_INSTANCES, namespace=bench.namespace)


async def _patch_metadata(bench: Bench, metadata: dict[str, Any]) -> dict[str, Any]:
    body = {"metadata": metadata}
    return await bench.kube.patch(EC2_INSTANCES, namespace=bench.namespace, name="web", body=body)


@pytest.mark.full
@pytest.mark.timeout(1800)
async def test_a_quiet_hour_of_twenty_instances_only_describes(
    bench: Bench, start: StartOperator, runs: RunLog
) -> None:
    """Twenty idle objects send AWS one description and nothing else in each check (compressed)."""
    names = [f"web{number}" for number in range(20)]
    start()
    for name in names:
        await bench.create(name=name, checkInterval="30s")
    await wait_until(lambda: _all_ready(bench), what="twenty instances", limit=600)
    begun, since = len(runs.ends), bench.aws.last_call()

    async def checked() -> bool:
        return len(runs.ends) - begun >= 3 * len(names)

    await wait_until(checked, what="three checks of each", limit=900)
    counted = Counter(call.action for call in bench.aws.calls(since=since))
    checks = len(runs.ends) - begun
    print(f"{checks} checks of {len(names)} objects sent AWS {dict(counted)}")
    assert set(counted) == {"DescribeInstances"}
    assert counted.total() <= checks + 2  # two workers have begun further ones
    assert len(bench.aws.instances()) == len(names)


async def _all_ready(bench: Bench) -> bool:
    found = await bench.kube.list(EC2_INSTANCES, namespace=bench.namespace)
    ready = [entry for obj in found for entry in conditions_of(obj) if entry["type"] == "Ready"]
    return len(ready) == len(found) == 20 and all(entry["status"] == "True" for entry in ready)
