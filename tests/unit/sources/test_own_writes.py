"""The ledger of own writes: who made a change, whenever its answer and its event come."""

from __future__ import annotations

import asyncio
import json

import pytest

from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.proxy.exchange import Caller, Owner
from runner.sources.own_writes import OwnerKey, OwnWrites, WriteUnderWay
from runner.sources.store import Change, ChangeKind
from runner.testing.clock import FakeClock
from runner.testing.waiting import ended

DEPLOYMENT = GVK("apps", "v1", "Deployment")
DEPLOYMENTS = Resource(gvk=DEPLOYMENT, plural="deployments")
WEBAPP = GVK("apps.example.com", "v1", "WebApp")


def caller(name: str, *, run: str = "1") -> Caller:
    """Return a run for the WebApp *name*."""
    return Caller(owner=Owner(gvk=WEBAPP, namespace="ns", name=name, uid=f"uid-{name}"), run=run)


def key(name: str) -> OwnerKey:
    """Return the WebApp *name* as a dependent names it."""
    return OwnerKey(group=WEBAPP.group, kind=WEBAPP.kind, namespace="ns", name=name)


def deployment(*, version: int, uid: str = "u", name: str = "web") -> Object:
    """Return a Deployment at *version*."""
    return {"metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}}


def change(obj: Object, *, kind: ChangeKind = ChangeKind.MODIFIED) -> Change:
    """Return a change to *obj*."""
    return Change(kind=kind, obj=obj, old=None if kind is ChangeKind.ADDED else obj)


class Ledger:
    """A ledger, the runs that live, and what it told."""

    def __init__(self, *, remembered: int = 100) -> None:
        """Let every run live."""
        self.over: set[Caller] = set()
        self.clock = FakeClock()
        self.own = OwnWrites(lives=lambda run: run not in self.over, clock=self.clock, remembered=remembered)
        self.told: list[set[OwnerKey] | None] = []

    def wrote(self, run: Caller, answer: Object, *, verb: str = "patch", status: int = 200) -> None:
        """Note a write from its start to its answer."""
        name = "" if verb in {"create", "deletecollection"} else "web"
        with self.own.writing(DEPLOYMENTS, namespace="ns", name=name, verb=verb, caller=run) as write:
            write.answered(status=status, body=json.dumps(answer).encode())

    def ask(self, event: Change, *, gvk: GVK = DEPLOYMENT) -> None:
        """Ask who made *event*."""
        self.own.settle(gvk=gvk, change=event, then=self._answered)

    def _answered(self, writers: frozenset[OwnerKey] | None) -> None:
        self.told.append(None if writers is None else set(writers))


@pytest.fixture
def ledger() -> Ledger:
    """Give an empty ledger."""
    return Ledger()


def test_the_change_that_a_run_made_is_its_own(ledger: Ledger) -> None:
    """Same UID and resource version as in the answer: the run's owner made it, and nobody else."""
    ledger.wrote(caller("a"), deployment(version=5))
    ledger.ask(change(deployment(version=5)))
    assert ledger.told == [{key("a")}]


@pytest.mark.parametrize(
    "other",
    [deployment(version=4), deployment(version=6), deployment(version=5, uid="another")],
    ids=["before", "after", "another object"],
)
def test_any_other_change_is_not(ledger: Ledger, other: Object) -> None:
    """The change before or after it, and one of another object of that name, were made by somebody else."""
    ledger.wrote(caller("a"), deployment(version=5))
    ledger.ask(change(other))
    assert ledger.told == [set()]


def test_each_owner_that_wrote_that_version_made_it(ledger: Ledger) -> None:
    """A write that changed nothing is answered with the version that is there: it counts for both."""
    ledger.wrote(caller("a"), deployment(version=5))
    ledger.wrote(caller("b"), deployment(version=5))
    ledger.ask(change(deployment(version=5)))
    assert ledger.told == [{key("a"), key("b")}]


def test_a_change_of_a_past_run_is_still_its_own(ledger: Ledger) -> None:
    """The event of a write may come after the run ended."""
    ledger.wrote(caller("a"), deployment(version=5))
    ledger.over.add(caller("a"))
    ledger.ask(change(deployment(version=5)))
    assert ledger.told == [{key("a")}]


def test_an_event_before_the_answer_waits_for_it(ledger: Ledger) -> None:
    """While a write of that object is under way nobody knows who made the change; the answer tells."""
    with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="web", verb="patch", caller=caller("a")) as write:
        ledger.ask(change(deployment(version=5)))
        ledger.ask(change(deployment(version=6)))
        ledger.ask(change(deployment(version=9, uid="o", name="other")))
        assert ledger.told == [set()], "another object waits for nothing"
        write.answered(status=200, body=json.dumps(deployment(version=5)).encode())
        assert ledger.told == [set(), {key("a")}, set()], "the client need not have its answer yet"


