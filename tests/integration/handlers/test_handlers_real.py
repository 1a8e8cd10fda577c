"""Python handlers on a real API server: what they see, what they write (nothing), and what a failure of theirs does."""

from __future__ import annotations

import asyncio
import json

from runner.testing.cluster import CONFIG_MAPS, wait_until
from runner.testing.waiting import eventually
from tests.integration.handlers.conftest import Scene

SEES = """
    @kopf.on.event("gadgets.handlers.example.com")
    async def see(name, spec, type, **_):
        seen.append((name, spec.get("size"), type))
        return {"this": "must not be written"}
"""
INDEXES = """
    @kopf.index("gadgets.handlers.example.com")
    def sizes(name, spec, **_):
        return {spec.get("size"): name}

    @kopf.on.event("gadgets.handlers.example.com")
    async def see(name, sizes: kopf.Index, **_):
        seen.append((name, {size: sorted(names) for size, names in sizes.items()}))
"""


async def test_an_event_handler_sees_what_is_there_and_each_change(scene: Scene) -> None:
    """An object that was there, its change and its deletion reach the handler."""
    scene.handlers(SEES)
    await scene.create("one", size=1)
    async with scene.operator():
        await eventually(lambda: scene.shared and scene.told("Starting Python handlers"))
        await eventually(lambda: ("one", 1, None) in scene.seen)
        await scene.patch("one", {"spec": {"size": 2}})
        await eventually(lambda: ("one", 2, "MODIFIED") in scene.seen)
        await scene.delete("one")
        await eventually(lambda: ("one", 2, "DELETED") in scene.seen)


async def test_nothing_of_kopfs_is_written_to_an_object(scene: Scene) -> None:
    """After indexes and event handlers ran, what an object has in it is to the byte what it was."""
    scene.handlers(INDEXES + SEES.replace("see(", "look("))
    created = await scene.create("one", size=1)
    async with scene.operator():
        await eventually(lambda: scene.told("Starting Python handlers"))
        await eventually(lambda: ("one", 1, None) in scene.seen)
        await scene.create("two", size=2)
        await eventually(lambda: ("two", 2, "ADDED") in scene.seen)
        await scene.delete("two")
        await wait_until(lambda: _gone(scene, "two"), what="an object without a finalizer to go")
    assert json.dumps(await scene.get("one")) == json.dumps(created)


async def test_an_index_has_all_that_is_there_before_a_handler_is_called(scene: Scene) -> None:
    """The first call of a handler sees every object in the index, and a later one what changed."""
    scene.handlers(INDEXES)
    await asyncio.gather(*(scene.create(f"g-{number}", size=number % 2) for number in range(10)))
    async with scene.operator():
        await eventually(lambda: scene.told("Starting Python handlers") and len(scene.seen) >= 10)
        assert {frozenset(map(len, index.values())) for _, index in scene.seen[:10]} == {frozenset({5})}
        await scene.patch("g-0", {"spec": {"size": 7}})
        await eventually(lambda: any(index.get(7) == ["g-0"] for _, index in scene.seen))


async def test_a_handler_that_raises_ends_nothing(scene: Scene) -> None:
    """Its error is in the log with the object, and in the metrics; handlers go on being called."""
    scene.handlers("""
        @kopf.on.event("gadgets.handlers.example.com")
        def see(name, **_):
            if name == "bad":
                raise ValueError("this one is bad")
            seen.append(name)
    """)
    async with scene.operator():
        await scene.create("bad")
        await eventually(lambda: scene.told("this one is bad"))
        await scene.create("good")
        await eventually(lambda: "good" in scene.seen)
        record = scene.told("this one is bad")[0]
        assert (record["level"], record["name"], record["namespace"]) == ("error", "bad", scene.namespace)
        assert record["gvk"] == "handlers.example.com/v1, Kind=Gadget"
        assert scene.metric('ansible_operator_handler_errors_total{handler="see"} 1')
        assert scene.metric(f'ansible_operator_handlers_running{{file="{scene.file}"}} 1')
        assert scene.shared is not None
        assert scene.shared.metrics.text().count("handlers_restarts_total{") == 1


