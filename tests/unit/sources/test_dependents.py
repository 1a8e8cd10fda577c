"""The watches on dependents: when they begin, what they keep, whose run they start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, name_of
from runner.proxy.ownership import PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, type_of
from runner.sources.informer import State
from runner.sources.store import ChangeKind
from runner.testing.apiserver import FakeApiServer
from runner.testing.clock import FakeClock
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, SECRETS
from runner.testing.informers import Site
from runner.testing.waiting import eventually
from runner.watches.model import DependentStatus, Watch
from runner.workqueue.request import Request
from tests.unit.sources.dependents_following import (
    MINE,
    ONE,
    OWNER,
    PROBE,
    Following,
    barrier,
    following,
    owned,
    replace_with,
)


@pytest.fixture
async def ours(site: Site) -> AsyncIterator[Following]:
    """Give sources for `PROBE` that run in all namespaces, and whose ConfigMaps are watched already."""
    async with following(site.kubeconfig) as found:
        await found.ensure()
        yield found


async def test_a_watch_is_open_when_ensure_returns(site: Site, ours: Following) -> None:
    """What is made and changed right after that is noticed; the making itself is not told."""
    assert ours.sources.states() == {CONFIG_MAPS.gvk: {"": State.SYNCED}}
    await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
    await replace_with(site, owned("dep", data={"k": "v"}))
    await eventually(lambda: ours.enqueued == [ONE])
    await site.client.delete(CONFIG_MAPS, namespace="test", name="dep")
    await eventually(lambda: ours.enqueued == [ONE, ONE])
    assert ours.reported == [(ONE, ChangeKind.MODIFIED, "dep"), (ONE, ChangeKind.DELETED, "dep")]


async def test_only_content_starts_a_run(site: Site, ours: Following) -> None:
    """Status and managedFields are written, and nothing comes of it."""
    await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
    await replace_with(site, owned("dep", status={"n": 1}))
    await replace_with(site, owned("dep", status={"n": 1}, metadata={"managedFields": [{"manager": "m"}]}))
    await barrier(site, ours)
    assert ours.enqueued == []


async def test_losing_its_owner_is_a_change(site: Site, ours: Following) -> None:
    """The run of the old owner starts, and the object is not kept any more."""
    await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
    await replace_with(site, owned("dep", metadata={"ownerReferences": []}))
    await eventually(lambda: ours.enqueued == [ONE])
    await replace_with(site, owned("dep", metadata={"ownerReferences": []}, data={"k": "v"}))
    await barrier(site, ours)
    assert ours.enqueued == [ONE]
    assert [name_of(obj) for obj in ours.sources.kept(CONFIG_MAPS.gvk)] == ["barrier"]


async def test_changing_its_owner_concerns_both(site: Site, ours: Following) -> None:
    """The old one and the new one run."""
    await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
    await replace_with(site, owned("dep", owner="two"))
    two = Request(PROBE.gvk, "test", "two")
    await eventually(lambda: set(ours.enqueued) == {ONE, two})


async def test_strangers_are_not_kept(server: FakeApiServer, site: Site) -> None:
    """Of a thousand ConfigMaps that name no owner, or one that nobody watches, none is in memory."""
    for number in range(1000):
        server.put(CONFIG_MAPS, namespace="test", body={"metadata": {"name": f"foreign-{number}"}})
    async with following(site.kubeconfig) as found:
        await found.ensure()
        await site.create("later", resource=CONFIG_MAPS)
        await barrier(site, found)
        assert [name_of(obj) for obj in found.sources.kept(CONFIG_MAPS.gvk)] == ["barrier"]


async def test_no_secret_is_in_memory(site: Site, ours: Following) -> None:
    """The values of an owned Secret are not kept, and a change of them is noticed all the same."""
    await ours.ensure(SECRETS)
    canary = "Q0FOQVJZ"
    await site.client.create(SECRETS, namespace="test", body=owned("s", resource=SECRETS, data={"k": canary}))
    await eventually(lambda: len(ours.sources.kept(SECRETS.gvk)) == 1)
    assert canary not in repr(ours.sources.kept(SECRETS.gvk))
    await replace_with(site, owned("s", resource=SECRETS, data={"k": "eA=="}), resource=SECRETS)
    await eventually(lambda: ours.enqueued == [ONE])


async def test_own_changes_start_no_run_of_that_owner(site: Site, ours: Following) -> None:
    """The other owner of the same object runs, and only it is told of the change."""
    both = owned("dep")
    both["metadata"]["ownerReferences"] += owned("x", owner="two")["metadata"]["ownerReferences"]
    ours.ledger.writers = frozenset({MINE})
    await site.client.create(CONFIG_MAPS, namespace="test", body=both)
    await replace_with(site, {**both, "data": {"k": "v"}})
    two = Request(PROBE.gvk, "test", "two")
    await eventually(lambda: ours.enqueued == [two])
    assert ours.reported == [(two, ChangeKind.MODIFIED, "dep")]


async def test_a_change_waits_until_its_writer_is_known(site: Site, ours: Following) -> None:
    """As long as the ledger doesn't answer nothing starts; then it does."""
    ours.ledger.hold = True
    await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
    await replace_with(site, owned("dep", data={"k": "v"}))
    await eventually(lambda: len(ours.ledger.waiting) == 1)
    assert ours.enqueued == []
    ours.ledger.waiting.pop()(frozenset())
    assert ours.enqueued == [ONE]


