"""What people are told when somebody else changes what a run made."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, name_of
from runner.logs import Logger, RecordingSink
from runner.proxy.exchange import Caller, Owner
from runner.proxy.ownership import PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE
from runner.sources.dependent_transform import DependentTransform
from runner.sources.drift import DriftReporter
from runner.sources.own_writes import OwnWrites
from runner.sources.store import Change, Store
from runner.testing.clock import FakeClock
from runner.testing.waiting import ended
from runner.workqueue.request import Request

WEBAPP = GVK("apps.example.com", "v1", "WebApp")
DEPLOYMENT = GVK("apps", "v1", "Deployment")
OWNER = Request(WEBAPP, "default", "shop")
END = "; the role runs again"


def dependent(*, gvk: GVK = DEPLOYMENT, meta: Object | None = None, **parts: Any) -> Object:
    """Return a dependent with *parts* beside its metadata."""
    metadata = {"name": "web", "namespace": "default", "uid": "u", **(meta or {})}
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, **parts}


def scaled(replicas: int) -> Object:
    """Return the Deployment with so many replicas."""
    return dependent(spec={"replicas": replicas})


class Told:
    """The Events of a test: `runner.sources.drift.Events`."""

    def __init__(self) -> None:
        """Begin with none."""
        self.events: list[tuple[str, str, str]] = []

    async def record(self, obj: Mapping[str, Any], *, reason: str, message: str) -> None:
        """Keep an Event."""
        self.events.append((name_of(obj), reason, message))


class Site:
    """One dependent, the store of its informer, and the reporter."""

    def __init__(self) -> None:
        """Let the owner be there, and no run live."""
        self.owners: dict[Request, Object] = {OWNER: {"metadata": {"name": OWNER.name}}}
        self.own = OwnWrites(lives=lambda _caller: False, clock=FakeClock())
        self.clock = FakeClock()
        self.sink = RecordingSink()
        self.told = Told()
        self.reporter = DriftReporter(
            own=self.own,
            owner=self.owners.get,
            events=self.told,
            clock=self.clock,
            logger=Logger(sink=self.sink, level="debug"),
        )
        self.stores: dict[GVK, Store] = {}
        self.version = 0

    def put(self, obj: Object, *, gvk: GVK = DEPLOYMENT) -> Change:
        """Let the informer see *obj* in a new version."""
        self.version += 1
        body = json.loads(json.dumps(obj))
        body["metadata"]["resourceVersion"] = str(self.version)
        store = self.stores.setdefault(gvk, Store(transform=DependentTransform(gvk)))
        (change,) = store.put(body)
        return change

    def by_hand(self, obj: Object, *, gvk: GVK = DEPLOYMENT) -> Change:
        """Let somebody else change the dependent, which is reported."""
        change = self.put(obj, gvk=gvk)
        self.reporter.report(OWNER, gvk=gvk, change=change)
        return change

    def delete(self, *, gvk: GVK = DEPLOYMENT) -> None:
        """Let somebody else delete the dependent."""
        (last,) = self.stores[gvk]
        (change,) = self.stores[gvk].remove(last)
        self.reporter.report(OWNER, gvk=gvk, change=change)

    def by_run(self, obj: Object) -> None:
        """Let a run of the owner write the dependent, which is not reported."""
        change = self.put(obj)
        resource = Resource(gvk=DEPLOYMENT, plural="deployments")
        run = Caller(owner=Owner(gvk=WEBAPP, namespace="default", name="shop", uid="o"), run="1")
        with self.own.writing(resource, namespace="default", name="web", verb="patch", caller=run) as write:
            write.answered(status=200, body=json.dumps(change.obj).encode())

    def lines(self, level: str = "info") -> list[Mapping[str, Any]]:
        """Return the log records of *level*."""
        return [record for record in self.sink.records if record["level"] == level]

    async def events(self) -> list[tuple[str, str]]:
        """Return reason and message of all Events, once nobody waits to write one."""
        for _ in range(200):
            await asyncio.sleep(0)
        return [(reason, message) for _, reason, message in self.told.events]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Give a reporter at work."""
    site = Site()
    task = asyncio.create_task(site.reporter.run())
    yield site
    await ended(task)


