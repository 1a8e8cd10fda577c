"""Python handlers in trouble: an API server that is away, kinds that come late, an end by an error, a stop."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from runner.errors import OperatorError
from runner.kube.client import KubeClient
from runner.kube.objects import conditions_of
from runner.observe.vitals import Waiting
from runner.settings import BackoffSettings, HandlersSettings, KubeSettings
from runner.testing import waiting
from runner.testing.cluster import crd, install_crd, remove_crd, wait_until
from runner.testing.faults import HttpFaultProxy, Rule
from runner.testing.faults_tcp import TcpFaultProxy
from runner.testing.identities import new_identity
from tests.integration.handlers.conftest import Scene

SEES = """
    @kopf.on.event("gadgets.handlers.example.com")
    async def see(name, **_):
        seen.append(name)
"""
STARTS_LATE = """
    @kopf.on.startup()
    async def start(**_):
        seen.append("start")
        if seen.count("start") < 3:
            raise kopf.PermanentError("not yet")

    @kopf.on.event("gadgets.handlers.example.com")
    async def see(name, **_):
        seen.append(name)
"""
AGAIN = "The Python handlers ended by an error; they start again"
QUICK = HandlersSettings(backoff=BackoffSettings(base=0.1, cap=0.5), rescan_interval=0.2)
# A start of kopf, its back-off and a busy machine add up; the limit only tells 'hung' from 'slow'.
eventually = partial(waiting.eventually, limit=120.0)


class SwitchedLeadership:
    """A leadership that a test gives and takes."""

    def __init__(self) -> None:
        """Lead not yet."""
        self.given = asyncio.Event()
        self.lost = False

    async def acquire(self) -> None:
        """Lead when it is given."""
        await self.given.wait()

    async def hold(self) -> None:
        """Lead on."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Nobody waits for it."""

    def fenced(self) -> bool:
        """Return whether the test has taken it."""
        return self.lost

    def waiting(self) -> Waiting:
        """Return that another instance leads."""
        return Waiting(another_leads=True)


async def test_handlers_go_on_after_the_api_server_was_away(scene: Scene, tmp_path: Path) -> None:
    """What changed while no connection could be made is seen when it comes back, without a new start."""
    scene.handlers(SEES)
    source = Path(scene.settings.kube.kubeconfig)
    async with TcpFaultProxy.before(source) as proxy:
        scene.settings = replace(
            scene.settings, kube=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig", source=source)))
        )
        async with scene.operator():
            await scene.create("before")
            await eventually(lambda: "before" in scene.seen)
            await proxy.refuse()
            await proxy.drop()
            await scene.create("meanwhile")
            await eventually(lambda: scene.told("Request attempt"))
            await proxy.accept()
            await eventually(lambda: "meanwhile" in scene.seen)
            assert {record["level"] for record in scene.told("Request attempt #1 failed")} == {"warn"}
            assert not scene.told("ended by an error")


async def test_refused_credentials_are_read_again(scene: Scene, tmp_path: Path) -> None:
    """After answers of 401 handlers log in anew, and go on."""
    scene.handlers(SEES)
    async with HttpFaultProxy(upstream_kubeconfig=Path(scene.settings.kube.kubeconfig)) as proxy:
        refusal = proxy.rule(Rule(path=r"/gadgets\?.*watch=true", times=2, status=401))
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        scene.settings = replace(scene.settings, kube=KubeSettings(kubeconfig=str(kubeconfig)))
        async with scene.operator():
            await refusal.wait_hit(2)
            await scene.create("one")
            await eventually(lambda: "one" in scene.seen)
            assert scene.told("Re-authentication has finished")


async def test_a_kind_that_comes_late_is_found(scene: Scene, kube: KubeClient) -> None:
    """A kind whose CRD is installed after the start is served, without the right to watch CRDs."""
    group = f"late-{scene.namespace}.example.com"
    scene.handlers(SEES.replace("gadgets.handlers.example.com", f"lates.{group}"))
    async with scene.operator(handlers=QUICK):
        await eventually(lambda: scene.told("Unresolved resources"))
        assert scene.shared is not None
        resource = await install_crd(kube, crd("Late", group=group))
        metadata = {"name": "one", "namespace": scene.namespace}
        body = {"apiVersion": f"{group}/v1", "kind": "Late", "metadata": metadata}
        await kube.create(resource, namespace=scene.namespace, body=body)
        await eventually(lambda: "one" in scene.seen)
    await remove_crd(kube, f"lates.{group}")