def test_with_two_writes_under_way_the_last_answer_tells(ledger: Ledger) -> None:
    """Two runs write one object at once: an event waits until both are answered."""
    writing = ledger.own.writing
    with writing(DEPLOYMENTS, namespace="ns", name="web", verb="patch", caller=caller("a")) as first:
        with writing(DEPLOYMENTS, namespace="ns", name="web", verb="patch", caller=caller("b")) as second:
            ledger.ask(change(deployment(version=5)))
            second.answered(status=200, body=json.dumps(deployment(version=6)).encode())
        assert ledger.told == []
        first.answered(status=200, body=json.dumps(deployment(version=5)).encode())
    assert ledger.told == [{key("a")}]


@pytest.mark.parametrize(
    ("status", "body"), [(409, b'{"kind":"Status"}'), (500, b"broken"), (200, b"k8s\x00protobuf"), (200, b"[]")]
)
def test_a_write_that_failed_or_cannot_be_read_leaves_nothing(ledger: Ledger, status: int, body: bytes) -> None:
    """A refusal, an answer in another form than JSON: the change counts as somebody else's."""
    with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="web", verb="patch", caller=caller("a")) as write:
        write.answered(status=status, body=body)
    ledger.ask(change(deployment(version=5)))
    assert ledger.told == [set()]
    assert not len(ledger.own)


def test_a_write_without_an_answer_leaves_nothing(ledger: Ledger) -> None:
    """The connection broke: who waited is told that nobody of ours is known to have made the change."""

    def broken() -> WriteUnderWay:
        with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="web", verb="patch", caller=caller("a")):
            ledger.ask(change(deployment(version=5)))
            raise ConnectionError

    with pytest.raises(ConnectionError):
        broken()
    assert ledger.told == [set()]
    assert not len(ledger.own)


def test_a_new_object_waits_for_every_creation_of_its_kind(ledger: Ledger) -> None:
    """The server makes the name: only the answer tells it, and existing objects don't wait for that."""
    added = change(deployment(version=5, name="web-x7f"), kind=ChangeKind.ADDED)
    with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="", verb="create", caller=caller("a")) as write:
        ledger.ask(added)
        ledger.ask(change(deployment(version=4)))
        assert ledger.told == [set()]
        write.answered(status=201, body=json.dumps(deployment(version=5, name="web-x7f")).encode())
    assert ledger.told == [set(), {key("a")}]


def test_the_version_of_the_kind_does_not_matter(ledger: Ledger) -> None:
    """A role writes in one API version, and the watch may use another."""
    with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="web", verb="patch", caller=caller("a")) as write:
        ledger.ask(change(deployment(version=5)), gvk=GVK("apps", "v1beta1", "Deployment"))
        write.answered(status=200, body=json.dumps(deployment(version=5)).encode())
    assert ledger.told == [{key("a")}]


async def test_a_write_that_hangs_hides_a_change_for_half_a_minute(ledger: Ledger) -> None:
    """Then nobody can tell whose the change is; a later one waits for its own time, and the answer still tells."""
    task = asyncio.create_task(ledger.own.run())
    with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="web", verb="patch", caller=caller("a")) as write:
        ledger.ask(change(deployment(version=5)))
        await ledger.clock.advance(20)
        ledger.ask(change(deployment(version=6)))
        assert ledger.told == []
        await ledger.clock.advance(15)
        assert ledger.told == [None]
        write.answered(status=200, body=json.dumps(deployment(version=6)).encode())
        assert ledger.told == [None, {key("a")}]
    await ledger.clock.advance(60)
    assert ledger.told == [None, {key("a")}]
    await ended(task)


async def test_a_write_that_hangs_does_not_hide_who_is_known(ledger: Ledger) -> None:
    """Another write of the object was answered with that version: after half a minute its owner is told."""
    task = asyncio.create_task(ledger.own.run())
    with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="web", verb="patch", caller=caller("b")):
        ledger.wrote(caller("a"), deployment(version=5))
        ledger.ask(change(deployment(version=5)))
        await ledger.clock.advance(35)
        assert ledger.told == [{key("a")}]
    await ended(task)


async def test_writes_without_a_pause_hide_a_change_no_longer(ledger: Ledger) -> None:
    """A creation hangs and a write of the object, one after the other: the wait is counted from the change on."""
    task = asyncio.create_task(ledger.own.run())
    added = change(deployment(version=5), kind=ChangeKind.ADDED)
    with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="", verb="create", caller=caller("b")):
        with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="web", verb="patch", caller=caller("a")):
            ledger.ask(added)
            await ledger.clock.advance(25)
        assert ledger.told == [], "the creation may have made it"
        await ledger.clock.advance(10)
        assert ledger.told == [None]
    assert ledger.told == [None]
    await ended(task)


