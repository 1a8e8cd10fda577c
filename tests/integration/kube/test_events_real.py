"""Events on the real API server: counted where they repeat, made anew where they are gone."""

from __future__ import annotations

from pathlib import Path

from runner.kube.client import KubeClient
from runner.kube.events import EVENTS, WARNING, EventRecorder
from runner.kube.objects import Object, name_of
from runner.localdev.plane import ControlPlane
from runner.logs import Logger, RecordingSink
from runner.settings import KubeSettings
from runner.testing.clock import FakeClock
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES
from runner.testing.identities import new_identity


async def _config_map(kube: KubeClient, namespace: str) -> Object:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}
    return await kube.create(CONFIG_MAPS, namespace=namespace, body=body)


async def test_a_repeated_event_is_counted(kube: KubeClient, namespace: str) -> None:
    """The same Event again raises its count and moves its last time; another message is another Event."""
    obj, sink, clock = await _config_map(kube, namespace), RecordingSink(), FakeClock()
    recorder = EventRecorder(client=kube, logger=Logger(sink=sink), clock=clock)
    for _ in range(3):
        await recorder.record(obj, type=WARNING, reason="Dropped", message="one")
        await clock.advance(60)
    await recorder.record(obj, reason="Dropped", message="two")
    events = {event["message"]: event for event in await kube.list(EVENTS, namespace=namespace)}
    assert sorted(events) == ["one", "two"]
    assert (events["one"]["count"], events["two"]["count"]) == (3, 1)
    assert events["one"]["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert events["one"]["lastTimestamp"] == "2026-01-01T00:02:00Z"
    assert sink.records == []


async def test_an_event_that_expired_is_made_anew(kube: KubeClient, namespace: str) -> None:
    """An Event that the API server has dropped since is written again, with a count of one."""
    obj, sink = await _config_map(kube, namespace), RecordingSink()
    recorder = EventRecorder(client=kube, logger=Logger(sink=sink))
    await recorder.record(obj, reason="Dropped", message="one")
    (first,) = await kube.list(EVENTS, namespace=namespace)
    await kube.delete(EVENTS, namespace=namespace, name=name_of(first))
    await recorder.record(obj, reason="Dropped", message="one")
    (second,) = await kube.list(EVENTS, namespace=namespace)
    assert name_of(second) != name_of(first)
    assert second["count"] == 1
    assert sink.records == []


async def test_a_cluster_scoped_object_has_events(kube: KubeClient, namespace: str) -> None:
    """The API server takes Events of cluster-scoped objects in `default`."""
    obj, sink = await kube.get(NAMESPACES, name=namespace), RecordingSink()
    await EventRecorder(client=kube, logger=Logger(sink=sink)).record(obj, reason="Seen", message="one")
    assert sink.records == []
    query = (("fieldSelector", f"involvedObject.name={namespace}"),)
    (event,) = await kube.list(EVENTS, namespace="default", query=query)
    assert event["involvedObject"]["kind"] == "Namespace"


async def test_a_missing_right_is_one_line(
    kube: KubeClient, namespace: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """An account without rights on Events records nothing, says so once, and goes on."""
    obj, sink = await _config_map(kube, namespace), RecordingSink()
    account = await new_identity(kube, namespace=namespace)
    kubeconfig = await account.kubeconfig(tmp_path / "account", source=plane.kubeconfig)
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        recorder = EventRecorder(client=client, logger=Logger(sink=sink))
        for _ in range(3):
            await recorder.record(obj, reason="Dropped", message="one")
    assert len(sink.records) == 1
    assert "forbidden" in sink.records[0]["error"]
