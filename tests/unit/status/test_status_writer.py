"""The status writer's retries, on a clock that a test moves; what the API server does is in the integration tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from runner.errors import (
    Call,
    Conflict,
    ConnectionFailed,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    StatusWriteExhausted,
    TooManyRequests,
    Unauthorized,
    Verdict,
)
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.logs import Logger, RecordingSink
from runner.settings import StatusSettings
from runner.status.writer import StatusWriter, WriteResult, WriteState
from runner.testing.clock import FakeClock

CALL = Call(verb="update", resource="widgets.example.com/status", namespace="shop", name="web")
WIDGET = Resource(gvk=GVK("example.com", "v1", "Widget"), plural="widgets", subresources=frozenset({"status"}))
PLAIN = Resource(gvk=GVK("example.com", "v1", "Plain"), plural="plains")
SECRET = Resource(gvk=GVK("", "v1", "Secret"), plural="secrets")


class Shelf:
    """One object behind the client's verbs; a test puts the errors on it that come before the good answers."""

    def __init__(self, *, generation: int | None = 1) -> None:
        """Hold a fresh object."""
        self.obj: Object = {"metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "1"}}
        if generation is not None:
            self.obj["metadata"]["generation"] = generation
        self.read_errors: list[KubeError] = []
        self.write_errors: list[KubeError] = []
        self.pruned: tuple[str, ...] = ()
        self.reads = 0
        self.writes: list[tuple[str, Object]] = []

    async def get(self, resource: Resource, *, namespace: str = "", name: str) -> Object:
        """Return the object."""
        del resource, namespace, name
        self.reads += 1
        if self.read_errors:
            raise self.read_errors.pop(0)
        return dict(self.obj)

    async def replace(self, resource: Resource, *, body: Object, subresource: str = "") -> Object:
        """Take the body."""
        del resource
        return self._take(f"put {subresource}", body)

    async def patch(
        self,
        resource: Resource,
        *,
        name: str,
        body: Object | Sequence[Object],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Take the body's status."""
        del resource, name, namespace
        assert isinstance(body, dict)
        return self._take(f"patch {subresource}", body)

    def _take(self, verb: str, body: Object) -> Object:
        if self.write_errors:
            raise self.write_errors.pop(0)
        self.writes.append((verb, body))
        kept = [{k: v for k, v in entry.items() if k not in self.pruned} for entry in body["status"]["conditions"]]
        self.obj = {**self.obj, "status": {**body["status"], "conditions": kept}}
        return self.obj


WANTED = [{"type": "Running", "status": "True", "ansibleResult": {"ok": 1}}]


def compute(found: list[Any]) -> list[Any]:
    """Return the same conditions whatever was found."""
    del found
    return list(WANTED)


class Desk:
    """A writer with its clock, log and shelf."""

    def __init__(self, shelf: Shelf, **settings: Any) -> None:
        """Wait 1 s after the first failure, 2 after the second."""
        self.shelf = shelf
        self.clock = FakeClock()
        self.sink = RecordingSink()
        self.writer = StatusWriter(
            client=shelf,
            clock=self.clock,
            delay=float,
            settings=StatusSettings(**settings),
            logger=Logger(sink=self.sink),
        )

    async def write(
        self, resource: Resource = WIDGET, *, within: float = 1000, newest: Object | None = None
    ) -> WriteResult:
        """Write, with the clock running on."""
        obj = dict(self.shelf.obj)
        task = asyncio.create_task(self.writer.write(resource, obj, compute=compute, newest=newest))
        await self.clock.advance(within)
        assert task.done()
        return await task


async def test_a_write_goes_to_the_status_subresource() -> None:
    """The conditions are sent with all other status keys and the version that was read."""
    shelf = Shelf()
    shelf.obj["status"] = {"url": "x", "conditions": []}
    result = await Desk(shelf).write()
    assert (result.state, result.attempts) == (WriteState.WRITTEN, 1)
    ((verb, body),) = shelf.writes
    assert verb == "put status"
    assert body["status"] == {"url": "x", "conditions": WANTED}
    assert body["metadata"]["resourceVersion"] == "1"


async def test_equal_conditions_are_not_written() -> None:
    """Where the wanted conditions are there already, nothing is sent."""
    shelf = Shelf()
    shelf.obj["status"] = {"conditions": WANTED}
    assert (await Desk(shelf).write()).state is WriteState.UNCHANGED
    assert shelf.writes == []


@pytest.mark.parametrize("error", [Conflict, ServerError, ConnectionFailed, TooManyRequests])
async def test_passing_troubles_are_tried_again(error: type[KubeError]) -> None:
    """Conflict, 5xx, time-outs and 429 lead to a new read and a new write."""
    shelf = Shelf()
    shelf.write_errors = [error("x", call=CALL), error("x", call=CALL)]
    result = await Desk(shelf).write()
    assert (result.state, result.attempts, shelf.reads) == (WriteState.WRITTEN, 3, 3)


async def test_a_failing_read_is_tried_again() -> None:
    """An API server that does not answer the read gets another try as well."""
    shelf = Shelf()
    shelf.read_errors = [ConnectionFailed("timed out", call=CALL)]
    assert (await Desk(shelf).write()).attempts == 2


@pytest.mark.parametrize("error", [Forbidden, Unauthorized])
async def test_what_stays_as_it_is_goes_to_the_caller_at_once(error: type[KubeError]) -> None:
    """Forbidden and Unauthorized are raised after one try."""
    shelf = Shelf()
    shelf.write_errors = [error("x", call=CALL)]
    with pytest.raises(error):
        await Desk(shelf).write()
    assert shelf.reads == 1


async def test_an_object_that_was_just_seen_is_not_read_again() -> None:
    """The state that the caller offers is written onto, with its own resourceVersion, without a read."""
    shelf = Shelf()
    newest = {**shelf.obj, "status": {"url": "x"}}
    result = await Desk(shelf).write(newest=newest)
    assert (result.state, shelf.reads) == (WriteState.WRITTEN, 0)
    assert shelf.writes[0][1] == {**newest, "status": {"url": "x", "conditions": WANTED}}


async def test_an_offered_state_that_is_out_of_date_is_read_anew_at_once() -> None:
    """A Conflict on the offered state costs no waiting, and the object is written onto as it is now."""
    shelf = Shelf()
    shelf.write_errors = [Conflict("x", call=CALL)]
    result = await Desk(shelf).write(newest={**shelf.obj, "status": {"url": "old"}}, within=0)
    assert (result.state, result.attempts, shelf.reads) == (WriteState.WRITTEN, 1, 1)
    assert "url" not in shelf.writes[0][1]["status"]


async def test_an_offered_state_that_asks_for_no_write_is_not_believed() -> None:
    """Where the offered state has the wanted conditions already, the live object decides."""
    shelf = Shelf()
    result = await Desk(shelf).write(newest={**shelf.obj, "status": {"conditions": WANTED}})
    assert (result.state, shelf.reads) == (WriteState.WRITTEN, 1)


async def test_an_offered_state_of_another_object_is_not_believed() -> None:
    """Another UID in the offered state leads to a read, and its content is written nowhere."""
    shelf = Shelf()
    other = {**shelf.obj, "metadata": {**shelf.obj["metadata"], "uid": "another"}}
    result = await Desk(shelf).write(newest=other)
    assert (result.state, shelf.reads) == (WriteState.WRITTEN, 1)
    assert shelf.writes[0][1]["metadata"]["uid"] != "another"


@pytest.mark.parametrize("error", [ServerError, ConnectionFailed, TooManyRequests])
async def test_a_trouble_with_an_offered_state_counts_as_a_try(error: type[KubeError]) -> None:
    """After any other passing trouble the writer waits, and reads."""
    shelf = Shelf()
    shelf.write_errors = [error("x", call=CALL)]
    result = await Desk(shelf).write(newest=dict(shelf.obj))
    assert (result.state, result.attempts, shelf.reads) == (WriteState.WRITTEN, 2, 1)


async def test_waits_grow_between_tries() -> None:
    """After the n-th failure the writer waits as long as the back-off says."""
    shelf = Shelf()
    shelf.write_errors = [Conflict("x", call=CALL)] * 2
    desk = Desk(shelf)
    task = asyncio.create_task(desk.writer.write(WIDGET, shelf.obj, compute=compute))
    await desk.clock.advance(0.9)
    assert shelf.reads == 1
    await desk.clock.advance(0.2)
    assert shelf.reads == 2
    await desk.clock.advance(1.8)
    assert shelf.reads == 2
    await desk.clock.advance(0.2)
    assert (await task).attempts == 3


@pytest.mark.parametrize("error", [TooManyRequests, ServerError])
async def test_retry_after_is_kept(error: type[KubeError]) -> None:
    """A server that asks for seven seconds gets seven seconds."""
    shelf = Shelf()
    shelf.write_errors = [error("busy", call=CALL, retry_after=7)]
    desk = Desk(shelf)
    task = asyncio.create_task(desk.writer.write(WIDGET, shelf.obj, compute=compute))
    await desk.clock.advance(6.9)
    assert shelf.reads == 1
    await desk.clock.advance(0.2)
    assert (await task).attempts == 2


async def test_used_up_tries_are_told_with_count_and_time() -> None:
    """After the last try the error names the number of tries, the seconds and the last answer."""
    shelf = Shelf()
    shelf.write_errors = [Conflict("changed", call=CALL)] * 99
    with pytest.raises(StatusWriteExhausted) as caught:
        await Desk(shelf, attempts=4).write()
    error = caught.value
    assert (error.attempts, error.seconds, error.verdict, shelf.reads) == (4, 6, Verdict.RETRY, 4)
    assert "not written after 4 tries in 6.0 s" in str(error)
    assert "update widgets.example.com/status web in namespace shop: changed" in str(error)


async def test_the_total_time_is_not_exceeded_by_waiting() -> None:
    """A wait that would end after the total time is not begun."""
    shelf = Shelf()
    shelf.write_errors = [Conflict("changed", call=CALL)] * 99
    with pytest.raises(StatusWriteExhausted) as caught:
        await Desk(shelf, total_time=7).write()
    assert (caught.value.attempts, caught.value.seconds) == (4, 6)


async def test_a_long_retry_after_goes_to_the_caller() -> None:
    """A server that asks for more patience than one write has is obeyed by the queue."""
    shelf = Shelf()
    shelf.write_errors = [TooManyRequests("busy", call=CALL, retry_after=300)]
    with pytest.raises(StatusWriteExhausted) as caught:
        await Desk(shelf).write(within=0)
    assert (caught.value.retry_after, caught.value.verdict) == (300, Verdict.RETRY_AT)


def _gone() -> NotFound:
    """Return what the API server says of an object that is not there, while it serves the kind."""
    error = NotFound("gone", call=CALL)
    error.names_object = True
    return error


async def test_a_kind_that_is_not_served_tells_nothing_about_the_object() -> None:
    """A bare 404 goes to the caller, who keeps the status: the object may be there all the same."""
    shelf = Shelf()
    shelf.read_errors = [NotFound("404 page not found", call=CALL)]
    with pytest.raises(NotFound):
        await Desk(shelf).write()


async def test_a_gone_object_is_no_error() -> None:
    """An object that is deleted before the read needs no status."""
    shelf = Shelf()
    shelf.read_errors = [_gone()]
    result = await Desk(shelf).write()
    assert (result.state, result.obj) == (WriteState.GONE, None)


async def test_an_object_gone_between_read_and_write_is_no_error() -> None:
    """An object that is deleted between read and write needs no status."""
    shelf = Shelf()
    shelf.read_errors = []
    shelf.write_errors = [_gone()]
    desk = Desk(shelf)

    def vanish(found: list[Any]) -> list[Any]:
        shelf.read_errors = [_gone()]
        return [*found, *WANTED]

    assert (await desk.writer.write(WIDGET, dict(shelf.obj), compute=vanish)).state is WriteState.GONE


async def test_a_missing_subresource_goes_to_the_caller() -> None:
    """A write that is not found although the object is there means that discovery is out of date."""
    shelf = Shelf()
    shelf.write_errors = [NotFound("no such subresource", call=CALL)]
    with pytest.raises(NotFound):
        await Desk(shelf).write()


async def test_another_object_of_the_name_is_left_alone() -> None:
    """An object with another UID is returned, and never written."""
    shelf = Shelf()
    old = {"metadata": {**shelf.obj["metadata"], "uid": "u0"}}
    result = await Desk(shelf).writer.write(WIDGET, old, compute=compute)
    assert (result.state, result.obj) == (WriteState.SUPERSEDED, shelf.obj)
    assert shelf.writes == []


async def test_a_kind_without_subresource_is_patched() -> None:
    """Status goes to the object itself, in a patch that holds for the version and UID that were read."""
    shelf = Shelf()
    assert (await Desk(shelf).write(PLAIN)).state is WriteState.WRITTEN
    assert shelf.writes == [
        ("patch ", {"metadata": {"resourceVersion": "1", "uid": "u1"}, "status": {"conditions": WANTED}})
    ]


async def test_a_kind_without_status_is_skipped_and_told_once() -> None:
    """Secrets and ConfigMaps can't hold conditions: nothing is sent, and the log says so one time."""
    shelf = Shelf(generation=None)
    desk = Desk(shelf)
    assert [(await desk.write(SECRET)).state for _ in range(3)] == [WriteState.SKIPPED] * 3
    assert shelf.writes == []
    assert desk.sink.sentences() == ["This kind has no status; its conditions are not written"]


async def test_pruned_fields_are_told_once_and_not_written_again() -> None:
    """A schema that drops ansibleResult costs one log line and no further write."""
    shelf = Shelf()
    shelf.pruned = ("ansibleResult",)
    desk = Desk(shelf)
    first = await desk.write()
    assert (first.state, first.pruned, len(shelf.writes)) == (WriteState.WRITTEN, True, 1)
    await desk.write()
    (record,) = desk.sink.records
    assert record["dropped"] == ["Running.ansibleResult"]


@pytest.mark.parametrize("status", ["text", None, [], {"conditions": {"a": 1}}])
async def test_a_broken_status_is_replaced(status: object) -> None:
    """A status that is no object, or whose conditions are no list, does not stop the write."""
    shelf = Shelf()
    shelf.obj["status"] = status
    await Desk(shelf).write()
    assert shelf.obj["status"] == {"conditions": WANTED}


async def test_a_cancelled_write_ends_at_once() -> None:
    """A shutdown does not wait for the tries of a status write."""
    shelf = Shelf()
    shelf.write_errors = [Conflict("x", call=CALL)] * 99
    desk = Desk(shelf)
    task = asyncio.create_task(desk.writer.write(WIDGET, shelf.obj, compute=compute))
    await desk.clock.settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
