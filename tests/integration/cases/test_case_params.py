"""Field cases P1, P2, P3 and P5: what a spec becomes for a role, with objects as the API server has them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from runner.errors import NotFound
from runner.execution.parameters import parameters_for
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of, name_of
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.testing.cluster import wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import ExecutorFor, running_operator
from runner.watches.model import Content, Finalizer, Watch
from tests.integration.cases.conftest import PROBES, Playbook
from tests.integration.reconcile.conftest import Probes

EVENTS = Resource(gvk=GVK("", "v1", "Event"), plural="events")
NAMES = {
    "db2_init": "db2_init", "test_k8s_size": "test_k8s_size", "abc11def": "abc11def", "pg1_repo_path": "pg1_repo_path",
    "s3Bucket": "s3_bucket", "egressIPs": "egress_ips", "loadBalancerIP": "load_balancer_ip",
    "camelCaseURL": "camel_case_url", "enableIPv6": "enable_ip_v6", "EC2Instance": "_ec2_instance",
    "podCIDRs": "pod_cid_rs", "app.kubernetes.io/name": "app.kubernetes.io/name", "日本語Key": "日本語_key",
    "emoji😀Name": "emoji😀_name", "x1y2": "x_1_y2", "": "", " ": " ",
}  # fmt: skip
AFFINITY: dict[str, Any] = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"aKey": []}]}}
}
RESERVED = {"__ansible_type": "x"}
HIJACK = {"ansibleConnection": "ssh", "ansiblePythonInterpreter": "/bin/false", "ansible_host": "192.0.2.1"}
DUMPS = """
- ansible.builtin.file: {path: "{{ out }}", state: directory}
- ansible.builtin.copy: {dest: "{{ out }}/{{ state }}.json", content: "{{ seen | to_json }}"}
  vars:
    seen:
      named: "{{ hostvars['localhost'] | dict2items | selectattr('key', 'in', wanted) | items2dict }}"
      affinity: "{{ affinity }}"
      collided: "{{ foo_bar }}"
      meta: "{{ ansible_operator_meta }}"
      authors: "{{ meta }}"
      state: "{{ state }}"
      whole: "{{ _bugs_example_com_probe }}"
      spec: "{{ _bugs_example_com_probe_spec }}"
"""
REPEATS = """
- ansible.builtin.set_fact: {copied: "{{ s }}", joined: "{{ 'x' ~ s }}"}
- ansible.builtin.copy: {dest: "{{ out }}", content: "{{ seen | to_json }}"}
  vars:
    seen:
      plain: "{{ s }}"
      alert: "{{ alert }}"
      copied: "{{ copied }}"
      joined: "{{ joined }}"
      item: "{{ list[0].k }}"
      whole: "{{ _bugs_example_com_probe }}"
      spec: "{{ _bugs_example_com_probe_spec }}"
"""
POISONS = """
- ansible.builtin.debug: {msg: "{{ _bugs_example_com_probe }}"}
- ansible.builtin.fail: {msg: "{{ '{{' }} nope {{ '}}' }}"}
  when: _bugs_example_com_probe.spec.bad
