"""The status writer against the real API server, with conflicts that are made by writing between read and write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from runner.errors import Conflict
from runner.execution.executor import Outcome, PlayStats
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import Object, generation_of, resource_version_of, uid_of
from runner.logs import RecordingSink
from runner.status.transition import Transition, done, running
from runner.status.writer import StatusWriter, WriteResult, WriteState
from runner.testing.cluster import CONFIG_MAPS
from runner.testing.faults import HttpFaultProxy, Rule
from tests.integration.status.conftest import make, make_writer

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
GOOD = Outcome(success=True, stats=PlayStats(ok=1, completion="x"), started=NOW, finished=NOW)
STARTING = running(at=NOW, generation=1)
ENDED = done(GOOD, at=NOW, generation=1)


def statuses(obj: Object | None) -> dict[str, str]:
    """Return the status of each condition, and fail where a type is there twice."""
    assert obj is not None
    conditions = obj["status"]["conditions"]
    assert len({entry["type"] for entry in conditions}) == len(conditions)
    return {entry["type"]: entry["status"] for entry in conditions}


async def write_with_interference(
    writer: StatusWriter,
    resource: Resource,
    obj: Object,
    *,
    proxy: HttpFaultProxy,
    act: Callable[[], Awaitable[object]],
) -> WriteResult:
    """Write, and do *act* after the writer's first read and before its first write reaches the API server."""
    held = proxy.rule(Rule(method="PUT|PATCH", path="/web", times=1, hold=True))
    task = asyncio.create_task(writer.write(resource, obj, compute=ENDED.apply))
    await held.wait_hit()
    await act()
    held.release()
    return await task


async def test_conditions_land_beside_other_status_keys(
    kube: KubeClient, widgets: Resource, namespace: str, writer: StatusWriter
) -> None:
    """A write adds our conditions and keeps keys and conditions of others, spec and generation."""
    obj = await make(kube, widgets, namespace=namespace)
    other = {"status": {"url": "x", "conditions": [{"type": "Ready", "status": "True"}]}}
    await kube.patch(widgets, namespace=namespace, name="web", subresource="status", body=other)
    result = await writer.write(widgets, obj, compute=ENDED.apply)
    stored = await kube.get(widgets, namespace=namespace, name="web")
    assert (result.state, result.obj) == (WriteState.WRITTEN, stored)
    assert stored["status"]["url"] == "x"
    assert statuses(stored) == {"Ready": "True", "Running": "True", "Successful": "True", "Failure": "False"}
    assert stored["spec"] == obj["spec"]
    assert generation_of(stored) == generation_of(obj)


async def test_the_same_news_twice_is_written_once(
    kube: KubeClient, widgets: Resource, namespace: str, writer: StatusWriter
) -> None:
    """Where nothing changes, the object keeps its resourceVersion."""
    obj = await make(kube, widgets, namespace=namespace)
    first = await writer.write(widgets, obj, compute=ENDED.apply)
    second = await writer.write(widgets, obj, compute=ENDED.apply)
    assert (second.state, second.obj) == (WriteState.UNCHANGED, first.obj)