async def test_what_nobody_can_tell_in_time_starts_a_run_and_is_not_reported(site: Site, ours: Following) -> None:
    """The run's own write may hang: nobody is told that it was somebody else."""
    await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
    ours.ledger.writers = None
    await replace_with(site, owned("dep", data={"k": "v"}))
    await eventually(lambda: ours.enqueued == [ONE])
    assert ours.reported == []


async def test_dependents_of_an_owner_that_is_gone_concern_nobody(site: Site, ours: Following) -> None:
    """What the garbage collector takes after it starts nothing."""
    ours.gone.add(ONE)
    await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
    await site.client.delete(CONFIG_MAPS, namespace="test", name="dep")
    await barrier(site, ours)
    assert ours.enqueued == []
    assert [request for request, _, _ in ours.reported if request == ONE] == []


async def test_dependents_of_an_earlier_object_of_that_name_are_not_its_own(site: Site, ours: Following) -> None:
    """What the garbage collector takes after that one, or somebody changes until then, starts nothing."""
    for name in ("dep", "named"):
        await site.client.create(CONFIG_MAPS, namespace="test", body=owned(name))
    annotations = {PRIMARY_RESOURCE: "test/one", PRIMARY_RESOURCE_TYPE: type_of(PROBE.gvk)}
    await replace_with(site, owned("named", metadata={"annotations": annotations, "ownerReferences": []}))
    await eventually(lambda: ours.enqueued)
    ours.enqueued.clear()
    ours.reported.clear()
    ours.uids[ONE] = "u2"
    await replace_with(site, owned("dep", data={"k": "changed"}))
    await site.client.delete(CONFIG_MAPS, namespace="test", name="dep")
    await barrier(site, ours)
    assert ours.enqueued == []
    assert [name for request, _, name in ours.reported if request == ONE] == []
    await site.client.delete(CONFIG_MAPS, namespace="test", name="named")
    await eventually(lambda: ONE in ours.enqueued)


async def test_all_versions_of_a_kind_and_all_watches_share_one_informer(site: Site) -> None:
    """A change starts both versions of its owner, is reported once, and the kind is listed once."""
    second = replace(PROBE, gvk=GVK("bugs.example.com", "v2", "Probe"))
    async with following(site.kubeconfig, watches=(PROBE, second)) as found:
        await asyncio.gather(found.ensure(), found.ensure(owner=replace(OWNER, gvk=second.gvk)))
        await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
        await replace_with(site, owned("dep", data={"k": "v"}))
        await eventually(lambda: len(found.enqueued) == 2)
        assert set(found.enqueued) == {ONE, Request(second.gvk, "test", "one")}
        assert len(found.reported) == 1
        assert found.sources.counters()[CONFIG_MAPS.gvk][""].lists == 1


