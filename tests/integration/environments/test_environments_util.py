"""Our `operator_sdk.util` on both environments (kubernetes 37 and 33.1): arguments and results of the public 0.5.0."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import crd, install_crd
from tests.integration.environments.conftest import Plays

EVENTS = Resource(gvk=GVK("", "v1", "Event"), plural="events")
GROUP = "environments.example.com"
TASKS = """
- ansible.builtin.file: {path: "{{ out }}", state: directory}
- module_defaults:
    operator_sdk.util.k8s_status: {api_version: environments.example.com/v1, namespace: "{{ where }}", name: web}
  block:
  - operator_sdk.util.k8s_status:
      kind: Gadget
      status: {hello: world, hosts: [a, b]}
      conditions:
      - {type: Available, status: "False", reason: PingFailed, lastTransitionTime: "2026-01-01 00:00:00+00:00"}
    register: set
  - operator_sdk.util.k8s_status: {kind: gadgets, status: {hosts: [b]}}
    register: part_of_list
  - operator_sdk.util.k8s_status: {kind: gadget, status: {hosts: [b]}, replace_lists: true}
    register: whole_list
  - operator_sdk.util.k8s_status: {kind: Gadget, force: true, status: {only: this}}
    register: forced
  - operator_sdk.util.k8s_status: "{{ item }}"
    loop:
    - {kind: Gadget, name: nobody, status: {a: 1}}
    - {kind: NoSuchKind, status: {a: 1}}
    - {kind: Gadget, status: {conditions: [{type: A, status: "True"}]}, conditions: [{type: B, status: "True"}]}
    - {kind: Gadget, conditions: [{type: A, status: "True", reason: two words}]}
    - {kind: Gadget, conditions: [{type: A, status: "True", lastTransitionTime: today}]}
    - {kind: Gadget, conditions: [{status: "True"}]}
    - {kind: Gadget, conditions: [{type: A, status: Maybe}]}
    ignore_errors: true
    register: refused
- operator_sdk.util.k8s_event:
    name: told
    namespace: "{{ where }}"
    message: It is so
    reason: Told
    involvedObject: {apiVersion: environments.example.com/v1, kind: Gadget, name: gone, namespace: "{{ where }}"}
    source: {component: tests}
  register: event
- operator_sdk.util.requeue_after: {time: soon}
  ignore_errors: true
  register: requeue
- ansible.builtin.copy: {dest: "{{ out }}/seen.json", content: "{{ seen | to_json }}"}
  vars:
    seen:
      core: "{{ ansible_version.full }}"
      python: "{{ ansible_playbook_python }}"
      changed: "{{ [set, part_of_list, whole_list, forced, event] | map(attribute='changed') }}"
      status: "{{ whole_list.result.status }}"
      forced: "{{ forced.result.status }}"
      messages: "{{ refused.results | map(attribute='msg') }}"
      errors: "{{ refused.results | map(attribute='error', default='') }}"
      event: "{{ event.result }}"
      requeue: "{{ requeue.msg }}"
"""
FINAL = {
    "hello": "world",
    "hosts": ["b"],
    "conditions": [
        {
            "type": "Available",
            "status": "False",
            "reason": "PingFailed",
            "lastTransitionTime": "2026-01-01 00:00:00+00:00",
        }
    ],
}


async def test_the_modules_take_and_give_what_the_public_ones_do(
    plays: Plays, plane: ControlPlane, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    """Status, conditions, lists, replacement, failures and an Event, with the sentences that roles compare."""
    gadgets = await install_crd(kube, crd("Gadget", group=GROUP))
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "web"}}
    await kube.create(gadgets, namespace=namespace, body=body)
    bench = plays.bench(tmp_path / "bench")
    bench.kubeconfig = plane.kubeconfig
    out = bench.root / "out"
    outcome = await bench.run(bench.request(bench.tasks(TASKS), vars={"out": str(out), "where": namespace}))
    assert outcome.success, outcome.failures
    seen = bench.written("seen.json")

    assert plays.is_that_of(seen)
    assert seen["changed"] == [True, False, True, True, True]
    assert seen["status"] == FINAL
    assert seen["forced"] == (await kube.get(gadgets, name="web", namespace=namespace))["status"] == {"only": "this"}

    missing, unknown, both, reason, time, without_type, odd_status = seen["messages"]
    assert missing == "Failed to retrieve requested object"
    assert (seen["errors"][0]["status"], seen["errors"][0]["reason"]) == (404, "Not Found")
    assert unknown.startswith(f"Failed to find exact match for {GROUP}/v1.NoSuchKind")
    assert both == "You cannot specify conditions in both the 'status' and 'conditions' parameters"
    assert reason == time == "The specified conditions failed to validate"
    assert seen["errors"][3] == "Condition 'reason' must be a single, CamelCase word"
    assert seen["errors"][4] == "'lastTransitionTime' must be an RFC3339 compliant datetime string"
    assert without_type == "missing required arguments: type found in conditions"
    assert "value of status must be one of: True, False, Unknown, got: Maybe" in odd_status

    (event,) = [entry for entry in await kube.list(EVENTS, namespace=namespace) if entry["reason"] == "Told"]
    assert event["metadata"]["name"] == seen["event"]["metadata"]["name"] == "told"
    assert (event["involvedObject"]["name"], event["count"], event["source"]) == ("gone", 1, {"component": "tests"})
    assert "invalid time input" in seen["requeue"]


@pytest.mark.parametrize("way", ["ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_COLLECTIONS_PATHS", "ANSIBLE_CONFIG"])
async def test_an_installed_collection_of_that_name_comes_first(plays: Plays, tmp_path: Path, way: str) -> None:
    """Where a configured folder has an operator_sdk.util, that one runs: both spellings count, on each version."""
    base = tmp_path / "collections/ansible_collections/operator_sdk/util"
    (base / "plugins/modules").mkdir(parents=True)
    module = """\
        #!/usr/bin/python
        from ansible.module_utils.basic import AnsibleModule
        AnsibleModule(argument_spec={"time": {}}).exit_json(period="7s", installed=True)
    """
    (base / "plugins/modules/requeue_after.py").write_text(dedent(module))
    (base / "MANIFEST.json").write_text('{"collection_info": {"namespace": "operator_sdk", "name": "util"}}')
    config = tmp_path / "ansible.cfg"
    config.write_text("[defaults]\ncollections_paths = collections\n")
    value = config if way == "ANSIBLE_CONFIG" else tmp_path / "collections"
    bench = plays.bench(tmp_path / "bench", **{way: str(value)})
    outcome = await bench.run(bench.request(bench.tasks("- operator_sdk.util.requeue_after: {time: 1h}\n")))
    assert outcome.success, outcome.failures
    assert outcome.requeue_after is not None
    assert outcome.requeue_after.total_seconds() == 7