async def test_a_conflict_loses_nothing_of_either_side(
    kube: KubeClient, widgets: Resource, namespace: str, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """A write that meets a conflict lands with the second try, beside what the other writer wrote in between."""
    obj = await make(kube, widgets, namespace=namespace)

    async def meddle() -> None:
        other = {"status": {"other": 1, "conditions": [{"type": "Ready", "status": "True"}]}}
        await kube.patch(widgets, namespace=namespace, name="web", subresource="status", body=other)

    result = await write_with_interference(writer, widgets, obj, proxy=proxy, act=meddle)
    stored = await kube.get(widgets, namespace=namespace, name="web")
    assert (result.state, result.attempts) == (WriteState.WRITTEN, 2)
    assert stored["status"]["other"] == 1
    assert statuses(stored) == {"Ready": "True", "Running": "True", "Successful": "True", "Failure": "False"}


async def test_a_changed_spec_is_not_set_back(
    kube: KubeClient, widgets: Resource, namespace: str, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """A change of spec between read and write survives the write of the status."""
    obj = await make(kube, widgets, namespace=namespace)

    async def meddle() -> None:
        await kube.patch(widgets, namespace=namespace, name="web", body={"spec": {"size": 2}})

    await write_with_interference(writer, widgets, obj, proxy=proxy, act=meddle)
    stored = await kube.get(widgets, namespace=namespace, name="web")
    assert stored["spec"] == {"size": 2}
    assert statuses(stored)["Successful"] == "True"


async def _write_as_another(kube: KubeClient, widgets: Resource, *, namespace: str, number: int) -> None:
    """Add a status key with a patch, and set a condition of its own by reading, changing and writing."""
    patch = {"status": {"keys": {f"k{number}": number}}}
    await kube.patch(widgets, namespace=namespace, name="web", subresource="status", body=patch)
    while True:
        obj = await kube.get(widgets, namespace=namespace, name="web")
        conditions = [entry for entry in obj["status"].get("conditions", []) if entry["type"] != "Ready"]
        obj["status"]["conditions"] = [*conditions, {"type": "Ready", "status": "True", "count": number}]
        try:
            await kube.replace(widgets, body=obj, subresource="status")
        except Conflict:
            continue
        return


@pytest.mark.parametrize("writes", [30, pytest.param(200, marks=pytest.mark.full)])
async def test_all_writes_of_another_survive(
    writes: int, kube: KubeClient, widgets: Resource, namespace: str, sink: RecordingSink
) -> None:
    """With another writer in a tight loop, no write of either side is ever lost."""
    obj = await make(kube, widgets, namespace=namespace)
    writer = make_writer(kube, sink=sink, attempts=1000, total_time=250)
    ours = 0

    async def write_ours(other: asyncio.Task[None]) -> None:
        nonlocal ours
        while not other.done():
            transition: Transition = STARTING if ours % 2 else ENDED
            result = await writer.write(widgets, obj, compute=transition.apply)
            assert result.state is WriteState.WRITTEN
            ours += 1

    async def write_others() -> None:
        for number in range(writes):
            await _write_as_another(kube, widgets, namespace=namespace, number=number)

    other = asyncio.create_task(write_others())
    await write_ours(other)
    await other
    last = await writer.write(widgets, obj, compute=ENDED.apply)
    assert last.obj is not None
    assert ours > 1
    assert last.obj["status"]["keys"] == {f"k{number}": number for number in range(writes)}
    assert statuses(last.obj) == {"Ready": "True", "Running": "True", "Successful": "True", "Failure": "False"}
    (ready,) = [entry for entry in last.obj["status"]["conditions"] if entry["type"] == "Ready"]
    assert ready["count"] == writes - 1


async def test_an_object_deleted_before_the_write_is_no_error(
    kube: KubeClient, widgets: Resource, namespace: str, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """An object that goes between read and write, or went before, needs no status."""
    obj = await make(kube, widgets, namespace=namespace)

    async def remove() -> None:
        await kube.delete(widgets, namespace=namespace, name="web")

    result = await write_with_interference(writer, widgets, obj, proxy=proxy, act=remove)
    assert (result.state, result.obj) == (WriteState.GONE, None)
    assert (await writer.write(widgets, obj, compute=ENDED.apply)).state is WriteState.GONE


async def test_an_object_created_anew_never_gets_the_old_status(
    kube: KubeClient, widgets: Resource, namespace: str, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """A new object under the old name, made between read and write, stays without status."""
    obj = await make(kube, widgets, namespace=namespace)

    async def recreate() -> None:
        await kube.delete(widgets, namespace=namespace, name="web")
        await make(kube, widgets, namespace=namespace)

    result = await write_with_interference(writer, widgets, obj, proxy=proxy, act=recreate)
    stored = await kube.get(widgets, namespace=namespace, name="web")
    assert (result.state, result.obj) == (WriteState.SUPERSEDED, stored)
    assert uid_of(stored) != uid_of(obj)
    assert "status" not in stored


async def test_a_deleting_object_still_gets_its_status(
    kube: KubeClient, widgets: Resource, namespace: str, writer: StatusWriter
) -> None:
    """An object that is being deleted, and held by a finalizer, shows how its finalizer's run goes."""
    obj = await make(kube, widgets, namespace=namespace)
    await kube.patch(widgets, namespace=namespace, name="web", body={"metadata": {"finalizers": ["example.com/f"]}})
    await kube.delete(widgets, namespace=namespace, name="web")
    result = await writer.write(widgets, obj, compute=STARTING.apply)
    assert statuses(result.obj) == {"Running": "True"}
    await kube.patch(widgets, namespace=namespace, name="web", body={"metadata": {"finalizers": None}})


async def test_a_kind_without_subresource_gets_its_status_and_tells_the_generation(
    kube: KubeClient, plains: Resource, namespace: str, writer: StatusWriter
) -> None:
    """The write moves the generation, and its result names the new one, so that it isn't taken for a change."""
    obj = await make(kube, plains, namespace=namespace)
    result = await writer.write(plains, obj, compute=ENDED.apply)
    stored = await kube.get(plains, namespace=namespace, name="web")
    assert result.obj == stored
    assert statuses(stored) == {"Running": "True", "Successful": "True", "Failure": "False"}
    assert generation_of(stored) == generation_of(obj) + 1
    assert stored["spec"] == obj["spec"]


async def test_a_conflict_without_subresource_loses_nothing(
    kube: KubeClient, plains: Resource, namespace: str, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """A patch to the object itself meets Conflict, too, and lands beside the other writer's keys."""
    obj = await make(kube, plains, namespace=namespace)

    async def meddle() -> None:
        other = {"spec": {"size": 2}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await kube.patch(plains, namespace=namespace, name="web", body=other)

    result = await write_with_interference(writer, plains, obj, proxy=proxy, act=meddle)
    assert result.attempts == 2
    assert statuses(result.obj) == {"Ready": "True", "Running": "True", "Successful": "True", "Failure": "False"}
    assert result.obj is not None
    assert result.obj["spec"] == {"size": 2}


async def test_a_recreated_object_without_subresource_stays_without_status(
    kube: KubeClient, plains: Resource, namespace: str, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """The patch names the version and UID that were read, and so never reaches a new object."""
    obj = await make(kube, plains, namespace=namespace)

    async def recreate() -> None:
        await kube.delete(plains, namespace=namespace, name="web")
        await make(kube, plains, namespace=namespace)

    result = await write_with_interference(writer, plains, obj, proxy=proxy, act=recreate)
    assert result.state is WriteState.SUPERSEDED
    assert "status" not in await kube.get(plains, namespace=namespace, name="web")


async def test_a_narrow_schema_is_told_once_and_makes_no_loop(
    kube: KubeClient, narrows: Resource, namespace: str, writer: StatusWriter, sink: RecordingSink
) -> None:
    """What the schema drops is logged once, and the same news again doesn't change the object."""
    obj = await make(kube, narrows, namespace=namespace)
    first = await writer.write(narrows, obj, compute=ENDED.apply)
    second = await writer.write(narrows, obj, compute=ENDED.apply)
    assert statuses(first.obj) == {"Running": "True", "Successful": "True", "Failure": "False"}
    assert first.pruned
    assert first.obj is not None
    assert second.obj is not None
    assert resource_version_of(second.obj) == resource_version_of(first.obj)
    (record,) = sink.records
    assert record["dropped"] == ["Running.ansibleResult", "Successful.observedGeneration"]


async def test_a_config_map_has_no_status(
    kube: KubeClient, namespace: str, writer: StatusWriter, sink: RecordingSink
) -> None:
    """A kind that can't hold conditions is left alone, and the log says so."""
    body = {"metadata": {"name": "web"}, "data": {"a": "b"}}
    obj = await kube.create(CONFIG_MAPS, namespace=namespace, body=body)
    result = await writer.write(CONFIG_MAPS, obj, compute=ENDED.apply)
    assert result.state is WriteState.SKIPPED
    assert result.obj is not None
    assert resource_version_of(result.obj) == resource_version_of(obj)
    assert len(sink.records) == 1