async def test_an_indexed_kind_that_comes_late_gives_no_empty_index(scene: Scene, kube: KubeClient) -> None:
    """While an indexed kind isn't served, runs that ask fail with its name; then they have all of its objects."""
    group = f"slow-{scene.namespace}.example.com"
    scene.handlers(f"""
        from runner.handlers import published

        @kopf.index("slows.{group}")
        def slows(name, **_):
            return {{"all": name}}

        @published
        def names(*, slows, **_):
            return sorted(slows.get("all", []))
    """)
    await scene.create("one")
    async with scene.operator(role=True, handlers=QUICK):
        sentence = f"slows.{group} is indexed by slows, but not served by the API server (yet)"
        await wait_until(lambda: _failure_has(scene, sentence), what="the failure")
        assert not scene.executor.requests
        resource = await install_crd(kube, crd("Slow", group=group))
        metadata = {"name": "slow", "namespace": scene.namespace}
        body = {"apiVersion": f"{group}/v1", "kind": "Slow", "metadata": metadata}
        await kube.create(resource, namespace=scene.namespace, body=body)
        await eventually(lambda: scene.told("make their indexes anew"))
        await eventually(lambda: scene.executor.requests)
        await wait_until(lambda: _knows(scene, ["slow"]), what="the object to be indexed")
        assert not scene.told("ended by an error")
    await remove_crd(kube, f"slows.{group}")


async def test_a_filter_that_raises_holds_nothing_up(scene: Scene) -> None:
    """Objects beside the one on which `when` raises reach handlers, and so do later ones; the failure is told."""
    scene.handlers("""
        def fits(spec, **_):
            return spec["size"] > 0

        @kopf.index("gadgets.handlers.example.com", when=fits)
        def sizes(name, spec, **_):
            return {name: spec["size"]}

        @kopf.on.event("gadgets.handlers.example.com")
        async def see(name, sizes, **_):
            seen.append((name, sorted(sizes)))
    """)
    await scene.create("bad")
    await scene.create("good", size=1)
    async with scene.operator():
        await eventually(lambda: scene.told("Starting Python handlers"))
        await eventually(lambda: ("good", ["good"]) in scene.seen)
        await scene.create("late", size=2)
        await eventually(lambda: ("late", ["good", "late"]) in scene.seen)
        record = scene.told("A filter of the handler sizes failed")[0]
        assert (record["level"], record["name"], record["namespace"]) == ("error", "bad", scene.namespace)


async def test_a_run_that_is_under_way_at_the_stop_gets_its_values(scene: Scene) -> None:
    """Handlers are stopped after the runs, which may ask them until their end."""
    scene.handlers("""
        import asyncio, threading
        from runner.handlers import published
        door = threading.Event()

        @kopf.on.event("gadgets.handlers.example.com")
        def see(**_): ...

        @published
        async def answer(**_):
            seen.append("asked")
            await asyncio.to_thread(door.wait, 120)
            return 42
    """)
    await scene.create("one")
    async with scene.operator(role=True, graceful_shutdown_timeout=100.0) as operator:
        await eventually(lambda: scene.told("Starting Python handlers"))
        await eventually(lambda: "asked" in scene.seen)
        operator.stop()
        await eventually(lambda: scene.told("Stopping: no new reconciles"))
        scene.module.door.set()
        await eventually(lambda: scene.executor.requests)
        assert scene.executor.requests[0].handlers == {"answer": 42}


async def test_a_kind_that_goes_ends_no_handlers_of_others(scene: Scene, kube: KubeClient) -> None:
    """A CRD that is deleted while it is watched ends kopf, which may hang at that; handlers start again, and serve."""
    group = f"gone-{scene.namespace}.example.com"
    more = SEES.replace("gadgets.handlers.example.com", f"gones.{group}").replace("see(", "look(")
    scene.handlers(SEES + more)
    await install_crd(kube, crd("Gone", group=group))
    async with scene.operator(handlers=replace(QUICK, ending_limit=1.0)):
        await eventually(lambda: scene.told("Starting Python handlers"))
        await scene.create("one")
        await eventually(lambda: "one" in scene.seen)
        await remove_crd(kube, f"gones.{group}")
        await eventually(lambda: scene.told(AGAIN))
        assert "404 page not found" in scene.told(AGAIN)[0]["reason"]
        await scene.create("two")
        await eventually(lambda: "two" in scene.seen)


async def test_an_api_that_stays_away_holds_nothing_up(scene: Scene, kube: KubeClient, tmp_path: Path) -> None:
    """A group that answers 503, as an aggregated API without its server does, is left out; the others are served."""
    # Named without a group, so all groups are asked; kopf serves a name that two groups have in neither of them.
    scene.handlers(SEES.replace("gadgets.handlers.example.com", "loners"))
    loners = await install_crd(kube, crd("Loner", group="loners.example.com"))
    async with HttpFaultProxy(upstream_kubeconfig=Path(scene.settings.kube.kubeconfig)) as proxy:
        away = proxy.rule(Rule(path=r"^/apis/apps/v1$", status=503))
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        scene.settings = replace(scene.settings, kube=KubeSettings(kubeconfig=str(kubeconfig)))
        async with scene.operator(handlers=replace(QUICK, away_limit=1.0)):
            await away.wait_hit(2)
            body = {"apiVersion": "loners.example.com/v1", "kind": "Loner", "metadata": {"name": "one"}}
            await kube.create(loners, namespace=scene.namespace, body=body)
            await eventually(lambda: "one" in scene.seen)


