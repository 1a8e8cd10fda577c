"""Our `operator_sdk.util` modules in a real run against a real API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import crd, install_crd
from tests.integration.execution.bench import Bench, Warm

EVENTS = Resource(gvk=GVK("", "v1", "Event"), plural="events")
TASKS = """
- ansible.builtin.file: {path: "{{ out }}", state: directory}
- module_defaults:
    operator_sdk.util.k8s_status:
      api_version: collection.example.com/v1
      kind: Probe
      name: web
      namespace: "{{ where }}"
  block:
  - operator_sdk.util.k8s_status: {status: {url: x, removed: null}, conditions: [{type: Ready, status: true}]}
    register: first
  - operator_sdk.util.k8s_status: {status: {url: x}, conditions: [{type: Ready, status: "True"}]}
    register: again
  - operator_sdk.util.k8s_status:
      conditions: [{type: Ready, status: "False", reason: PodsMissing, message: one is missing}]
    register: flipped
  - operator_sdk.util.k8s_status: {status: {url: only a check}}
    check_mode: true
    register: checked
  - operator_sdk.util.k8s_status: {name: forced, force: true, status: {url: forced, conditions: []}}
  - operator_sdk.util.k8s_status: "{{ item }}"
    loop:
    - {name: nobody, status: {a: 1}}
    - {api_version: v1, kind: ConfigMap, status: {a: 1}}
    - {kind: NoSuchKind, status: {a: 1}}
    ignore_errors: true
    register: refused
- module_defaults:
    operator_sdk.util.k8s_event:
      namespace: "{{ where }}"
      message: It moved
      reason: Moved
      type: Normal
      source: {component: tests}
      involvedObject: {apiVersion: collection.example.com/v1, kind: Probe, name: web, namespace: "{{ where }}"}
  block:
  - operator_sdk.util.k8s_event: {name: counted}
  - operator_sdk.util.k8s_event: {name: counted}
    register: counted
  - operator_sdk.util.k8s_event: {name: stamped, appendTimestamp: true}
  - operator_sdk.util.k8s_event: {name: nobody, state: absent}
    register: absent
- ansible.builtin.copy: {dest: "{{ out }}/seen.json", content: "{{ seen | to_json }}"}
  vars:
    seen:
      changed: "{{ [first, again, flipped, checked, absent] | map(attribute='changed') }}"
      refused: "{{ refused.results | map(attribute='msg') }}"
      counted: "{{ counted.result }}"
"""


async def _writes_meanwhile(kube: KubeClient, probes: Resource, *, where: str) -> int:
    """Count up a status key of another writer until cancelled; each write makes older versions stale."""
    count = 0
    while True:
        count += 1
        body = {"status": {"other": count}}
        await kube.patch(probes, name="web", namespace=where, subresource="status", body=body)
        await asyncio.sleep(0.02)


async def test_the_modules_report_through_the_api(
    plane: ControlPlane, kube: KubeClient, namespace: str, tmp_path: Path, warm: Warm
) -> None:
    """Status and events arrive, nothing of another writer is lost, and wrong input gives a readable message (ST1)."""
    probes = await install_crd(kube, crd("Probe", group="collection.example.com"))
    running = [{"type": "Running", "status": "True", "reason": "", "message": ""}]
    for name in ("web", "forced"):
        body = {"apiVersion": "collection.example.com/v1", "kind": "Probe", "metadata": {"name": name}}
        await kube.create(probes, namespace=namespace, body=body)
        status = {"status": {"conditions": running, "removed": 1}}
        await kube.patch(probes, name=name, namespace=namespace, subresource="status", body=status)

    bench = Bench(tmp_path, warm=warm)
    bench.kubeconfig = plane.kubeconfig
    other = asyncio.create_task(_writes_meanwhile(kube, probes, where=namespace))
    variables = {"out": str(tmp_path / "out"), "where": namespace}
    outcome = await bench.run(bench.request(bench.tasks(TASKS), vars=variables))
    other.cancel()
    await asyncio.wait({other})
    assert outcome.success, outcome.failures
    seen = bench.written("seen.json")

    assert seen["changed"] == [True, False, True, True, False]
    found = (await kube.get(probes, name="web", namespace=namespace))["status"]
    ready = {"type": "Ready", "status": "False", "reason": "PodsMissing", "message": "one is missing"}
    assert found.pop("other") > 10
    assert found == {"url": "x", "conditions": [*running, ready]}

    forced = await kube.get(probes, name="forced", namespace=namespace)
    assert forced["status"] == {"url": "forced", "conditions": []}

    expected = ["Failed to retrieve requested object", "does not support the status", "Failed to find exact match"]
    assert [part for part, message in zip(expected, seen["refused"], strict=True) if part not in message] == []

    events = await kube.list(EVENTS, namespace=namespace)
    ours = {event["metadata"]["name"]: event for event in events if event.get("reason") == "Moved"}
    assert ours["counted"]["count"] == seen["counted"]["count"] == 2
    assert ours["counted"]["involvedObject"]["uid"]
    assert len([name for name in ours if name.startswith("stamped.")]) == 1
    assert len(ours) == 2
