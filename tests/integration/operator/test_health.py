"""The probes of a whole operator: what they say is so, with a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from runner.assembly import Shared
from runner.assembly.leadership import Election, build_leadership
from runner.assembly.operator import Leadership
from runner.clock import SystemClock
from runner.errors import Call
from runner.execution.executor import Executor, Outcome, RunRequest
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.kube.lease_record import LEASES
from runner.kube.objects import GVK, Object
from runner.localdev.plane import ControlPlane
from runner.logs import Logger, RecordingSink
from runner.observe.activity import busy
from runner.observe.vitals import Phase
from runner.settings import HealthSettings, KubeSettings, LeaderElectionSettings, Settings
from runner.testing.cluster import CONFIG_MAPS, SECRETS, crd, install_crd, remove_crd
from runner.testing.executor import ScriptedExecutor, succeeded
from runner.testing.faults import HttpFaultProxy, Rule
from runner.testing.harness import running_operator
from runner.testing.identities import new_identity
from runner.testing.waiting import eventually
from runner.watches.model import Content, DependentStatus, Watch
from tests.integration.operator.probing import Probe

MISSING = "missing: the API server does not serve this kind; waiting for its CRD"


@pytest.fixture
async def late(kube: KubeClient) -> AsyncIterator[Object]:
    """Give a CRD that is not installed yet; it is removed at the end."""
    body = crd("Late", group=f"h{secrets.token_hex(4)}.example.com")
    yield body
    await remove_crd(kube, body["metadata"]["name"])


def watching(gvk: GVK) -> Watch:
    """Return a watch that writes no status."""
    return Watch(gvk=gvk, content=Content(), manage_status=False)


CONFIGS = watching(CONFIG_MAPS.gvk)


def kind_of(body: Object) -> GVK:
    """Return the kind that a CRD defines."""
    return GVK(body["spec"]["group"], "v1", body["spec"]["names"]["kind"])


async def test_ready_means_listed(plane: ControlPlane, settings: Settings, probe: Probe, tmp_path: Path) -> None:
    """/readyz fails while the primaries are being listed, and passes when they are."""
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        listing = proxy.rule(Rule(path=r"/configmaps\?limit", hold=True))
        through = replace(settings, kube=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig"))))
        async with running_operator([CONFIGS], settings=through, executor=ScriptedExecutor()):
            await listing.wait_hit()
            text = await probe.until("/readyz", status=500, text="[-]watch-ConfigMap.v1 failed: not listed yet")
            assert "[-]watches failed: no kind is served" in text
            assert await probe.get("/healthz") == (200, "ok")
            listing.cancel()
            listing.release()
            await probe.until("/readyz", status=200, text="ok")


async def test_a_missing_kind_among_others_is_a_remark(
    kube: KubeClient, settings: Settings, probe: Probe, late: Object
) -> None:
    """The operator is ready, ?verbose and the log name the kind, and it is served as soon as its CRD comes."""
    sink = RecordingSink()
    name = f"watch-Late.v1.{late['spec']['group']}"
    watches = [CONFIGS, watching(kind_of(late))]
    async with running_operator(watches, settings=settings, executor=ScriptedExecutor(), sink=sink):
        text = await probe.until("/readyz?verbose", status=200, text=f"[+]{name} ok: {MISSING}")
        assert "[+]watch-ConfigMap.v1 ok\n" in text
        assert await probe.get("/readyz") == (200, "ok")
        assert any(
            record["level"] == "error" and late["spec"]["group"] in str(record.get("gvk")) for record in sink.records
        )
        await install_crd(kube, late)
        await probe.until("/readyz?verbose", status=200, text=f"[+]{name} ok\n")


async def test_no_kind_at_all_is_a_failure(kube: KubeClient, settings: Settings, probe: Probe, late: Object) -> None:
    """Where none of the kinds is served the operator is not ready, until one is."""
    async with running_operator([watching(kind_of(late))], settings=settings, executor=ScriptedExecutor()):
        await probe.until("/readyz", status=500, text="[-]watches failed: no kind is served")
        assert await probe.get("/healthz") == (200, "ok")
        await install_crd(kube, late)
        await probe.until("/readyz", status=200, text="ok")


async def test_a_kind_that_is_missing_in_two_namespaces_is_a_remark(
    kube: KubeClient, namespace: str, settings: Settings, probe: Probe, late: Object
) -> None:
    """With a list of namespaces the remark is for each of them, and the operator is ready for its other kinds."""
    watches = [CONFIGS, watching(kind_of(late))]
    both = replace(settings, namespaces=(namespace, "default"))
    async with running_operator(watches, settings=both, executor=ScriptedExecutor()):
        remark = f"{MISSING} (namespace {namespace}); {MISSING} (namespace default)\n"
        await probe.until("/readyz?verbose", status=200, text=remark)
        await install_crd(kube, late)
        await probe.until("/readyz?verbose", status=200, text=f"[+]watch-Late.v1.{late['spec']['group']} ok\n")


async def test_a_forbidden_kind_among_others_is_a_remark(
    plane: ControlPlane, kube: KubeClient, namespace: str, settings: Settings, probe: Probe, tmp_path: Path
) -> None:
    """A missing right leaves the operator ready for its other kinds, is told, and is tried until it is granted."""
    identity = await new_identity(kube, namespace=namespace)
    await identity.grant(CONFIG_MAPS)
    kubeconfig = await identity.kubeconfig(tmp_path / "kubeconfig", source=plane.kubeconfig)
    narrow = replace(settings, kube=KubeSettings(kubeconfig=str(kubeconfig)))
    watches = [watching(SECRETS.gvk), CONFIGS]
    async with running_operator(watches, settings=narrow, executor=ScriptedExecutor()):
        remark = "[+]watch-Secret.v1 ok: forbidden: a right to list or watch is missing; waiting for it"
        remark += f" (namespace {namespace})"
        await probe.until("/readyz?verbose", status=200, text=remark)
        await identity.grant(SECRETS)
        await probe.until("/readyz?verbose", status=200, text="[+]watch-Secret.v1 ok\n")


async def test_a_dependent_kind_that_cannot_be_followed_is_a_remark(
    plane: ControlPlane, kube: KubeClient, namespace: str, settings: Settings, probe: Probe, tmp_path: Path
) -> None:
    """A dependent kind that is forbidden or missing is named, and the operator is ready: the owners are served."""
    identity = await new_identity(kube, namespace=namespace)
    await identity.grant(CONFIG_MAPS)
    kubeconfig = await identity.kubeconfig(tmp_path / "kubeconfig", source=plane.kubeconfig)
    narrow = replace(settings, kube=KubeSettings(kubeconfig=str(kubeconfig)))
    kinds = (SECRETS.gvk, GVK("", "v1", "Gone"))
    entries = tuple(DependentStatus(gvk=gvk, fields=("status.phase",)) for gvk in kinds)
    watch = replace(CONFIGS, watch_dependent_status=entries)
    async with running_operator([watch], settings=narrow, executor=ScriptedExecutor()):
        forbidden = "Secret.v1 is forbidden: a right to list or watch is missing; waiting for it"
        remark = f"[+]dependents ok: {forbidden} (namespace {namespace}); Gone.v1 is {MISSING} (namespace {namespace})"
        await probe.until("/readyz?verbose", status=200, text=remark)
        assert await probe.get("/readyz") == (200, "ok")
        await identity.grant(SECRETS)
        await probe.until("/readyz?verbose", status=200, text="[+]dependents ok: Gone.v1 is missing")


async def test_an_api_server_that_is_away_makes_unready(
    plane: ControlPlane, settings: Settings, probe: Probe, tmp_path: Path
) -> None:
    """While nobody can be watched /readyz fails with the reason, and a restart is not asked for."""
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        through = replace(settings, kube=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig"))))
        async with running_operator([CONFIGS], settings=through, executor=ScriptedExecutor()):
            await probe.until("/readyz", status=200)
            await eventually(lambda: proxy.watches("configmaps"))
            away = proxy.rule(Rule(status=503))
            await proxy.end_watches()
            await probe.until("/readyz", status=500, text="error: the API server cannot be watched; retrying")
            assert await probe.get("/healthz") == (200, "ok")
            away.cancel()
            await probe.until("/readyz", status=200)


async def test_an_empty_watches_file_is_ready(settings: Settings, probe: Probe) -> None:
    """Who asks for nothing gets it: ready, with a remark."""
    async with running_operator([], settings=settings, executor=ScriptedExecutor()):
        await probe.until("/readyz", status=200, text="ok")
        assert "[+]watches ok: watches.yaml names no kind\n" in (await probe.get("/readyz?verbose"))[1]


def election(client: KubeClient, *, namespace: str) -> Leadership:
    """Return the leadership by the Lease `lock`, as an operator with `--leader-elect` has it, with short waits."""
    lease = LeaderElectionSettings(enabled=True, id="lock", namespace=namespace, retry_period=0.05)
    clock, logger = SystemClock(), Logger(sink=RecordingSink())
    return build_leadership(
        Settings(leader_election=lease),
        election=Election(client=client, clock=clock, logger=logger, end_now=lambda: None),
    )


def anothers(namespace: str) -> Object:
    """Return a Lease that another instance holds for an hour."""
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    return {"metadata": {"name": "lock", "namespace": namespace}, "spec": spec}


async def test_a_standby_is_ready(
    kube: KubeClient, namespace: str, settings: Settings, probe: Probe, late: Object
) -> None:
    """While another instance leads nothing is listed and this one is ready; once it leads, its kinds decide."""
    lease = await kube.create(LEASES, namespace=namespace, body=anothers(namespace))
    leadership = election(kube, namespace=namespace)
    async with running_operator(
        [watching(kind_of(late))], settings=settings, executor=ScriptedExecutor(), leadership=leadership
    ):
        text = await probe.until("/readyz?verbose", status=200, text="[+]leadership ok: standby")
        assert "[+]executor ok\n[+]memory ok\n[+]leadership ok: standby: another instance leads\n" in text
        await kube.replace(LEASES, body={**lease, "spec": {}})
        await probe.until("/readyz", status=500, text="[+]leadership ok\n[-]watches failed: no kind is served")


async def test_who_may_not_read_the_lease_is_no_standby(
    plane: ControlPlane, kube: KubeClient, namespace: str, settings: Settings, probe: Probe, tmp_path: Path
) -> None:
    """Without rights on Leases nobody knows who leads: not ready, with the right to grant, until it is granted."""
    await kube.create(LEASES, namespace=namespace, body=anothers(namespace))
    identity = await new_identity(kube, namespace=namespace)
    kubeconfig = await identity.kubeconfig(tmp_path / "kubeconfig", source=plane.kubeconfig)
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        leadership = election(client, namespace=namespace)
        async with running_operator(
            [CONFIGS], settings=settings, executor=ScriptedExecutor(), leadership=leadership
        ) as operator:
            text = "[-]leadership failed: waiting for the leadership: The service account lacks the right to get Leases"
            await probe.until("/readyz", status=500, text=text)
            assert operator.phase is Phase.STARTING
            assert (await probe.get("/healthz"))[0] == 200
            await identity.grant(LEASES, verbs=("get", "create", "update"))
            await probe.until("/readyz?verbose", status=200, text="[+]leadership ok: standby")


async def test_who_cannot_ask_for_the_lease_is_no_standby(
    plane: ControlPlane, namespace: str, settings: Settings, probe: Probe, tmp_path: Path
) -> None:
    """While the API server owes the first answer, or is away, it is not known whether another instance leads."""
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        asked = proxy.rule(Rule(path="/leases", hold=True))
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
            leadership = election(client, namespace=namespace)
            async with running_operator(
                [CONFIGS], settings=settings, executor=ScriptedExecutor(), leadership=leadership
            ):
                await asked.wait_hit()
                waiting = "[-]leadership failed: waiting for the leadership"
                await probe.until("/readyz", status=500, text=f"{waiting}\n")
                away = proxy.rule(Rule(path="/leases", status=503))
                asked.cancel()
                await away.wait_hit()
                await probe.until("/readyz", status=500, text=f"{waiting}: The Lease cannot be read or written")
                away.cancel()
                await probe.until("/readyz", status=200, text="ok")


@dataclass
class Fragile(ScriptedExecutor):
    """An executor that can tell whether it is up."""

    missing: str | None = "there is no Python interpreter nowhere"
    asked: int = 0

    def __post_init__(self) -> None:
        """Script nothing."""
        super().__init__()

    async def ready(self) -> str | None:
        """Tell what the test set."""
        self.asked += 1
        return self.missing


async def test_ready_means_that_the_executor_is_up(settings: Settings, probe: Probe) -> None:
    """/readyz fails with what the executor says, until it says nothing, and again when it goes down."""
    executor = Fragile()
    often = replace(settings, health=HealthSettings(executor_interval=0.02))
    async with running_operator([CONFIGS], settings=often, executor=executor):
        await probe.until("/readyz", status=500, text="[-]executor failed: there is no Python interpreter nowhere")
        executor.missing = None
        await probe.until("/readyz", status=200)
        executor.missing = "the fork server is gone"
        await probe.until("/readyz", status=500, text="[-]executor failed: the fork server is gone")


@dataclass
class Hanging:
    """An executor that waits without a child process, or with one, until a test lets it go."""

    with_process: bool
    go: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, request: RunRequest) -> Outcome:
        """Wait."""
        with busy() if self.with_process else contextlib.nullcontext():
            self.started.set()
            await self.go.wait()
        return succeeded()


def _config_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def _only(names: Sequence[str], *, inner: Executor) -> Executor:
    """Return an executor that hands the objects of these names to *inner* and succeeds for all others."""

    class Only:
        async def run(self, request: RunRequest) -> Outcome:
            return await inner.run(request) if request.obj["metadata"]["name"] in names else succeeded()

    return Only()


async def test_a_worker_that_waits_for_nothing_fails_liveness(
    kube: KubeClient, namespace: str, settings: Settings, probe: Probe
) -> None:
    """A key that is held without an API call or a child process makes /healthz fail, with its name; readiness stays."""
    executor = Hanging(with_process=False)
    strict = replace(settings, health=HealthSettings(worker_grace=0.05))
    async with running_operator([CONFIGS], settings=strict, executor=_only(["stuck"], inner=executor)):
        await kube.create(CONFIG_MAPS, namespace=namespace, body=_config_map("stuck"))
        text = await probe.until("/healthz", status=500, text=f"a worker has held ConfigMap {namespace}/stuck for")
        assert "[-]workers failed" in text
        assert await probe.get("/readyz") == (200, "ok")
        assert await probe.get("/healthz/ping") == (200, "ok")
        executor.go.set()
        await probe.until("/healthz", status=200, text="ok")


async def test_a_long_run_is_no_hang(kube: KubeClient, namespace: str, settings: Settings, probe: Probe) -> None:
    """While a child process of the reconcile lives, no grace is too short."""
    executor = Hanging(with_process=True)
    strict = replace(settings, health=HealthSettings(worker_grace=0.0))
    async with running_operator([CONFIGS], settings=strict, executor=_only(["long"], inner=executor)):
        await kube.create(CONFIG_MAPS, namespace=namespace, body=_config_map("long"))
        await asyncio.wait_for(executor.started.wait(), timeout=60)
        for _ in range(20):
            assert await probe.get("/healthz/workers") == (200, "ok")
        executor.go.set()


async def test_a_slow_api_call_is_no_hang(
    plane: ControlPlane, kube: KubeClient, namespace: str, settings: Settings, probe: Probe, tmp_path: Path
) -> None:
    """While the API server owes an answer to the reconcile, no grace is too short."""
    await kube.create(CONFIG_MAPS, namespace=namespace, body=_config_map("slow"))
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        reading = proxy.rule(Rule(method="GET", path=r"/configmaps/slow$", hold=True))
        kubeconfig = KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig")))
        strict = replace(settings, kube=kubeconfig, health=HealthSettings(worker_grace=0.0))
        executor = ScriptedExecutor()
        async with running_operator([CONFIGS], settings=strict, executor=executor):
            await reading.wait_hit()
            for _ in range(20):
                assert await probe.get("/healthz/workers") == (200, "ok")
            reading.cancel()
            reading.release()
            await eventually(lambda: executor.runs_of("slow"))


class Silence:
    """An API server that never answers discovery, not even with an error."""

    async def request(self, method: str, path: str, *, call: Call) -> Object:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError((method, path, call))


async def test_an_informer_that_hangs_fails_liveness(settings: Settings, probe: Probe) -> None:
    """An informer past its stall limit that doesn't retry makes /healthz fail, with its kind."""
    strict = replace(
        settings,
        informer=replace(settings.informer, stall_timeout=0.05),
        health=HealthSettings(informer_grace=0.0),
    )

    def deaf(shared: Shared) -> Shared:
        return replace(shared, discovery=Discovery(client=Silence()))

    async with running_operator([CONFIGS], settings=strict, executor=ScriptedExecutor(), adjust=deaf):
        await probe.until("/healthz", status=500, text="[-]informers failed: the informer of /v1, Kind=ConfigMap is")


