"""Each class of error on the way of a status write, and what comes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.errors import AlreadyExists, Forbidden, Invalid, NotFound, StatusWriteExhausted, Unauthorized
from runner.execution.executor import Outcome
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, uid_of
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import KubeSettings
from runner.status.explain import explain, is_ours, name_taken
from runner.status.pending import PendingStatus
from runner.status.transition import done, error
from runner.status.writer import StatusWriter, WriteState
from runner.testing.cluster import CONFIG_MAPS
from runner.testing.faults import HttpFaultProxy, Rule
from tests.integration.status.conftest import make, make_writer

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
ENDED = done(Outcome(success=True, started=NOW, finished=NOW), at=NOW, generation=1)
PUT_STATUS = r"/widgets/web/status$"


@pytest.fixture
async def obj(kube: KubeClient, widgets: Resource, namespace: str) -> Object:
    """Return a new object."""
    return await make(kube, widgets, namespace=namespace)


async def stored_types(kube: KubeClient, widgets: Resource, *, namespace: str) -> list[str]:
    """Return the types of the stored conditions."""
    live = await kube.get(widgets, namespace=namespace, name="web")
    return [entry["type"] for entry in live.get("status", {}).get("conditions", [])]


@pytest.mark.parametrize("status", [409, 429, 500, 503, 504])
async def test_passing_answers_are_tried_again(
    status: int, widgets: Resource, obj: Object, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """Conflict, TooManyRequests and the server's own troubles cost a try each, then the status lands."""
    rule = proxy.rule(Rule(method="PUT", path=PUT_STATUS, times=2, status=status, headers={"Retry-After": "0"}))
    result = await writer.write(widgets, obj, compute=ENDED.apply)
    assert (result.state, result.attempts, rule.hits) == (WriteState.WRITTEN, 3, 2)


async def test_a_longer_retry_after_goes_back_to_the_queue(
    widgets: Resource, obj: Object, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """TooManyRequests with more seconds than a write may take ends it, and the error carries the seconds."""
    proxy.rule(Rule(method="PUT", path=PUT_STATUS, status=429, headers={"Retry-After": "600"}))
    with pytest.raises(StatusWriteExhausted) as caught:
        await writer.write(widgets, obj, compute=ENDED.apply)
    assert (caught.value.retry_after, caught.value.attempts) == (600, 1)


async def test_a_request_that_times_out_is_tried_again(
    widgets: Resource, obj: Object, proxy: HttpFaultProxy, tmp_path: Path, sink: RecordingSink
) -> None:
    """A write without an answer counts as failed after the request's time-out, and is repeated."""
    settings = KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "impatient")), request_timeout=2)
    rule = proxy.rule(Rule(method="PUT", path=PUT_STATUS, times=1, hold=True))
    async with KubeClient(settings=settings) as client:
        result = await make_writer(client, sink=sink).write(widgets, obj, compute=ENDED.apply)
    assert (result.state, rule.hits) == (WriteState.WRITTEN, 1)
    assert result.attempts >= 2
    rule.cancel()


