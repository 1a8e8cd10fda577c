"""The operator with exactly the rights that the peer's scaffolding grants for a kind, and in one namespace only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runner.assembly import Surroundings, play_executor
from runner.assembly.run_access import RunAccess
from runner.clock import SystemClock
from runner.execution.executor import Executor
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of
from runner.localdev.plane import ControlPlane
from runner.logs import Logger, RecordingSink
from runner.settings import KubeSettings, Settings
from runner.testing.cluster import CONFIG_MAPS, crd, install_crd, wait_until
from runner.testing.executor import ScriptedExecutor, failed
from runner.testing.faults import HttpFaultProxy
from runner.testing.harness import running_operator
from runner.testing.identities import ROLE_BINDINGS, ROLES, new_identity
from runner.testing.warm import SharedWarm
from runner.watches.model import Content, Finalizer, Watch
from tests.integration.cases.conftest import Playbook
from tests.integration.reconcile.conftest import Probes

OURS = "bugs.example.com/f"
SCAFFOLDED = ("get", "list", "watch", "update", "patch")
"""What the peer uses of its seven verbs on a kind."""
SHY_ROLE = """
- operator_sdk.util.k8s_status:
    api_version: bugs.example.com/v1
    kind: Probe
    name: "{{ ansible_operator_meta.name }}"
    namespace: "{{ ansible_operator_meta.namespace }}"
    status: {url: "http://last"}
"""


async def grant(
    kube: KubeClient, *, namespace: str, resource: Resource, subresources: Sequence[str] = ("status", "finalizers")
) -> None:
    """Let the account `narrow` do what is scaffolded on a kind and on its *subresources* in *namespace*."""
    name, plural, api = f"narrow-{resource.plural}", resource.plural, ROLES.gvk.api_version
    resources = [plural, *(f"{plural}/{subresource}" for subresource in subresources)]
    rule = {"apiGroups": [resource.gvk.group], "resources": resources, "verbs": list(SCAFFOLDED)}
    role: Object = {"apiVersion": api, "kind": "Role", "metadata": {"name": name}, "rules": [rule]}
    await kube.create(ROLES, namespace=namespace, body=role)
    binding: Object = {
        "apiVersion": api,
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": ROLES.gvk.group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "narrow", "namespace": namespace}],
    }
    await kube.create(ROLE_BINDINGS, namespace=namespace, body=binding)


@pytest.fixture
async def api(kube: KubeClient, plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[HttpFaultProxy]:
    """Stand in front of the API server as the service account `narrow`, which has no right yet, and note refusals."""
    identity = await new_identity(kube, namespace=namespace, name="narrow")
    kubeconfig = await identity.kubeconfig(tmp_path / "narrow", source=plane.kubeconfig)
    async with HttpFaultProxy(upstream_kubeconfig=kubeconfig) as proxy:
        yield proxy


@pytest.fixture
def narrow(settings: Settings, api: HttpFaultProxy, tmp_path: Path) -> Settings:
    """Return settings of an operator that is that account."""
    return replace(settings, kube=KubeSettings(kubeconfig=str(api.kubeconfig(tmp_path / "kubeconfig"))))


@pytest.fixture
def held(watch: Watch) -> Watch:
    """Watch Probes with a finalizer."""
    return replace(watch, finalizer=Finalizer(name=OURS))


def refusals(api: HttpFaultProxy) -> set[str]:
    """Return what the API server refused, as method and resource."""
    return {f"{record.method} {record.path.split('?')[0].split('/')[-1]}" for record in api.refused}


async def test_the_scaffolded_rights_are_enough(
    kube: KubeClient, probes: Probes, held: Watch, narrow: Settings, api: HttpFaultProxy, sink: RecordingSink
) -> None:
    """Success, failure, edits, finalizer, deletion: all work, Events cost one line each, nothing else is refused."""
    await grant(kube, namespace=probes.namespace, resource=probes.resource)
    executor = ScriptedExecutor(outcomes=[failed("x")])
    async with running_operator([held], settings=narrow, executor=executor, sink=sink):
        await probes.create("one", spec={"size": 1, "ansible_connection": "ssh"})
        await wait_until(lambda: _successful(probes, "one", 1), what="the success after a failure")
        for size in (2, 3):
            await probes.patch("one", {"spec": {"size": size}})
            await wait_until(lambda: _successful(probes, "one", size), what="the edit's success")  # noqa: B023 - awaited within its turn
        await probes.delete("one")
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
    assert [request.finalizing for request in executor.requests] == [False, False, False, False, True]
    assert refusals(api) == {"POST events"}
    about = [r for r in sink.records if "grant create and patch on events" in r["msg"] and r["level"] != "debug"]
    assert [record["reason"] for record in about] == ["SpecKeysDropped"]
    assert [r for r in sink.records if r["level"] == "error" and "Forbidden" in str(r.get("error"))] == []
    strangers = ("kube-system", "leases", "customresourcedefinitions", "accessreviews")
    assert [record.path for record in api.requests if any(word in record.path for word in strangers)] == []


async def test_a_role_works_with_the_scaffolded_rights(
    kube: KubeClient,
    probes: Probes,
    held: Watch,
    narrow: Settings,
    api: HttpFaultProxy,
    playbook: Playbook,
    warm_server: SharedWarm,
) -> None:
    """A real run with k8s_status, and the status that the operator adds, need no right beyond the kind's."""
    await grant(kube, namespace=probes.namespace, resource=probes.resource)

    def executor(access: RunAccess) -> Executor:
        around = Surroundings(settings=narrow, access=access, logger=Logger(sink=RecordingSink()), clock=SystemClock())
        return play_executor(warm_server, around=around)

    watching = replace(held, content=playbook("main.yml", SHY_ROLE))
    async with running_operator([watching], settings=narrow, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _successful(probes, "one", 1), what="the success", limit=120)
    assert (await probes.get("one"))["status"]["url"] == "http://last"
    assert refusals(api) <= {"POST events"}