"""


until = partial(wait_until, limit=240.0)
"""For what takes several runs, on a busy machine too."""


async def _succeeded(probes: Probes, name: str, *, generation: int = 1) -> bool:
    found = {entry["type"]: entry for entry in conditions_of(await probes.get(name))}.get("Successful", {})
    return bool(found.get("status") == "True" and found.get("observedGeneration") == generation)


async def _dropped(probes: Probes) -> list[Object]:
    events = await probes.kube.list(EVENTS, namespace=probes.namespace)
    return [event for event in events if event.get("reason") == "SpecKeysDropped"]


async def test_a_spec_arrives_under_the_peers_names_and_takes_over_nothing(
    probes: Probes, settings: Settings, plays: ExecutorFor, playbook: Playbook, sink: RecordingSink, tmp_path: Path
) -> None:
    """Names are converted at every depth, copies equal the object, a spec changes neither run nor meta (P1 P2 P5)."""
    # Its connection variables are dropped with a log line and an Event that name the keys, not the values; variables
    # of the watch win, and those of the finalizer do in the run of the deletion.
    spec: dict[str, Any] = {key: number for number, key in enumerate(NAMES)}
    spec |= {"affinity": AFFINITY, "fooBar": 1, "foo_bar": 2, "foo-bar": 3, "ansibleOperatorMeta": {"name": "evil"}}
    spec |= {"state": "from the spec", **HIJACK}
    watch = Watch(
        gvk=PROBES,
        content=playbook("dumps.yml", DUMPS),
        vars={
            "state": "present",
            "out": str(tmp_path / "out"),
            "wanted": list(NAMES.values()),
            "meta": "{{ ansible_operator_meta.name }}",
        },
        finalizer=Finalizer(name="bugs.example.com/finalizer", vars={"state": "absent"}),
    )
    async with running_operator([watch], settings=settings, executor=plays, sink=sink):
        await probes.create("web", spec={**spec, **RESERVED})
        await until(lambda: _succeeded(probes, "web"), what="Successful")
        found = await probes.get("web")
        await probes.delete("web")
        await until(lambda: _gone(probes, "web"), what="the end of the deletion")

    assert found["spec"] == {**spec, **RESERVED}
    seen = json.loads((tmp_path / "out/present.json").read_text())
    assert seen["named"] == {name: spec[key] for key, name in NAMES.items()}
    assert seen["affinity"] == {
        "node_affinity": {
            "required_during_scheduling_ignored_during_execution": {"node_selector_terms": [{"a_key": []}]}
        }
    }
    assert seen["collided"] == 2
    assert seen["meta"] == {"name": "web", "namespace": probes.namespace}
    assert seen["authors"] == "web"
    assert (seen["spec"], seen["whole"]["spec"]) == (spec, spec)
    assert seen["whole"]["metadata"]["uid"] == found["metadata"]["uid"]
    assert json.loads((tmp_path / "out/absent.json").read_text())["state"] == "absent"

    # One line of them for the generation, and one for the deletion, which is a new one.
    told = [record for record in sink.records if record["msg"] == "Values of the object are not used as they are"]
    assert 1 <= len(told) <= 2
    notes = [note for record in told for note in record["notes"]]
    for name in ("ansibleConnection", "ansiblePythonInterpreter", "ansible_host", "__ansible_type"):
        assert any(f"spec.{name}" in note and "left out" in note for note in notes)
    events = await _dropped(probes)
    assert {(event["type"], event["involvedObject"]["name"]) for event in events} == {("Warning", "web")}
    assert all(
        event["message"].endswith(": __ansible_type, ansibleConnection, ansiblePythonInterpreter, ansible_host")
        for event in events
    )
    assert "192.0.2.1" not in json.dumps([*events, *notes])


async def _gone(probes: Probes, name: str) -> bool:
    try:
        await probes.get(name)
    except NotFound:
        return True
    return False


async def test_dropped_keys_are_told_once_for_each_generation(probes: Probes, settings: Settings) -> None:
    """A further run of the same generation writes no Event, an edit of the spec does (P5)."""
    watch = Watch(gvk=PROBES, content=Content(), watch_annotations_changes=True)
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("web", spec=HIJACK)
        await until(lambda: _runs(executor, 1), what="the first run")
        await until(lambda: _succeeded(probes, "web"), what="its end")
        await probes.patch("web", {"metadata": {"annotations": {"note": "run again"}}})
        await until(lambda: _runs(executor, 2), what="the second run")
        assert [event["count"] for event in await _dropped(probes)] == [1]
        await probes.patch("web", {"spec": {"ansible_host": None}})
        await until(lambda: _runs(executor, 3), what="the edit's run")
        assert sorted(event["message"].count(",") for event in await _dropped(probes)) == [2, 3]
    assert [request.notes_told for request in executor.requests] == [False, True, False]


async def _runs(executor: ScriptedExecutor, count: int) -> bool:
    return len(executor.requests) >= count


async def test_colliding_keys_have_one_winner_in_twenty_reconciles(probes: Probes, settings: Settings) -> None:
    """The key that is spelt like the variable wins each time, whatever else changes in the object (P2)."""
    executor = ScriptedExecutor()
    watch = Watch(gvk=PROBES, content=Content())
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("web", spec={"fooBar": 1, "foo_bar": 2, "foo-bar": 3})
        for count in range(1, 21):
            await until(partial(_succeeded, probes, "web", generation=count), what=f"run {count}")
            if count < 20:
                await probes.patch("web", {"spec": {f"key{count}": count}})
    assert len(executor.requests) == 20
    assert {parameters_for(request).variables["foo_bar"] for request in executor.requests} == {2}


async def test_without_conversion_a_spec_arrives_as_it_is(probes: Probes, settings: Settings) -> None:
    """With snakeCaseParameters off each key keeps its name, at the top and below, and only Ansible's own go (P2)."""
    executor = ScriptedExecutor()
    watch = Watch(gvk=PROBES, content=Content(), snake_case_parameters=False)
    spec = {"affinity": AFFINITY, "fooBar": 1, "foo_bar": 2, "foo-bar": 3, "ansibleHost": "no variable of Ansible's"}
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("web", spec={**spec, "ansible_host": "192.0.2.1"})
        await until(lambda: _succeeded(probes, "web"), what="Successful")
    variables = parameters_for(executor.requests[0]).variables
    assert {key: variables.get(key) for key in [*spec, "ansible_host"]} == {**spec, "ansible_host": None}
    assert variables["_bugs_example_com_probe_spec"] == {**spec, "ansible_host": "192.0.2.1"}