async def test_a_handlers_own_words_are_in_the_log_at_their_level(scene: Scene) -> None:
    """The object's logger and the module's speak at their levels; what kopf says of its work is for developers."""
    scene.handlers("""
        import logging

        @kopf.on.event("gadgets.handlers.example.com")
        def see(name, logger, **_):
            logger.info("looked at it")
            logging.getLogger(__name__).warning("beware")
    """)
    async with scene.operator():
        await scene.create("one")
        await eventually(lambda: scene.told("beware"))
        said = scene.told("looked at it")[0]
        assert (said["level"], said["name"], said["logger"]) == ("info", "one", "handlers")
        assert scene.told("beware")[0]["logger"] == f"handlers.{scene.file.stem}"
        await eventually(lambda: scene.told("succeeded"))
        assert {record["level"] for record in scene.told("succeeded")} == {"debug"}
        assert not [
            record for record in scene.sink.records if "OS signals" in record["msg"] and record["level"] == "warn"
        ]


async def test_only_the_operators_namespaces_are_seen(scene: Scene, kube: object) -> None:
    """An object of another namespace reaches no handler of an operator that watches one namespace."""
    del kube
    scene.handlers("""
        @kopf.on.event("configmaps")
        def see(name, namespace, **_):
            seen.append((namespace, name))
    """)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"other-{scene.namespace}"}}
    await scene.kube.create(CONFIG_MAPS, namespace="default", body=other)
    try:
        async with scene.operator():
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ours"}}
            await scene.kube.create(CONFIG_MAPS, namespace=scene.namespace, body=body)
            await eventually(lambda: (scene.namespace, "ours") in scene.seen)
            assert {namespace for namespace, _ in scene.seen} == {scene.namespace}
    finally:
        await scene.kube.delete(CONFIG_MAPS, namespace="default", name=other["metadata"]["name"])  # type: ignore[index]  # a str or a dict


async def test_a_timer_holds_its_object_by_the_documented_finalizer(scene: Scene) -> None:
    """A timer's object has `ansible-operator.io/handlers`, nothing else of kopf's, and goes when it is deleted."""
    scene.handlers("""
        @kopf.timer("gadgets.handlers.example.com", interval=0.1)
        async def tick(name, **_):
            seen.append(name)
            return "must not be written"
    """)
    created = await scene.create("one", size=1)
    async with scene.operator():
        await eventually(lambda: scene.seen.count("one") >= 3)
        found = await scene.get("one")
        assert found["metadata"]["finalizers"] == ["ansible-operator.io/handlers"]
        assert found["metadata"].keys() - created["metadata"].keys() == {"finalizers"}
        assert found.get("status") is None
        assert scene.told("Objects with a timer or daemon")[0]["finalizer"] == "ansible-operator.io/handlers"
        await scene.delete("one")
        await wait_until(lambda: _gone(scene, "one"), what="the object to go")


async def test_an_object_goes_though_its_daemon_takes_long_to_stop(scene: Scene) -> None:
    """A daemon that isn't gone at once is looked after again, and the finalizer goes when it has ended."""
    scene.handlers("""
        import asyncio

        @kopf.daemon("gadgets.handlers.example.com", cancellation_polling=0.2)
        async def follow(stopped, name, **_):
            seen.append(name)
            await stopped.wait()
            await asyncio.sleep(0.5)
            seen.append("ended")
    """)
    await scene.create("one")
    async with scene.operator():
        await eventually(lambda: "one" in scene.seen)
        await wait_until(lambda: _held(scene, "one"), what="the finalizer")
        await scene.delete("one")
        await wait_until(lambda: _gone(scene, "one"), what="the object to go")
        assert scene.seen == ["one", "ended"]


async def _gone(scene: Scene, name: str) -> bool:
    return name not in await scene.names()


async def _held(scene: Scene, name: str) -> bool:
    return bool((await scene.get(name))["metadata"].get("finalizers"))
