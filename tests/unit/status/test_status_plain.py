"""Plainer forms of conditions, and the writer that sends them where a schema refuses the usual ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from runner.clock import SystemClock
from runner.errors import Call, Invalid
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.logs import Logger, RecordingSink
from runner.settings import StatusSettings
from runner.status.plain import plainer_forms
from runner.status.writer import StatusWriter, WriteResult, WriteState

CALL = Call(verb="update", resource="widgets.example.com/status", namespace="shop", name="web")
WIDGET = Resource(gvk=GVK("example.com", "v1", "Widget"), plural="widgets", subresources=frozenset({"status"}))
TIME = "2026-01-01T00:00:00Z"
FOREIGN = {"type": "Ready", "status": "False", "reason": "", "message": "x" * 5000}


def _entry(type_: str, status: str, *, message: str = "", reason: str = "", **more: Any) -> Object:
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": TIME,
        "reason": reason,
        "message": message,
        **more,
    }


FAILED = [
    FOREIGN,
    _entry("Running", "False", reason="Running", message="Running reconciliation"),
    _entry("Failure", "True", reason="Failed", message="ü" * 4000, ansibleResult={"ok": 1}),
    _entry("Successful", "False", observedGeneration=3),
]


def _messages(form: Sequence[Any]) -> list[str | None]:
    return [entry.get("message") for entry in form[1:]]


def _types(form: Sequence[Any]) -> list[str]:
    return [entry["type"] for entry in form if entry != FOREIGN]


def test_each_form_says_less_than_the_one_before() -> None:
    """First the recap goes and texts are filled and cut, then texts are very short, then empty, then not there."""
    filled, short, empty, bare = itertools.islice(plainer_forms(FAILED, found=FAILED, refusal="something else"), 4)
    assert all("ansibleResult" not in entry for form in (filled, short, empty, bare) for entry in form)
    assert [len((text or "").encode()) for text in _messages(filled)] == [22, 1024, 6]
    assert [entry["reason"] for entry in filled[1:]] == ["Running", "Failed", "Failed"]
    assert filled[3]["observedGeneration"] == 3
    assert max(len((text or "").encode()) for text in _messages(short)) <= 32
    assert _messages(empty) == ["", "", ""]
    assert [entry.keys() for entry in bare[1:]] == [{"type", "status", "lastTransitionTime"}] * 3


def test_what_others_wrote_is_in_every_form() -> None:
    """A condition that is not ours is sent as it was found, whatever the schema says to ours."""
    assert all(form[0] == FOREIGN for form in plainer_forms(FAILED, found=[], refusal=""))


def test_statuses_never_change() -> None:
    """A plainer form says the same, True or False, of each condition that it has."""
    wanted = {entry["type"]: entry["status"] for entry in FAILED}
    for form in plainer_forms(FAILED, found=FAILED[:2], refusal=""):
        assert {entry["type"]: entry["status"] for entry in form}.items() <= wanted.items()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], [["Running", "Failure", "Successful"], ["Running", "Failure"], ["Failure"]]),
        (["Running"], [["Running", "Failure", "Successful"], ["Running", "Failure"], ["Running"]]),
        (
            ["Running", "Successful"],
            [["Running", "Failure", "Successful"], ["Running", "Failure"], ["Running", "Successful"]],
        ),
        (["Running", "Failure", "Successful"], [["Running", "Failure", "Successful"], ["Running", "Failure"]]),
    ],
)
def test_fewer_conditions_are_tried_at_last(found: list[str], expected: list[list[str]]) -> None:
    """After every form of all come Running and the outcome's, then what is there with and without the outcome's."""
    there = [_entry(type_, "True") for type_ in found]
    forms = plainer_forms(FAILED, found=[FOREIGN, *there], refusal="")
    assert [types for types, _ in itertools.groupby(forms, key=_types)] == expected


@pytest.mark.parametrize(("room", "expected"), [(4, "all"), (3, "two"), (2, "one"), (1, "none")])
def test_the_room_that_the_server_told_is_used(room: int, expected: str) -> None:
    """Where the refusal tells how many conditions there may be, longer lists are not tried."""
    refusal = f"status.conditions: Too many: 4: must have at most {room} items"
    longest = {"all": ["Running", "Failure", "Successful"], "two": ["Running", "Failure"], "one": ["Running"]}
    first = next(plainer_forms(FAILED, found=[_entry("Running", "True")], refusal=refusal), None)
    assert (None if first is None else _types(first)) == longest.get(expected)


def test_a_limit_that_the_server_told_is_used() -> None:
    """Where the refusal tells how long a message may be, as much of it is kept."""
    refusal = (
        "status.conditions[1].message: Too long: may not be more than 100 bytes, "
        "status.conditions[2].message: Too long: may not be more than 100 bytes"
    )
    first = next(plainer_forms(FAILED, found=[], refusal=refusal))
    assert len(first[2]["message"].encode()) in range(90, 101)
    assert "message cut" in first[2]["message"]


def test_conditions_that_cannot_be_plainer_have_no_forms() -> None:
    """Where nothing of the list is ours, there is nothing to be tried."""
    assert list(plainer_forms([FOREIGN, 7], found=[FOREIGN], refusal="")) == []


class Strict:
    """An API server whose schema accepts only what a test says."""

    def __init__(self, accepts: Callable[[list[Object]], bool]) -> None:
        """Hold an object with a status of its own."""
        self.obj: Object = {
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "1", "generation": 3},
            "status": {"conditions": [FOREIGN]},
        }
        self.puts = 0
        self._accepts = accepts

    async def get(self, resource: Resource, *, namespace: str = "", name: str) -> Object:
        """Return the object."""
        del resource, namespace, name
        return self.obj

    async def replace(self, resource: Resource, *, body: Object, subresource: str = "") -> Object:
        """Take the body if it is acceptable."""
        del resource, subresource
        self.puts += 1
        if not self._accepts(body["status"]["conditions"]):
            raise Invalid("status.conditions[1].reason: Unsupported value", call=CALL, status=422)
        self.obj = body
        return body

    async def patch(
        self,
        resource: Resource,
        *,
        name: str,
        body: Object | Sequence[Object],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Never happen: the kind has a status subresource."""
        raise AssertionError((resource, name, body, namespace, subresource))

    async def write(self, sink: RecordingSink) -> WriteResult:
        """Write the failed conditions."""
        logger = Logger(sink=sink)
        writer = StatusWriter(client=self, clock=SystemClock(), delay=float, settings=StatusSettings(), logger=logger)
        return await writer.write(WIDGET, self.obj, compute=lambda found: [*found[:1], *FAILED[1:]])