async def test_a_change_is_told_with_desired_and_actual(site: Site) -> None:
    """One line names owner, dependent and field; the Event on the owner says it in a sentence."""
    site.put(scaled(3))
    site.by_hand(scaled(10))
    (line,) = site.lines()
    assert line["msg"] == "Dependent changed"
    assert (line["name"], line["namespace"], line["gvk"]) == ("shop", "default", str(WEBAPP))
    assert line["dependent"] == "Deployment default/web"
    assert line["fields"] == [{"field": "spec.replicas", "desired": "3", "actual": "10"}]
    text = f"Deployment default/web was changed: spec.replicas desired 3, actual 10{END}"
    assert await site.events() == [("DependentChanged", text)]
    assert site.told.events[0][0] == "shop"


async def test_a_second_change_is_compared_with_the_same_wish(site: Site) -> None:
    """3, then 10, then 12 by hand, before a run came to it: 3 is still what should be."""
    site.put(scaled(3))
    site.by_hand(scaled(10))
    site.by_hand(scaled(12))
    assert [line["fields"][0]["desired"] for line in site.lines()] == ["3", "3"]
    assert site.lines()[1]["fields"][0]["actual"] == "12"


async def test_the_wish_moves_with_the_own_writes(site: Site) -> None:
    """After a run wrote 5, a change by hand is compared with 5, whatever the status did meanwhile."""
    site.put(scaled(3))
    site.by_hand(scaled(10))
    site.by_run(scaled(5))
    site.put({**scaled(5), "status": {"replicas": 5}})
    site.by_hand(scaled(12))
    assert [line["fields"][0]["desired"] for line in site.lines()] == ["3", "5"]


async def test_what_a_run_left_as_it_is_becomes_the_wish(site: Site) -> None:
    """A role that writes and changes nothing doesn't mind: a label of somebody else is told once and not again."""
    site.put(scaled(3))
    labelled = dependent(meta={"labels": {"team": "red"}}, spec={"replicas": 3})
    change = site.by_hand(labelled)
    run = Caller(owner=Owner(gvk=WEBAPP, namespace="default", name="shop", uid="o"), run="1")
    resource = Resource(gvk=DEPLOYMENT, plural="deployments")
    with site.own.writing(resource, namespace="default", name="web", verb="patch", caller=run) as write:
        write.answered(status=200, body=json.dumps(change.obj).encode())
    site.by_hand({**labelled, "spec": {"replicas": 10}})
    assert [entry["field"] for entry in site.lines()[1]["fields"]] == ["spec.replicas"]


async def test_putting_it_back_by_hand_is_no_drift(site: Site) -> None:
    """A change back to what should be leaves a debug line and no Event; the next one is drift again."""
    site.put(scaled(3))
    site.by_hand(scaled(10))
    site.by_hand(scaled(3))
    assert (len(site.lines()), len(site.lines("debug"))) == (1, 1)
    site.by_hand(scaled(4))
    assert site.lines()[1]["fields"] == [{"field": "spec.replicas", "desired": "3", "actual": "4"}]
    assert len(await site.events()) == 2


async def test_the_same_difference_is_told_once(site: Site) -> None:
    """What a controller notes just after somebody's change is no second change; another difference is told whole."""
    site.put(scaled(3))
    site.by_hand(scaled(10))
    noted = {"annotations": {"deployment.kubernetes.io/revision": "2"}}
    site.by_hand(dependent(spec={"replicas": 10}, meta=noted))
    assert (len(site.lines()), len(site.lines("debug"))) == (1, 1)
    site.by_hand(dependent(spec={"replicas": 10, "paused": True}, meta=noted))
    assert [entry["field"] for entry in site.lines()[1]["fields"]] == ["spec.replicas", "spec.paused"]
    assert len(await site.events()) == 2


async def test_the_same_change_after_it_was_put_back_is_told_again(site: Site) -> None:
    """10 by hand, 3 by a run, 10 by hand, 3 by hand, 10 by hand: three times somebody else made it 10."""
    site.put(scaled(3))
    site.by_hand(scaled(10))
    site.by_run(scaled(3))
    site.by_hand(scaled(10))
    site.by_hand(scaled(3))
    site.by_hand(scaled(10))
    assert [line["fields"][0]["actual"] for line in site.lines()] == ["10", "10", "10"]