async def test_another_version_of_a_kind_has_no_informer_of_its_own(server: FakeApiServer, site: Site) -> None:
    """It would tell each change twice; where the first version is missing or not wanted, the other one is watched."""
    scalers = [
        Resource(gvk=GVK("autoscaling", version, "Scaler"), plural=f"{version}scalers") for version in ("v1", "v2")
    ]
    for scaler in scalers:
        server.define(scaler)
    both = {scaler.gvk: {"": State.SYNCED} for scaler in scalers}
    old, new = scalers
    async with following(site.kubeconfig) as found:
        await found.ensure(old)
        await found.ensure(new)
        assert found.sources.states() == {old.gvk: {"": State.SYNCED}}
        server.undefine(old.plural)
        await eventually(lambda: found.sources.states() == {old.gvk: {"": State.MISSING}})
        await found.ensure(new)
        assert found.sources.states() == {**both, old.gvk: {"": State.MISSING}}
    server.define(old)
    second = replace(PROBE, gvk=GVK("bugs.example.com", "v2", "Probe"), blacklist=(old.gvk,))
    async with following(site.kubeconfig, watches=(PROBE, second)) as found:
        await found.ensure(old)
        await found.ensure(new, owner=replace(OWNER, gvk=second.gvk))
        assert found.sources.states() == both


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"watch_dependent_resources": False}, "watchDependentResources is false"),
        ({"blacklist": (CONFIG_MAPS.gvk,)}, "the kind is on the blacklist"),
        ({"gvk": GVK("bugs.example.com", "v2", "Probe")}, "the owner's kind is not in watches.yaml"),
    ],
)
async def test_what_the_watch_does_not_want_is_not_watched(site: Site, keys: dict[str, Any], reason: str) -> None:
    """One debug line says why, however often it is asked for."""
    async with following(site.kubeconfig, watches=[replace(PROBE, **keys)]) as found:
        await found.ensure()
        await found.ensure()
        assert found.sources.states() == {}
        assert found.refusals() == [reason]


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
async def test_events_are_never_watched(site: Site, group: str) -> None:
    """They expire by themselves, which is nobody's deed."""
    async with following(site.kubeconfig) as found:
        await found.ensure(Resource(gvk=GVK(group, "v1", "Event"), plural="events"))
        assert found.sources.states() == {}
        assert found.refusals() == ["Events expire by themselves"]


async def test_a_watch_that_does_not_want_a_kind_gets_nothing_of_it(site: Site) -> None:
    """The informer that another watch has for the kind tells only that one."""
    other = replace(PROBE, gvk=GVK("other.example.com", "v1", "Probe"))
    reference = {"apiVersion": "bugs.example.com/v1", "kind": "Probe", "name": "one", "uid": "u1"}
    both = owned("dep")
    both["metadata"]["ownerReferences"] = [reference, {**reference, "apiVersion": "other.example.com/v1"}]
    async with following(site.kubeconfig, watches=(replace(PROBE, blacklist=(CONFIG_MAPS.gvk,)), other)) as found:
        await found.ensure(owner=replace(OWNER, gvk=other.gvk))
        await site.client.create(CONFIG_MAPS, namespace="test", body=owned("foreign"))
        await site.client.create(CONFIG_MAPS, namespace="test", body=both)
        await replace_with(site, {**both, "data": {"k": "v"}})
        await eventually(lambda: found.enqueued == [Request(other.gvk, "test", "one")])
        assert [name_of(obj) for obj in found.sources.kept(CONFIG_MAPS.gvk)] == ["dep"]


async def test_cluster_scoped_dependents_are_watched_if_asked_for(site: Site) -> None:
    """Without `watchClusterScopedResources` they are not; those of a cluster-scoped owner are, by reference."""
    asking = replace(PROBE, watch_cluster_scoped_resources=True)
    async with following(site.kubeconfig) as found:
        await found.ensure(NAMESPACES, namespace="")
        assert found.refusals() == ["watchClusterScopedResources is false"]
        assert found.sources.states() == {}
    async with following(site.kubeconfig, watches=[asking], namespaces=["test"]) as found:
        await found.ensure(NAMESPACES, namespace="")
        annotations = {
            "operator-sdk/primary-resource": "test/one",
            "operator-sdk/primary-resource-type": "Probe.bugs.example.com",
        }
        body: Object = {"metadata": {"name": "ns9", "annotations": annotations}}
        await site.client.create(NAMESPACES, body=body)
        await replace_with(site, {"metadata": {**body["metadata"], "labels": {"a": "b"}}}, resource=NAMESPACES)
        await eventually(lambda: found.enqueued == [ONE])
        assert found.sources.states() == {NAMESPACES.gvk: {"": State.SYNCED}}
    async with following(site.kubeconfig, namespaced=False) as found:
        await found.ensure(NAMESPACES, namespace="", owner=replace(OWNER, namespace=""))
        await site.client.create(NAMESPACES, body=owned("ns8", resource=NAMESPACES))
        await site.client.delete(NAMESPACES, name="ns8")
        await eventually(lambda: found.enqueued == [Request(PROBE.gvk, "", "one")])