async def test_a_refused_status_is_written_plainer_at_once() -> None:
    """The first form that the schema accepts is written, and the log tells the refusal in one line."""
    sink = RecordingSink()
    server = Strict(lambda conditions: all(entry["reason"] for entry in conditions[1:]))
    assert (await server.write(sink)).state is WriteState.WRITTEN
    assert server.puts == 2
    assert server.obj["status"]["conditions"][0] == FOREIGN
    assert [record["refusal"] for record in sink.records] == ["status.conditions[1].reason: Unsupported value"]


async def test_a_plainer_status_that_is_there_is_not_written_again() -> None:
    """The same news a second time costs the refused write and no further one."""
    sink = RecordingSink()
    server = Strict(lambda conditions: all(entry["reason"] for entry in conditions[1:]))
    await server.write(sink)
    again = await server.write(sink)
    assert (again.state, server.puts) == (WriteState.UNCHANGED, 3)


async def test_a_status_that_is_refused_in_every_form_is_told_by_the_first_refusal() -> None:
    """After the barest form the caller gets the answer to what was wanted, and nothing is tried again."""
    server = Strict(lambda _: False)
    with pytest.raises(Invalid, match="Unsupported value"):
        await server.write(RecordingSink())
    assert server.puts == 15  # as wanted and four plainer forms: of all, of two, of the outcome's alone
