"""What handlers hand to runs of Ansible."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.kube.objects import conditions_of
from runner.settings import BackoffSettings, HandlersSettings, KubeSettings
from runner.testing import waiting
from runner.testing.cluster import CONFIG_MAPS, wait_until
from runner.testing.faults import HttpFaultProxy, Rule, gone_event
from tests.integration.handlers.conftest import Scene

PUBLISHES = """
    from runner.handlers import published

    @kopf.index("configmaps", labels={"wanted": "yes"})
    def wanted(name, **_):
        return {"all": name}

    @published
    def config_maps(*, wanted, spec, name, **_):
        return {"for": name, "prefix": spec.get("prefix"), "names": sorted(wanted.get("all", []))}
"""
SLOW = """
    import threading
    door = threading.Event()

    @kopf.on.event("configmaps")
    def wait(**_):
        door.wait(120)
"""
# A start of kopf, its back-off and a busy machine add up; the limit only tells 'hung' from 'slow'.
eventually = partial(waiting.eventually, limit=120.0)


async def test_a_run_gets_what_its_handlers_publish(scene: Scene) -> None:
    """A run has the values of now, made for its object from indexes that have everything."""
    scene.handlers(PUBLISHES)
    await _config_map(scene, "first")
    await scene.create("one", prefix="p")
    async with scene.operator(role=True):
        await eventually(lambda: scene.executor.requests)
        expected = {"for": "one", "prefix": "p", "names": ["first"]}
        assert scene.executor.requests[0].handlers == {"config_maps": expected}
        await _config_map(scene, "second")
        await _config_map(scene, "not", labels={})
        await eventually(lambda: scene.shared is not None)
        await wait_until(lambda: _published(scene, {"first", "second"}), what="the second one to be indexed")


async def test_an_empty_index_is_known_to_be_complete(scene: Scene) -> None:
    """Where there is no object of the kind at all, a run gets the empty value, and doesn't wait for one."""
    scene.handlers(PUBLISHES.replace("configmaps", "secrets"))
    await scene.create("one")
    async with scene.operator(role=True):
        await eventually(lambda: scene.executor.requests)
        assert scene.executor.requests[0].handlers["config_maps"]["names"] == []


async def test_an_index_forgets_what_was_deleted_while_changes_were_lost(scene: Scene, tmp_path: Path) -> None:
    """Where the API server has the changes no more (410), what went meanwhile is in no value afterwards."""
    scene.handlers(PUBLISHES)
    await _config_map(scene, "stays")
    await _config_map(scene, "goes")
    await scene.create("one")
    async with HttpFaultProxy(upstream_kubeconfig=Path(scene.settings.kube.kubeconfig)) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        scene.settings = replace(scene.settings, kube=KubeSettings(kubeconfig=str(kubeconfig)))
        quick = HandlersSettings(backoff=BackoffSettings(base=0.1, cap=0.2))
        async with scene.operator(role=True, handlers=quick):
            await eventually(lambda: scene.executor.requests)
            assert scene.executor.requests[0].handlers["config_maps"]["names"] == ["goes", "stays"]
            held = proxy.rule(Rule(method="GET", path=r"/configmaps(\?|$)", hold=True))
            await eventually(lambda: proxy.watches(r"/configmaps\?"))
            await proxy.inject(gone_event(), path=r"/configmaps\?")
            await held.wait_hit()
            await scene.kube.delete(CONFIG_MAPS, namespace=scene.namespace, name="goes")
            held.cancel()
            await eventually(lambda: scene.told("make their indexes anew"))
            assert not scene.told("ended by an error")
            await wait_until(lambda: _published(scene, {"stays"}), what="the deleted one to be forgotten")


async def test_a_slow_handler_holds_up_no_value(scene: Scene) -> None:
    """An index is complete when all is indexed, however long the first handler of an object takes."""
    scene.handlers(PUBLISHES + SLOW)
    await _config_map(scene, "first")
    await scene.create("one")
    async with scene.operator(role=True):
        await eventually(lambda: scene.executor.requests)
        assert scene.executor.requests[0].handlers["config_maps"]["names"] == ["first"]
        scene.module.door.set()


async def test_a_run_waits_for_no_handlers_that_cannot_start(scene: Scene) -> None:
    """A run that can't get its values fails with the reason, in the status too, and is tried again."""
    scene.handlers(PUBLISHES.replace('return {"for"', 'return nothing or {"for"'))
    await scene.create("one")
    async with scene.operator(role=True):
        await wait_until(lambda: _failure_has(scene, "NameError: name 'nothing' is not defined"), what="the failure")
        assert not scene.executor.requests
        found = (await scene.get("one"))["status"]["conditions"]
        assert any(f"{scene.file}:" in str(entry.get("message")) for entry in found)


async def test_a_run_does_not_use_an_index_that_is_not_complete(scene: Scene) -> None:
    """While handlers don't come up no run starts: an index without everything would lie."""
    scene.handlers(
        PUBLISHES
        + """
    @kopf.on.startup()
    async def never(**_):
        import asyncio
        await asyncio.sleep(1000)
"""
    )
    await scene.create("one")
    async with scene.operator(role=True, handlers=HandlersSettings(patience=0.2), graceful_shutdown_timeout=100.0):
        await wait_until(
            lambda: _failure_has(scene, "after 0.2 s its handlers have not started yet"), what="the failure"
        )
        assert not scene.executor.requests


async def _config_map(scene: Scene, name: str, labels: dict[str, str] | None = None) -> None:
    metadata = {"name": name, "namespace": scene.namespace, "labels": {"wanted": "yes"} if labels is None else labels}
    await scene.kube.create(
        CONFIG_MAPS, namespace=scene.namespace, body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    )


async def _published(scene: Scene, names: set[str]) -> bool:
    """Start a run by an edit, and tell whether the newest one had *names*."""
    count = len(scene.executor.requests)
    await scene.patch("one", {"spec": {"count": count}})
    await eventually(lambda: len(scene.executor.requests) > count)
    return set(scene.executor.requests[-1].handlers["config_maps"]["names"]) == names


async def _failure_has(scene: Scene, text: str) -> bool:
    found = await scene.get("one")
    return any(entry["type"] == "Failure" and text in entry.get("message", "") for entry in conditions_of(found))