async def test_a_lost_answer_does_not_write_twice(
    widgets: Resource, obj: Object, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """A write that was done although its answer got lost is found done by the next try, and not sent again."""
    proxy.rule(Rule(method="PUT", path=PUT_STATUS, times=1, execute=True, lose=True))
    result = await writer.write(widgets, obj, compute=ENDED.apply)
    assert (result.state, result.attempts) == (WriteState.UNCHANGED, 2)


async def test_refused_credentials_are_read_again_once(
    widgets: Resource, obj: Object, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """One 401 costs nothing but a second request; a second one in a row goes to the caller."""
    rule = proxy.rule(Rule(method="PUT", path=PUT_STATUS, times=1, status=401))
    result = await writer.write(widgets, obj, compute=ENDED.apply)
    assert (result.state, result.attempts, rule.hits) == (WriteState.WRITTEN, 1, 1)
    rule = proxy.rule(Rule(method="PUT", path=PUT_STATUS, status=401))
    with pytest.raises(Unauthorized):
        await writer.write(widgets, obj, compute=error("x", at=NOW, generation=1).apply)
    assert rule.hits == 2


async def _allow(kube: KubeClient, *, namespace: str, rules: list[Object]) -> str:
    """Give a new user these rights, and return its name."""
    user = f"user-{namespace}"
    group = "rbac.authorization.k8s.io"
    roles = Resource(gvk=GVK(group, "v1", "Role"), plural="roles")
    bindings = Resource(gvk=GVK(group, "v1", "RoleBinding"), plural="rolebindings")
    await kube.create(roles, namespace=namespace, body={"metadata": {"name": "some"}, "rules": rules})
    binding = {
        "metadata": {"name": "some"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "some"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    await kube.create(bindings, namespace=namespace, body=binding)
    return user


async def test_a_missing_right_goes_to_the_caller_with_its_name(
    kube: KubeClient,
    plane: ControlPlane,
    widgets: Resource,
    namespace: str,
    obj: Object,
    tmp_path: Path,
    sink: RecordingSink,
) -> None:
    """Forbidden is raised at once; its sentence names verb, resource and namespace; it asks for a slow retry."""
    rule = {"apiGroups": [widgets.gvk.group], "resources": ["widgets"], "verbs": ["get"]}
    user = await _allow(kube, namespace=namespace, rules=[rule])
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig, impersonate=user) as proxy:
        settings = KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "user")))
        async with KubeClient(settings=settings) as client:
            with pytest.raises(Forbidden) as caught:
                await make_writer(client, sink=sink).write(widgets, obj, compute=ENDED.apply)
        assert [request.method for request in proxy.requests].count("PUT") == 1
    sentence = explain(caught.value)
    assert f"Not allowed to update widgets.status.example.com/status web in namespace {namespace}" in sentence
    assert caught.value.retry_after is not None
    assert caught.value.retry_after >= 30
    assert await stored_types(kube, widgets, namespace=namespace) == []


async def test_update_is_the_only_right_that_a_write_needs(
    kube: KubeClient,
    plane: ControlPlane,
    widgets: Resource,
    namespace: str,
    obj: Object,
    tmp_path: Path,
    sink: RecordingSink,
) -> None:
    """A role made for the peer, with get on the kind and update on its status, is enough."""
    group = widgets.gvk.group
    rules = [
        {"apiGroups": [group], "resources": ["widgets"], "verbs": ["get"]},
        {"apiGroups": [group], "resources": ["widgets/status"], "verbs": ["update"]},
    ]
    user = await _allow(kube, namespace=namespace, rules=rules)
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig, impersonate=user) as proxy:
        settings = KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "user")))
        async with KubeClient(settings=settings) as client:
            result = await make_writer(client, sink=sink).write(widgets, obj, compute=ENDED.apply)
    assert result.state is WriteState.WRITTEN


async def test_a_body_that_the_schema_refuses_goes_to_the_caller(
    kube: KubeClient, narrows: Resource, namespace: str, writer: StatusWriter, proxy: HttpFaultProxy
) -> None:
    """Invalid is raised after one try, with the server's words."""
    obj = await make(kube, narrows, namespace=namespace)
    with pytest.raises(Invalid, match=r"status\.conditions\[0\]\.type"):
        await writer.write(narrows, obj, compute=lambda found: [*found, {"type": 7}])
    assert len([request for request in proxy.requests if request.method == "PUT"]) == 1


async def test_a_subresource_that_is_no_more_goes_to_the_caller(
    kube: KubeClient, plains: Resource, namespace: str, writer: StatusWriter
) -> None:
    """Where the object is there and its status subresource isn't, discovery is out of date: NotFound."""
    obj = await make(kube, plains, namespace=namespace)
    stale = Resource(gvk=plains.gvk, plural=plains.plural, subresources=frozenset({"status"}))
    with pytest.raises(NotFound):
        await writer.write(stale, obj, compute=ENDED.apply)