async def test_an_informer_of_dependents_that_hangs_fails_liveness(settings: Settings, probe: Probe) -> None:
    """The informers of dependents are looked at like those of the primaries, and named apart from them."""
    strict = replace(
        settings,
        informer=replace(settings.informer, stall_timeout=0.05),
        health=HealthSettings(informer_grace=0.0),
    )
    followed = DependentStatus(gvk=SECRETS.gvk, fields=("status.phase",))

    def deaf(shared: Shared) -> Shared:
        return replace(shared, discovery=Discovery(client=Silence()))

    watch = replace(CONFIGS, watch_dependent_status=(followed,))
    async with running_operator([watch], settings=strict, executor=ScriptedExecutor(), adjust=deaf):
        await probe.until("/healthz", status=500, text="[-]dependents failed: the informer of /v1, Kind=Secret is")


async def test_a_blocked_event_loop_fails_liveness(settings: Settings, probe: Probe) -> None:
    """While the operator's event loop doesn't turn /healthz answers 500 and says so; when it turns again, `ok`."""
    strict = replace(settings, health=HealthSettings(loop_limit=0.2))
    async with running_operator([], settings=strict, executor=ScriptedExecutor()):
        await probe.until("/healthz", status=200)
        status, text = probe.ask_blocking("/healthz")
        while status != 500:  # this loop is what blocks the event loop
            status, text = probe.ask_blocking("/healthz")
        assert "[-]event-loop failed: the event loop has not turned for" in text
        await probe.until("/healthz", status=200, text="ok")