async def test_a_key_that_cannot_be_converted_disturbs_no_other_object(probes: Probes, settings: Settings) -> None:
    """Beside an object with empty and blank keys, on which the peer panics, others are reconciled as ever (P1)."""
    executor = ScriptedExecutor()
    async with running_operator([Watch(gvk=PROBES, content=Content())], settings=settings, executor=executor):
        await probes.create("odd", spec={"": 1, " ": {"": 2}, "\t": 3})
        await probes.create("usual", spec={"size": 1})
        for name in ("odd", "usual"):
            await until(partial(_succeeded, probes, name), what=f"{name} to be Successful")
    odd = next(request for request in executor.requests if name_of(request.obj) == "odd")
    variables = parameters_for(odd).variables
    assert (variables[""], variables[" "], variables["\t"]) == (1, {"": 2}, 3)


async def test_templates_in_a_marked_object_stay_text(
    probes: Probes, settings: Settings, plays: ExecutorFor, playbook: Playbook, tmp_path: Path
) -> None:
    """With markUnsafe no template of an object is evaluated: in spec, annotations, last-applied and status (P3)."""
    pwned = tmp_path / "PWNED"
    evil = '{{ lookup("pipe", "touch ' + str(pwned) + '") }}'
    spec: dict[str, Any] = {
        "s": evil,
        "list": [{"k": "{% for i in range(9) %}x{% endfor %}"}],
        "alert": "{{ $labels.instance }}",
    }
    annotations = {"note": evil, "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"spec": spec})}
    await probes.create("web", spec=spec, annotations=annotations, labels={"tier": "gold"})
    await probes.patch("web", {"status": {"note": evil}}, subresource="status")
    watch = Watch(
        gvk=PROBES, content=playbook("repeats.yml", REPEATS), mark_unsafe=True, vars={"out": str(tmp_path / "seen")}
    )
    async with running_operator([watch], settings=settings, executor=plays):
        await until(lambda: _succeeded(probes, "web"), what="Successful")
    seen = json.loads((tmp_path / "seen").read_text())
    assert not pwned.exists()
    assert (seen["plain"], seen["copied"], seen["joined"]) == (evil, evil, f"x{evil}")
    assert (seen["item"], seen["alert"]) == (spec["list"][0]["k"], spec["alert"])
    assert (seen["spec"], seen["whole"]["spec"]) == (spec, spec)
    assert seen["whole"]["metadata"]["annotations"] == annotations
    assert seen["whole"]["status"]["note"] == evil


async def test_a_poisoned_message_fails_no_later_run(
    probes: Probes, settings: Settings, plays: ExecutorFor, playbook: Playbook
) -> None:
    """A message with braces comes back in the status: it doesn't grow, and a mended spec succeeds (P3)."""
    watch = Watch(gvk=PROBES, content=playbook("poisons.yml", POISONS))
    messages: list[str] = []
    counting = replace(settings, backoff=replace(settings.backoff, base=0.05))
    sink = RecordingSink()
    async with running_operator([watch], settings=counting, executor=plays, sink=sink):
        await probes.create("web", spec={"bad": True})
        for run in range(1, 4):
            await until(partial(_failures, sink, run), what=f"failure {run}")
            found = {entry["type"]: entry for entry in conditions_of(await probes.get("web"))}
            messages.append(found["Failure"]["message"])
        await probes.patch("web", {"spec": {"bad": False}})
        await until(lambda: _succeeded(probes, "web", generation=2), what="the mended spec to succeed")
    assert messages == ["{{ nope }}"] * 3


async def _failures(sink: RecordingSink, count: int) -> bool:
    decided = [record for record in sink.records if record.get("decision") == "Backoff"]
    return len(decided) >= count