async def test_a_taken_name_becomes_a_failure_that_names_the_owner(
    kube: KubeClient, widgets: Resource, namespace: str, obj: Object, writer: StatusWriter
) -> None:
    """AlreadyExists: what carries our UID is adopted, what belongs to another is named in the Failure condition."""
    other = await make(kube, widgets, namespace=namespace, name="other")
    owner = {"apiVersion": widgets.gvk.api_version, "kind": "Widget", "name": "other", "uid": uid_of(other)}
    body = {"kind": "ConfigMap", "metadata": {"name": "settings", "ownerReferences": [owner]}}
    await kube.create(CONFIG_MAPS, namespace=namespace, body=body)
    with pytest.raises(AlreadyExists):
        await kube.create(CONFIG_MAPS, namespace=namespace, body=body)
    existing = await kube.get(CONFIG_MAPS, namespace=namespace, name="settings")
    assert is_ours(existing, uid=uid_of(other))
    assert not is_ours(existing, uid=uid_of(obj))
    news = error(name_taken(existing), at=NOW, generation=1)
    result = await writer.write(widgets, obj, compute=news.apply)
    assert result.obj is not None
    (failure,) = result.obj["status"]["conditions"]
    assert f"belongs to Widget other (UID {uid_of(other)})" in failure["message"]


async def test_a_status_that_was_kept_is_written_later(
    kube: KubeClient, widgets: Resource, namespace: str, obj: Object, proxy: HttpFaultProxy, faulty: KubeClient
) -> None:
    """When the tries are used up the error tells count and time, and the kept transition lands the next time."""
    writer = make_writer(faulty, sink=RecordingSink(), attempts=3)
    rule = proxy.rule(Rule(method="PUT", path=PUT_STATUS, status=409))
    pending = PendingStatus()
    pending.keep("web", uid=uid_of(obj), transition=ENDED)
    with pytest.raises(StatusWriteExhausted, match=r"after 3 tries in \d+\.\d s") as caught:
        await writer.write(widgets, obj, compute=ENDED.apply)
    assert (caught.value.attempts, rule.hits) == (3, 3)
    assert await stored_types(kube, widgets, namespace=namespace) == []
    proxy.clear()
    live = await kube.get(widgets, namespace=namespace, name="web")
    kept = pending.of("web", uid=uid_of(live))
    assert kept is not None
    result = await writer.write(widgets, live, compute=kept.apply)
    assert result.state is WriteState.WRITTEN
    assert await stored_types(kube, widgets, namespace=namespace) == ["Running", "Successful", "Failure"]


async def test_a_status_that_was_kept_never_reaches_a_new_object(
    kube: KubeClient, widgets: Resource, namespace: str, obj: Object, writer: StatusWriter
) -> None:
    """After deletion and re-creation under the name, the kept transition is dropped and nothing is written."""
    pending = PendingStatus()
    pending.keep("web", uid=uid_of(obj), transition=ENDED)
    await kube.delete(widgets, namespace=namespace, name="web")
    new = await make(kube, widgets, namespace=namespace)
    assert pending.of("web", uid=uid_of(new)) is None
    assert len(pending) == 0
    assert (await writer.write(widgets, obj, compute=ENDED.apply)).state is WriteState.SUPERSEDED
    assert await stored_types(kube, widgets, namespace=namespace) == []


async def test_one_kind_without_rights_does_not_hold_up_another(
    kube: KubeClient,
    widgets: Resource,
    plains: Resource,
    namespace: str,
    obj: Object,
    writer: StatusWriter,
    proxy: HttpFaultProxy,
) -> None:
    """While one kind's status is forbidden, another kind's is written through the same writer."""
    proxy.rule(Rule(method="PUT", path=PUT_STATUS, status=403))
    plain = await make(kube, plains, namespace=namespace)
    with pytest.raises(Forbidden):
        await writer.write(widgets, obj, compute=ENDED.apply)
    assert (await writer.write(plains, plain, compute=ENDED.apply)).state is WriteState.WRITTEN