async def test_each_watched_namespace_has_its_informer(site: Site) -> None:
    """It begins when it is needed; other namespaces are not watched, and owners there get no run."""
    async with following(site.kubeconfig, namespaces=["test", "two"]) as found:
        await found.ensure()
        assert found.sources.states() == {CONFIG_MAPS.gvk: {"test": State.SYNCED}}
        await found.ensure(namespace="two")
        await found.ensure(namespace="three")
        assert found.sources.states() == {CONFIG_MAPS.gvk: {"test": State.SYNCED, "two": State.SYNCED}}
        assert found.refusals() == ["the namespace is not watched"]
        annotations = {
            "operator-sdk/primary-resource": "three/one",
            "operator-sdk/primary-resource-type": "Probe.bugs.example.com",
        }
        body = owned("dep", metadata={"annotations": annotations})
        await site.client.create(CONFIG_MAPS, namespace="test", body=body)
        await replace_with(site, {**body, "data": {"k": "v"}})
        await barrier(site, found)
        assert found.enqueued == [ONE]


def with_status(*fields: str, **keys: Any) -> Watch:
    """Return a watch that follows *fields* of ConfigMaps."""
    return replace(PROBE, watch_dependent_status=(DependentStatus(gvk=CONFIG_MAPS.gvk, fields=fields),), **keys)


async def test_followed_status_fields_start_one_run_for_a_burst(site: Site) -> None:
    """The informer begins by itself; other fields start nothing, and no drift is reported."""
    clock = FakeClock()
    async with following(site.kubeconfig, watches=[with_status("status.phase")], clock=clock) as found:
        await eventually(lambda: found.sources.states() == {CONFIG_MAPS.gvk: {"": State.SYNCED}})
        await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
        await replace_with(site, owned("dep", status={"other": 1}))
        await barrier(site, found)
        assert clock.sleeping == 0
        for phase in ("Pending", "Creating", "Bound"):
            await replace_with(site, owned("dep", status={"phase": phase}))
        await barrier(site, found, name="second")
        assert found.enqueued == []
        await clock.advance(0.2)
        assert found.enqueued == [ONE]
        assert [request for request, _, _ in found.reported if request == ONE] == []
        await replace_with(site, owned("dep", status={"phase": "Bound", "other": 2}))
        await barrier(site, found, name="third")
        await clock.advance(0.2)
        assert found.enqueued == [ONE]


@pytest.mark.parametrize("keys", [{"watch_dependent_resources": False}, {"blacklist": (CONFIG_MAPS.gvk,)}])
async def test_followed_fields_are_followed_where_nothing_else_is(site: Site, keys: dict[str, Any]) -> None:
    """With watchDependentResources false, or the kind on the blacklist, only the listed fields count."""
    async with following(site.kubeconfig, watches=[with_status("status.phase", **keys), with_status_free()]) as found:
        await eventually(lambda: found.sources.states() == {CONFIG_MAPS.gvk: {"": State.SYNCED}})
        await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
        await replace_with(site, owned("dep", data={"k": "v"}))
        await replace_with(site, owned("dep", data={"k": "v"}, status={"phase": "Bound"}))
        await eventually(lambda: found.enqueued == [ONE])
        assert found.reported == []


def with_status_free() -> Watch:
    """Return a watch of another kind, which has nothing to do with all this."""
    return replace(PROBE, gvk=GVK("other.example.com", "v1", "Other"))


async def test_followed_kinds_are_followed_in_each_watched_namespace(site: Site) -> None:
    """A kind without namespaces has one informer, which a later `ensure` finds."""
    kinds = (CONFIG_MAPS, NAMESPACES)
    entries = tuple(DependentStatus(gvk=kind.gvk, fields=("status.phase",)) for kind in kinds)
    watch = replace(PROBE, watch_dependent_status=entries, watch_cluster_scoped_resources=True)
    async with following(site.kubeconfig, watches=[watch], namespaces=["test", "two"]) as found:
        synced = {
            CONFIG_MAPS.gvk: {"test": State.SYNCED, "two": State.SYNCED},
            NAMESPACES.gvk: {"test": State.SYNCED},
        }
        await eventually(lambda: found.sources.states() == synced)
        await found.ensure(NAMESPACES, namespace="")
        assert found.sources.states() == synced


async def test_late_signs_of_life_are_told_by_kind(site: Site, ours: Following) -> None:
    """All is well as long as the numbers are negative."""
    assert set(ours.sources.overdue()) == {CONFIG_MAPS.gvk}
    assert ours.sources.overdue()[CONFIG_MAPS.gvk] < 0