async def test_kinds_without_rights_hold_up_no_other(
    kube: KubeClient, probes: Probes, held: Watch, narrow: Settings, api: HttpFaultProxy, sink: RecordingSink
) -> None:
    """At the start one kind is served, two are forbidden and told once each; granted later, they are served."""
    await grant(kube, namespace=probes.namespace, resource=probes.resource)
    seconds = Probes(
        kube=kube,
        resource=await install_crd(kube, crd("Second", group="bugs.example.com")),
        namespace=probes.namespace,
    )
    second = Watch(gvk=GVK("bugs.example.com", "v1", "Second"), content=Content())
    core = Watch(gvk=CONFIG_MAPS.gvk, content=Content(), manage_status=False)
    executor = ScriptedExecutor()
    quick = replace(narrow, informer=replace(narrow.informer, missing_cap=0.2))
    async with running_operator([second, core, held], settings=quick, executor=executor, sink=sink):
        await probes.create("one")
        await seconds.create("waiting")
        await wait_until(lambda: _successful(probes, "one", 1), what="the served kind's success")
        assert executor.runs_of("waiting") == []
        told = [r["gvk"] for r in sink.records if r["msg"] == "A right to list or watch is missing; waiting for it"]
        assert sorted(map(str, told)) == sorted([str(core.gvk), str(second.gvk)])
        await grant(kube, namespace=probes.namespace, resource=seconds.resource)
        await wait_until(lambda: _successful(seconds, "waiting", 1), what="the second kind's success")


async def test_without_the_status_right_the_log_names_it_and_nothing_runs(
    kube: KubeClient, probes: Probes, watch: Watch, narrow: Settings, api: HttpFaultProxy, sink: RecordingSink
) -> None:
    """As with the peer a run is announced first: where that is forbidden the log names verb and resource."""
    await grant(kube, namespace=probes.namespace, resource=probes.resource, subresources=())
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=narrow, executor=executor, sink=sink):
        await probes.create("one")
        expected = "update probes.bugs.example.com/status one"
        await wait_until(lambda: _logged(sink, expected), what="the log line")
    assert executor.requests == []
    assert conditions_of(await probes.get("one")) == []


async def _gone(probes: Probes, name: str) -> bool:
    return name not in await probes.names()


async def _logged(sink: RecordingSink, text: str) -> bool:
    return any(text in str(record.get("error")) for record in sink.records)


async def _successful(probes: Probes, name: str, generation: int) -> bool:
    found = conditions_of(await probes.get(name))
    return any(
        c["type"] == "Successful" and c["status"] == "True" and c["observedGeneration"] == generation for c in found
    )
