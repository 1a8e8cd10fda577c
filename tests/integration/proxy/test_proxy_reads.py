"""Reads through the proxy of a whole operator: each answer is the API server's own (field case C1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.kube.client import KubeClient
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import crd, remove_crd
from runner.testing.faults import HttpFaultProxy
from tests.integration.proxy.proxied import Proxied, proxied
from tools.proxy_bench.case import JSON, MAPS, config_map
from tools.proxy_bench.cases_reads import READS
from tools.proxy_bench.cases_writes import WRITES
from tools.proxy_bench.replay import replay
from tools.proxy_bench.stage import build, create, look, many_config_maps
from tools.proxy_bench.target import Sent, direct, opened, through

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "reads.proxy.example.com"


@pytest.fixture
async def proxy(plane: ControlPlane, kube: KubeClient, namespace: str) -> AsyncIterator[Proxied]:
    """Give a proxy before the session's API server."""
    async with proxied(plane.kubeconfig, kube=kube, namespace=namespace) as started:
        yield started


@pytest.fixture
async def counted(
    plane: ControlPlane, kube: KubeClient, namespace: str, tmp_path: Path
) -> AsyncIterator[tuple[Proxied, HttpFaultProxy]]:
    """Give a proxy, and what stands between it and the API server and counts."""
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as between:
        kubeconfig = between.kubeconfig(tmp_path / "kubeconfig")
        async with proxied(kubeconfig, kube=kube, namespace=namespace) as started:
            yield started, between


def test_the_replay_is_varied() -> None:
    """There are far more than forty requests, and no two have the same name."""
    names = [case.name for case in (*READS, *WRITES)]
    assert len(names) == len(set(names)) >= 40


@pytest.mark.parametrize("sender", ["a run", pytest.param("nobody", marks=pytest.mark.full)])
async def test_answers_through_the_proxy_are_the_api_servers(
    proxy: Proxied, plane: ControlPlane, namespace: str, sender: str
) -> None:
    """Status, headers and body of each answer are what the API server gives directly, but for the owner reference."""
    with proxy.run("replay") as as_run:
        target = as_run if sender == "a run" else through(proxy.url)
        async with opened(await direct(plane.kubeconfig)) as plain, opened(target) as way:
            await build(plain, namespace=namespace)
            stage = await look(plain, way, namespace=namespace)
            results = await replay((*READS, *WRITES), plain, way, stage=stage, owned=sender == "a run")
    assert {result.case.name: result.differences for result in results if result.differences} == {}


async def test_a_watch_goes_on_from_a_list_through_the_proxy(
    proxy: Proxied, plane: ControlPlane, namespace: str
) -> None:
    """A watch from the list's resourceVersion tells the next change, and nothing that was there before."""
    target = MAPS.replace("{ns}", namespace)
    with proxy.run("1") as as_run:
        async with opened(await direct(plane.kubeconfig)) as plain, opened(as_run) as way:
            await create(plain, target, body=config_map("before"))
            version = json.loads((await way.send(Sent(target=target))).body)["metadata"]["resourceVersion"]
            request = Sent(target=f"{target}?watch=true&timeoutSeconds=60&resourceVersion={version}")
            async with way.opened(request) as events:
                await create(plain, target, body=config_map("after"))
                event = json.loads(await events.content.readline())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "after")


async def test_pages_through_the_proxy_end(proxy: Proxied, plane: ControlPlane, namespace: str) -> None:
    """A client that follows `continue` gets every object once, and then no further page."""
    target = MAPS.replace("{ns}", namespace)
    names: list[str] = []
    token, pages = "", 0
    with proxy.run("1") as as_run:
        async with opened(await direct(plane.kubeconfig)) as plain, opened(as_run) as way:
            await many_config_maps(plain, namespace=namespace, count=25)
            while pages == 0 or token:
                answer = json.loads((await way.send(Sent(target=f"{target}?limit=10&continue={token}"))).body)
                names += [item["metadata"]["name"] for item in answer["items"]]
                token, pages = answer["metadata"].get("continue", ""), pages + 1
    assert pages == 3
    assert sorted(names) == sorted({"kube-root-ca.crt", "owner", *(f"m-{n}" for n in range(25))} & set(names))
    assert {f"m-{number}" for number in range(25)} <= set(names)


async def test_a_run_reads_what_it_wrote(proxy: Proxied, namespace: str) -> None:
    """Each read after a write shows that write, at once and always; nothing claims to come from a cache."""
    target = MAPS.replace("{ns}", namespace)
    with proxy.run("1") as as_run:
        async with opened(as_run) as way:
            await create(way, target, body=config_map("mine"))
            for number in range(50):
                patch = json.dumps({"data": {"n": str(number)}}).encode()
                headers = {"Content-Type": "application/merge-patch+json"}
                await way.send(Sent(method="PATCH", target=f"{target}/mine", headers=headers, body=patch))
                one = await way.send(Sent(target=f"{target}/mine"))
                listed = await way.send(Sent(target=f"{target}?fieldSelector=metadata.name%3Dmine"))
                assert json.loads(one.body)["data"]["n"] == str(number)
                assert json.loads(listed.body)["items"][0]["data"]["n"] == str(number)
                assert "X-Cache" not in one.headers


async def test_runs_share_discovery(counted: tuple[Proxied, HttpFaultProxy], plane: ControlPlane) -> None:
    """What one run asked of discovery the next one gets without the API server, and it is the same."""
    proxy, between = counted
    targets = ["/version", "/apis", "/api/v1", "/apis/apps/v1"]
    requests = [Sent(target=target, headers={"Accept": JSON}) for target in targets]
    first = await proxy.ask("1", *requests)
    second = await proxy.ask("2", *requests)
    asked = [record.path for record in between.requests if "ansible-operator-runner" not in str(record.headers)]
    assert [asked.count(target) for target in targets] == [1] * 4
    assert [answer.body for answer in first] == [answer.body for answer in second]
    async with opened(await direct(plane.kubeconfig)) as plain:
        told = [await plain.send(request) for request in requests]
    stable = [number for number, target in enumerate(targets) if target != "/apis"]  # others make and remove kinds
    for number in stable:
        assert told[number].body == second[number].body
        assert told[number].headers["Content-Type"] == second[number].headers["Content-Type"]


async def test_a_kind_that_a_run_makes_is_found_at_once(
    counted: tuple[Proxied, HttpFaultProxy], kube: KubeClient
) -> None:
    """After a CRD went through the proxy, no run is told from memory what there was before it."""
    proxy, _ = counted
    await proxy.ask("1", Sent(target="/apis", headers={"Accept": JSON}))
    body = json.dumps(crd("Read", group=GROUP)).encode()
    (made,) = await proxy.ask(
        "2", Sent(method="POST", target=CRDS, headers={"Content-Type": JSON, "Accept": JSON}, body=body)
    )
    assert made.status == 201
    async with asyncio.timeout(60):
        number = 3
        while GROUP not in await _groups(proxy, run=str(number)):
            number += 1
    await remove_crd(kube, f"reads.{GROUP}")


async def _groups(proxy: Proxied, *, run: str) -> set[str]:
    (answer,) = await proxy.ask(run, Sent(target="/apis", headers={"Accept": JSON}))
    return {group["name"] for group in json.loads(answer.body)["groups"]}
