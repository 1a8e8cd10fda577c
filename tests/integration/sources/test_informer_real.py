"""The informer with real rights and real CRDs."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.kube.client import KubeClient
from runner.kube.objects import GVK, name_of
from runner.localdev.plane import ControlPlane
from runner.sources.informer import State
from runner.testing.cluster import CONFIG_MAPS, SECRETS, crd, install_crd, remove_crd
from runner.testing.identities import new_identity
from runner.testing.informers import Site, watching, with_settings
from runner.testing.kubeconfig import derived_kubeconfig
from runner.testing.waiting import eventually

CRD = crd("LateGadget")
GADGET = GVK("test.example.com", "v1", "LateGadget")


@pytest.fixture
def site(plane: ControlPlane, kube: KubeClient, namespace: str, tmp_path: Path) -> Site:
    """Give a fresh namespace of the real API server."""
    return Site(kubeconfig=plane.kubeconfig, client=kube, namespace=namespace, folder=tmp_path)


async def test_a_right_that_is_granted_later_is_used(site: Site) -> None:
    """One kind is forbidden by RBAC, another served; when a Role grants the first one it is served, too."""
    identity = await new_identity(site.client, namespace=site.namespace)
    await identity.grant(CONFIG_MAPS)
    kubeconfig = await identity.kubeconfig(site.folder / "identity", source=site.kubeconfig)
    await site.create("password")
    async with (
        watching(site, kubeconfig=kubeconfig, synced=False) as forbidden,
        watching(site, kubeconfig=kubeconfig, gvk=CONFIG_MAPS.gvk) as served,
    ):
        await eventually(lambda: forbidden.informer.counters.errors >= 5)
        assert forbidden.informer.state is State.FORBIDDEN
        await site.create("settings", resource=CONFIG_MAPS)
        await served.until("ADDED settings")
        assert served.informer.counters.errors == 0
        await identity.grant(SECRETS)
        await forbidden.until("ADDED password")
        await eventually(lambda: forbidden.informer.state is State.SYNCED)
        assert len(forbidden.sink.records) <= 3


async def test_a_crd_may_come_late_go_and_come_back(site: Site) -> None:
    """A kind is waited for; the removal of its CRD deletes its objects; a new CRD of that name is served anew."""
    await remove_crd(site.client, CRD["metadata"]["name"])
    async with watching(site, kubeconfig=site.kubeconfig, gvk=GADGET, synced=False) as watched:
        await eventually(lambda: watched.informer.counters.errors >= 3)
        assert watched.informer.state is State.MISSING
        resource = await install_crd(site.client, CRD)
        await site.create("g", resource=resource)
        await watched.until("ADDED g")
        await remove_crd(site.client, CRD["metadata"]["name"])
        await watched.until("DELETED g")
        await eventually(lambda: watched.informer.state is State.MISSING)
        resource = await install_crd(site.client, CRD)
        await site.create("again", resource=resource)
        await watched.until("ADDED again")
        await eventually(lambda: watched.informer.state is State.SYNCED)
    await remove_crd(site.client, CRD["metadata"]["name"])
    assert [told for told in watched.told() if told.endswith(" g")][-1] == "DELETED g"


async def test_a_watch_goes_on_when_the_token_is_renewed(site: Site) -> None:
    """An informer whose token is refused says so and goes on with the one that stands in the file by then."""
    identity = await new_identity(site.client, namespace=site.namespace)
    await identity.grant(SECRETS)
    await site.create("password")
    token = site.folder / "token"
    token.write_text("expired", encoding="utf-8")
    user = {"tokenFile": str(token)}
    kubeconfig = derived_kubeconfig(site.folder / "identity", source=site.kubeconfig, user=user)
    async with watching(site, kubeconfig=kubeconfig, synced=False) as watched:
        await eventually(lambda: watched.informer.counters.errors >= 3)
        assert watched.informer.state is State.ERROR
        token.write_text(await identity.token(), encoding="utf-8")
        await watched.until("ADDED password")
        await eventually(lambda: watched.informer.state is State.SYNCED)
        assert len(watched.sink.records) == 2


async def test_selectors_are_applied_by_the_server(site: Site) -> None:
    """A label selector limits lists and watches; an object that stops matching is told as deleted."""
    await site.create("plain", "chosen")
    await site.touch("chosen", value="yes")
    async with watching(site, kubeconfig=site.kubeconfig, label_selector="touched=yes") as watched:
        assert [name_of(obj) for obj in watched.informer.store] == ["chosen"]
        await site.touch("plain", value="yes")
        await watched.until("ADDED plain")
        await site.touch("chosen", value="no")
        await watched.until("DELETED chosen")


async def test_the_server_ends_a_watch_after_the_time_that_was_asked_for(site: Site) -> None:
    """A watch ends in order after `watch_timeout` (to its double), and is neither an error nor listed again."""
    async with watching(site, kubeconfig=site.kubeconfig, settings=with_settings(watch_timeout=1.0)) as watched:
        await watched.rewatched(1)
        await site.create("after")
        await watched.until("ADDED after")
        assert watched.informer.counters.errors == 0
        assert watched.informer.counters.relists == 0
