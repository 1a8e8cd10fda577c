"""What a pool does while its API server doesn't say what there is: nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.testing.faults import HttpFaultProxy, Rule
from tests.content.node_pool.pool_bench import PoolBench

NOT_THERE = b"404 page not found\n"
NO_KINDS = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": []}
POOLS_API = "/apis/aws.ansible-operator.io/v1alpha1$"


@pytest.mark.parametrize("plural", ["nodes", "ec2instances", "pods"])
async def test_list_that_is_answered_with_404_is_never_empty(bench: PoolBench, tmp_path: Path, plural: str) -> None:
    """Neither is anything launched again, nor ended without a drain: the run fails and says what can't be read."""
    await bench.grown(1)
    await bench.put_pod("web", node="workers-1")
    await bench.scale(0)
    await bench.run()
    before = await bench.node("workers-1")
    assert before["spec"]["unschedulable"] is True
    async with HttpFaultProxy(upstream_kubeconfig=bench.kubeconfig) as proxy:
        through = replace(bench, kubeconfig=proxy.kubeconfig(tmp_path / "through"))
        missing = proxy.rule(Rule(method="GET", path=rf"/{plural}(\?|$)", status=404, body=NOT_THERE))
        for finalizing in (False, True):
            run = await through.run(finalizing=finalizing)
            assert (run.ok, run.ready["reason"]) == (False, "ReadFailed"), run.output[-3000:]
            assert "404 page not found" in run.ready["message"]
        await bench.scale(2)
        assert (await through.run()).ok is False
        assert missing.hits == 3
    instances = await bench.instances()
    assert (list(instances), "deletionTimestamp" in instances["workers-1"]["metadata"]) == (["workers-1"], False)
    assert await bench.going_pods() == []


@pytest.mark.parametrize("path", [POOLS_API, "/api/v1$"])
async def test_api_server_without_kinds_has_not_lost_what_there_was(
    bench: PoolBench, tmp_path: Path, path: str
) -> None:
    """A pool that goes is held while the API server, as it starts, serves no such kind."""
    await bench.grown(1)
    async with HttpFaultProxy(upstream_kubeconfig=bench.kubeconfig) as proxy:
        through = replace(bench, kubeconfig=proxy.kubeconfig(tmp_path / "through"))
        proxy.rule(Rule(method="GET", path=path, status=200, body=NO_KINDS))
        run = await through.run(finalizing=True)
        assert run.ok is False, run.output[-3000:]
        assert "the API server serves no" in run.output
    assert list(await bench.instances()) == ["workers-1"]


async def test_second_look_that_is_answered_with_404_ends_no_machine(bench: PoolBench, tmp_path: Path) -> None:
    """A machine that was no Node isn't ended where nobody knows whether it is one by now."""
    await bench.grown(1)
    await bench.machine("workers-2")
    await bench.launched("workers-2")
    async with HttpFaultProxy(upstream_kubeconfig=bench.kubeconfig) as proxy:
        through = replace(bench, kubeconfig=proxy.kubeconfig(tmp_path / "through"))
        first = proxy.rule(Rule(method="GET", path=r"/nodes(\?|$)", times=1))
        again = proxy.rule(Rule(method="GET", path=r"/nodes(\?|$)", status=404, body=NOT_THERE))
        run = await through.run()
        assert (run.ok, run.ready["reason"], first.hits, again.hits) == (False, "ReadFailed", 1, 1)
    assert sorted(await bench.instances()) == ["workers-1", "workers-2"]