async def test_each_owner_of_a_dependent_is_told_the_same(site: Site) -> None:
    """Two owners share a dependent: both get the Event, with the same values."""
    other = Request(WEBAPP, "default", "blog")
    site.owners[other] = {"metadata": {"name": "blog"}}
    site.put(scaled(3))
    change = site.by_hand(scaled(10))
    site.reporter.report(other, gvk=DEPLOYMENT, change=change)
    await site.events()
    (first, _, text), (second, _, same) = site.told.events
    assert (first, second) == ("shop", "blog")
    assert text == same


async def test_a_deletion_is_told(site: Site) -> None:
    """The line and the Event name what was deleted."""
    site.put(scaled(3))
    site.delete()
    (line,) = site.lines()
    assert (line["msg"], line["dependent"]) == ("Dependent deleted", "Deployment default/web")
    assert "fields" not in line
    assert await site.events() == [("DependentDeleted", f"Deployment default/web was deleted{END}")]


async def test_a_deletion_that_takes_time_is_told_once(site: Site) -> None:
    """A finalizer holds the dependent: its deletion timestamp is told, and that it is gone at last is not."""
    site.put(scaled(3))
    site.by_hand(dependent(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}, spec={"replicas": 3}))
    site.delete()
    assert [line["msg"] for line in site.lines()] == ["Dependent deleted"]
    assert len(await site.events()) == 1


@pytest.mark.parametrize("owner", [None, {"metadata": {"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"}}])
async def test_an_owner_that_goes_is_told_nothing(site: Site, owner: Object | None) -> None:
    """The garbage collector deletes the dependents of an owner that is gone: that is nobody's drift."""
    site.put(scaled(3))
    del site.owners[OWNER]
    if owner is not None:
        site.owners[OWNER] = owner
    site.delete()
    assert not site.lines()
    assert not await site.events()


PVC = GVK("", "v1", "PersistentVolumeClaim")


@pytest.mark.parametrize(
    ("old", "new", "gvk"),
    [
        (
            dependent(spec={}),
            dependent(spec={}, meta={"annotations": {"deployment.kubernetes.io/revision": "2"}}),
            DEPLOYMENT,
        ),
        (
            dependent(spec={}),
            dependent(spec={}, meta={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}),
            DEPLOYMENT,
        ),
        (dependent(spec={}), dependent(spec={}, meta={"labels": {"batch.kubernetes.io/job-name": "a"}}), DEPLOYMENT),
        (dependent(spec={}), dependent(spec={}, meta={"finalizers": ["kubernetes.io/pvc-protection"]}), DEPLOYMENT),
        (dependent(gvk=PVC, spec={}), dependent(gvk=PVC, spec={"volumeName": "pv-1"}), PVC),
        (dependent(status={"a": 1}), dependent(status={"a": 2}), DEPLOYMENT),
    ],
    ids=["revision", "last applied", "label", "finalizer", "bound", "status"],
)
async def test_what_controllers_do_is_a_debug_line(site: Site, old: Object, new: Object, gvk: GVK) -> None:
    """Annotations and labels of Kubernetes, finalizers, filled-in fields and status would mislead a person."""
    site.put(old, gvk=gvk)
    site.by_hand(new, gvk=gvk)
    assert not site.lines()
    assert len(site.lines("debug")) == 1
    assert not await site.events()


async def test_only_what_people_did_is_named(site: Site) -> None:
    """In a change of both kinds the controllers' part is left out."""
    site.put(scaled(3))
    annotations = {"deployment.kubernetes.io/revision": "2", "example.com/note": "mine"}
    site.by_hand(
        dependent(spec={"replicas": 3}, meta={"annotations": annotations, "labels": {"app.kubernetes.io/name": "a"}})
    )
    assert [entry["field"] for entry in site.lines()[0]["fields"]] == [
        'metadata.labels["app.kubernetes.io/name"]',
        'metadata.annotations["example.com/note"]',
    ]


BY_REFERENCE = {"ownerReferences": [{"apiVersion": "apps.example.com/v9", "kind": "WebApp", "name": "shop"}]}
BY_ANNOTATIONS = {"annotations": {PRIMARY_RESOURCE: "default/shop", PRIMARY_RESOURCE_TYPE: "WebApp.apps.example.com"}}