DELETED_STATUS: Object = {"kind": "Status", "status": "Success", "details": {"name": "web", "uid": "u"}}


@pytest.mark.parametrize("answer", [DELETED_STATUS, deployment(version=5)], ids=["Status", "object"])
def test_a_deletion_is_own_while_the_run_lives(ledger: Ledger, answer: Object) -> None:
    """A role that deletes and makes an object anew doesn't start itself; what goes after the run starts one."""
    gone = change(deployment(version=6), kind=ChangeKind.DELETED)
    ledger.wrote(caller("a"), answer, verb="delete")
    ledger.ask(gone)
    ledger.ask(change(deployment(version=6, uid="another"), kind=ChangeKind.DELETED))
    ledger.over.add(caller("a"))
    ledger.ask(gone)
    assert ledger.told == [{key("a")}, set(), set()]


def test_a_later_run_of_the_owner_does_not_make_a_deletion_its_own(ledger: Ledger) -> None:
    """The run that deleted must live, not another one of the same object."""
    ledger.wrote(caller("a", run="1"), DELETED_STATUS, verb="delete")
    ledger.over.add(caller("a", run="1"))
    ledger.ask(change(deployment(version=6), kind=ChangeKind.DELETED))
    assert ledger.told == [set()]


def test_the_begin_of_an_own_deletion_is_own(ledger: Ledger) -> None:
    """An object that a finalizer holds gets a deletion timestamp, in the version that the answer has."""
    ledger.wrote(caller("a"), deployment(version=5), verb="delete")
    ledger.ask(change(deployment(version=5)))
    assert ledger.told == [{key("a")}]


def going(*, version: int, uid: str = "u") -> Change:
    """Return the change that gives a Deployment its deletion timestamp."""
    old, new = deployment(version=version - 1, uid=uid), deployment(version=version, uid=uid)
    new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Change(kind=ChangeKind.MODIFIED, obj=new, old=old)


@pytest.mark.parametrize("early", [True, False], ids=["before the answer", "after it"])
def test_what_a_run_deletes_with_its_collection_is_its_own(ledger: Ledger, *, early: bool) -> None:
    """Every object that the answer lists, its end as well as the begin of its deletion; no other change of it."""
    gone = change(deployment(version=9), kind=ChangeKind.DELETED)
    other = change(deployment(version=9, uid="another"), kind=ChangeKind.DELETED)
    listed = {"kind": "DeploymentList", "items": [deployment(version=5), deployment(version=6, uid="more"), "odd"]}
    with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="", verb="deletecollection", caller=caller("a")) as write:
        if early:
            for event in (going(version=8), gone, other):
                ledger.ask(event)
            assert ledger.told == []
        write.answered(status=200, body=json.dumps(listed).encode())
    if not early:
        for event in (going(version=8), gone, other):
            ledger.ask(event)
    assert ledger.told == [{key("a")}, {key("a")}, set()]
    ledger.ask(change(deployment(version=5)))
    ledger.over.add(caller("a"))
    ledger.ask(going(version=8))
    ledger.ask(gone)
    assert ledger.told[3:] == [set(), {key("a")}, set()]


def test_a_collection_that_is_being_deleted_hides_no_other_change(ledger: Ledger) -> None:
    """Only what goes waits for the answer."""
    with ledger.own.writing(DEPLOYMENTS, namespace="ns", name="", verb="deletecollection", caller=caller("a")):
        ledger.ask(change(deployment(version=5)))
        ledger.ask(change(deployment(version=1, uid="new"), kind=ChangeKind.ADDED))
        assert ledger.told == [set(), set()]


def test_memory_is_bounded() -> None:
    """What was written longest ago is forgotten first."""
    ledger = Ledger(remembered=10)
    for version in range(1, 101):
        ledger.wrote(caller("a"), deployment(version=version, uid=f"u{version}"), verb="delete")
    assert len(ledger.own) == 30
    ledger.ask(change(deployment(version=100, uid="u100")))
    ledger.ask(change(deployment(version=1, uid="u1")))
    assert ledger.told == [{key("a")}, set()]


def test_the_newest_own_version_of_an_object_is_known(ledger: Ledger) -> None:
    """Versions are compared as numbers; one that is none counts as unknown."""
    for version in (9, 10, 8):
        ledger.wrote(caller("a"), deployment(version=version))
    odd = deployment(version=1, uid="odd")
    odd["metadata"]["resourceVersion"] = "abc"
    ledger.wrote(caller("a"), odd)
    assert (ledger.own.newest("u"), ledger.own.newest("odd"), ledger.own.newest("never")) == (10, 0, 0)
