"""The trace of a scaled WebApp: which moments become rows."""

from __future__ import annotations

from typing import Any

from runner.kube.objects import Object
from runner.sources.store import Change, ChangeKind
from tools.webapp_trace import Trace


def changed(trace: Trace, kind: str, obj: Object, *, gone: bool = False) -> None:
    """Tell *trace* what a watch tells."""
    trace.changed(kind, Change(kind=ChangeKind.DELETED if gone else ChangeKind.MODIFIED, obj=obj))


def pod(name: str, **metadata: Any) -> Object:
    """Return a Pod."""
    return {"metadata": {"name": name, **metadata}}


def told(trace: Trace) -> list[str]:
    """Return what the rows say."""
    return [what for _, _, what in trace.rows]


def settled() -> Trace:
    """Return a trace of a WebApp with three Pods, before the scale."""
    trace = Trace()
    changed(trace, "Deployment", {"metadata": {"name": "w"}, "spec": {"replicas": 3}})
    changed(trace, "WebApp", {"metadata": {"name": "w"}, "status": {"phase": "Running", "availableReplicas": 3}})
    for name in "abc":
        changed(trace, "Pod", pod(name))
    return trace


def test_what_was_before_the_scale_is_no_row() -> None:
    """What leads to Running 3/3 is known, but told in no row."""
    trace = settled()
    assert trace.settled()
    assert trace.rows == []


def test_a_scale_and_its_undoing_are_rows() -> None:
    """Each new value is one row, a series of Pods is one row with both moments, and healed means Running again."""
    trace = settled()
    trace.begun = 1.0
    changed(trace, "Deployment", {"metadata": {"name": "w"}, "spec": {"replicas": 10}})
    changed(trace, "Deployment", {"metadata": {"name": "w"}, "spec": {"replicas": 10}})
    fields = [{"field": "spec.replicas", "desired": "3", "actual": "10"}]
    trace.log({"msg": "Dependent changed", "dependent": "Deployment ns/w", "fields": fields})
    trace.log({
        "msg": "Dependent changed back, in its status, or in what controllers keep",
        "dependent": "Deployment ns/w",
        "fields": ["metadata.labels"],
    })
    for name in "de":
        changed(trace, "Pod", pod(name))
    changed(trace, "Deployment", {"metadata": {"name": "w"}, "spec": {"replicas": 3}})
    for name in "de":
        changed(trace, "Pod", pod(name, deletionTimestamp="now"))
    for name in "de":
        changed(trace, "Pod", pod(name, deletionTimestamp="now"), gone=True)
    assert not trace.healed()
    changed(trace, "WebApp", {"metadata": {"name": "w"}, "status": {"phase": "Scaling", "availableReplicas": 5}})
    changed(trace, "WebApp", {"metadata": {"name": "w"}, "status": {"phase": "Running", "availableReplicas": 3}})
    assert trace.healed()
    assert told(trace) == [
        "Deployment: spec.replicas 10",
        "log: Dependent changed: Deployment ns/w: spec.replicas desired 3, actual 10",
        "Pods: 5 there",
        "Deployment: spec.replicas 3",
        "Pods: 2 Terminating",
        "Pods: 3 there",
        "WebApp: Scaling 5/3",
        "WebApp: Running 3/3",
    ]
    assert [" to " in when for when, _, _ in trace.rows] == [False, False, True, False, True, True, False, False]