@pytest.mark.parametrize(
    ("meta", "mark"),
    [
        (BY_REFERENCE, "owner reference"),
        (BY_ANNOTATIONS, f"annotations {PRIMARY_RESOURCE} and {PRIMARY_RESOURCE_TYPE}"),
    ],
)
@pytest.mark.parametrize(
    "without",
    [{}, {"ownerReferences": [{"apiVersion": "apps.example.com/v1", "kind": "WebApp", "name": "other"}]}],
    ids=["nobody's", "another's"],
)
async def test_a_dependent_that_loses_its_owner_is_told_with_the_remedy(
    site: Site, meta: Object, mark: str, without: Object
) -> None:
    """The line and the Event say that it isn't watched any more, and what to do; what else changed is not told."""
    site.put(dependent(meta=meta, spec={"replicas": 3}))
    site.by_hand(dependent(meta=without, spec={"replicas": 5}))
    remedy = f"delete it, so that the role makes it anew, or put the {mark} back"
    (line,) = site.lines()
    assert (line["msg"], line["remedy"]) == (f"Dependent lost its {mark}", remedy)
    said = f"Deployment default/web lost its {mark} to this object, so that it is not watched any more: {remedy}{END}"
    assert await site.events() == [("DependentReleased", said)]


async def test_annotations_of_a_secret_never_show(site: Site) -> None:
    """Any of them may repeat the whole object, as tools that apply one do; neither its value nor a hash is told."""
    secret = GVK("", "v1", "Secret")
    names = ["kapp.k14s.io/original", "note", "added"]
    site.put(dependent(gvk=secret, meta={"annotations": dict.fromkeys(names[:2], "old")}), gvk=secret)
    site.by_hand(dependent(gvk=secret, meta={"annotations": dict.fromkeys(names, "new")}), gvk=secret)
    fields = site.lines()[0]["fields"]
    assert [(entry["desired"], entry["actual"]) for entry in fields] == [("differs", "differs")] * 3


async def test_secrets_never_show(site: Site) -> None:
    """Of a Secret the name of the key is told, of an environment variable its name; no value in log or Event."""
    secret = GVK("", "v1", "Secret")
    site.put(dependent(gvk=secret, data={"user": "aHVudGVyMQ=="}), gvk=secret)
    site.by_hand(dependent(gvk=secret, data={"user": "aHVudGVyMg=="}), gvk=secret)
    assert site.lines()[0]["fields"] == [{"field": "data.user", "desired": "differs", "actual": "differs"}]
    ((_, message),) = await site.events()
    assert message == f"Secret default/web was changed: data.user desired differs, actual differs{END}"


async def test_many_fields_are_counted(site: Site) -> None:
    """Ten fields are named, and how many more there are."""
    site.put(dependent(spec={}))
    site.by_hand(dependent(spec={f"field{number:02}": number for number in range(25)}))
    (line,) = site.lines()
    assert (len(line["fields"]), line["more"]) == (10, 15)
    ((_, message),) = await site.events()
    assert message.endswith(f"; spec.field09 desired absent, actual 9; and 15 more{END}")


async def test_long_values_leave_room_for_the_end_of_the_sentence(site: Site) -> None:
    """An Event holds 1 KiB: what doesn't fit is counted."""
    site.put(dependent(data={f"k{number}": "x" * 100 for number in range(10)}))
    site.by_hand(dependent(data={f"k{number}": "y" * 100 for number in range(10)}))
    ((_, message),) = await site.events()
    assert len(message) < 1024
    assert message.endswith(f"; and 5 more{END}")
    assert len(site.lines()[0]["fields"]) == 10


async def test_events_of_one_owner_are_paced(site: Site) -> None:
    """Ten at once, then one in thirty seconds; the log has every change, and other owners their Events."""
    site.put(scaled(0))
    for replicas in range(1, 31):
        site.by_hand(scaled(replicas))
    assert len(await site.events()) == 10
    assert len(site.lines()) == 30
    await site.clock.advance(30)
    site.by_hand(scaled(100))
    site.by_hand(scaled(101))
    assert len(await site.events()) == 11