async def test_few_rights_are_enough(scene: Scene, kube: KubeClient, tmp_path: Path) -> None:
    """Who may list and watch the kind in one namespace has handlers for it: no right on CRDs or namespaces is used."""
    scene.handlers(SEES)
    identity = await new_identity(kube, namespace=scene.namespace)
    await identity.grant(scene.resource)
    source = Path(scene.settings.kube.kubeconfig)
    async with HttpFaultProxy(upstream_kubeconfig=await identity.kubeconfig(tmp_path / "own", source=source)) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        scene.settings = replace(scene.settings, kube=KubeSettings(kubeconfig=str(kubeconfig)))
        async with scene.operator():
            await scene.create("one")
            await eventually(lambda: "one" in scene.seen)
        assert [request.path for request in proxy.refused] == []


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # kopf's, when it ends at its start
async def test_handlers_that_ended_by_an_error_start_again(scene: Scene) -> None:
    """The log says what ended them and what comes next, the probe and the metrics tell, and then they run."""
    scene.handlers(STARTS_LATE)
    async with scene.operator(handlers=QUICK):
        await eventually(lambda: len(scene.told(AGAIN)) == 2)
        await scene.create("one")
        await eventually(lambda: "one" in scene.seen)
        assert [(record["level"], record["time"]) for record in scene.told(AGAIN)] == [("error", 1), ("error", 2)]
        assert "PermanentError: not yet" in scene.told(AGAIN)[0]["reason"]
        assert scene.metric(f'ansible_operator_handlers_restarts_total{{file="{scene.file}"}} 2')


@pytest.mark.parametrize(
    "deaf",
    [
        "async def wait(name, **_):\n    seen.append(name)\n    await deaf()",
        "def wait(name, **_):\n    seen.append(name)\n    time.sleep(1000)",
    ],
)
async def test_the_stop_is_bounded_whatever_a_handler_does(scene: Scene, deaf: str) -> None:
    """A handler that doesn't end, a coroutine or a thread, holds the operator for the grace period and no longer."""
    scene.file.write_text(
        "import asyncio, time, kopf\nseen = []\n"
        "async def deaf():\n    while True:\n        try:\n            await asyncio.sleep(1000)\n"
        "        except asyncio.CancelledError:\n            pass\n"
        f'@kopf.on.event("gadgets.handlers.example.com")\n{deaf}\n'
    )
    with pytest.raises(OperatorError, match="within grace period of 1s"):
        await _called(scene)
    assert scene.told("Python handlers didn't end in time; they end with the process")


async def test_handlers_run_only_where_the_instance_leads(scene: Scene) -> None:
    """A standby calls no handler; when it leads, handlers see what there is."""
    scene.handlers(SEES)
    leadership = SwitchedLeadership()
    await scene.create("one")
    async with scene.operator(leadership=leadership):
        assert scene.module.seen == []  # imported, so that a mistake ends the start of a standby, too
        assert not scene.told("Starting Python handlers")
        leadership.given.set()
        await eventually(lambda: "one" in scene.seen)


async def test_handlers_write_nothing_once_another_instance_may_lead(scene: Scene) -> None:
    """A fenced instance sets no finalizer for a timer; with the leadership it does."""
    scene.handlers("""
        @kopf.timer("gadgets.handlers.example.com", interval=0.1)
        async def tick(name, **_):
            seen.append(name)
    """)
    leadership = SwitchedLeadership()
    leadership.given.set()
    leadership.lost = True
    await scene.create("one")
    async with scene.operator(leadership=leadership):
        await eventually(lambda: scene.told("does not lead any more"))
        assert "finalizers" not in (await scene.get("one"))["metadata"]
        leadership.lost = False
        await wait_until(lambda: _held(scene, "one"), what="the finalizer")


async def _called(scene: Scene) -> None:
    """Run an operator until its handler was called, and stop it."""
    async with scene.operator(graceful_shutdown_timeout=1.0):
        await scene.create("one")
        await eventually(lambda: "one" in scene.seen)


async def _held(scene: Scene, name: str) -> bool:
    return bool((await scene.get(name))["metadata"].get("finalizers"))


async def _failure_has(scene: Scene, text: str) -> bool:
    found = await scene.get("one")
    return any(entry["type"] == "Failure" and text in entry.get("message", "") for entry in conditions_of(found))


async def _knows(scene: Scene, names: list[str]) -> bool:
    """Start a run by an edit, and tell whether the newest one had *names*."""
    count = len(scene.executor.requests)
    await scene.patch("one", {"spec": {"count": count}})
    await eventually(lambda: len(scene.executor.requests) > count)
    return bool(scene.executor.requests[-1].handlers["names"] == names)
