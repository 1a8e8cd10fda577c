"""How the role of `examples/02-myapp` judges Pods by their Nodes: its own task and variables, with lists as given."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from runner.settings import environment

ROLE = Path(__file__).resolve().parents[2] / "examples/02-myapp/roles/myapp"
LONG_AGO = "2026-01-01T00:00:00Z"
FENCE = "node.kubernetes.io/out-of-service"


def pod(number: int, *, kind: str = "StatefulSet", owner: str = "app") -> dict[str, Any]:
    """Return the Pod of this number, which is on the Node of this number."""
    references = [{"kind": kind, "name": owner, "uid": f"uid-of-{kind}"}]
    metadata = {"name": f"app-{number}", "uid": f"pod-{number}", "ownerReferences": references}
    return {"metadata": metadata, "spec": {"nodeName": f"node-{number}"}}


def node(number: int, *, ready: str = "Unknown", effects: Sequence[str] = ()) -> dict[str, Any]:
    """Return a Node whose Ready is so; without any such condition where that is empty."""
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": LONG_AGO}] if ready else []
    return {
        "metadata": {"name": f"node-{number}", "creationTimestamp": LONG_AGO},
        "spec": {"taints": [{"key": FENCE, "effect": effect} for effect in effects]},
        "status": {"conditions": conditions},
    }


def play_of(
    result_file: Path,
    *,
    pods: Sequence[dict[str, Any]],
    nodes: Sequence[dict[str, Any]],
    before: dict[str, Any] | None,
    current: bool,
) -> dict[str, Any]:
    """Return a play of the role's task that judges, which writes what came of it."""
    tasks = yaml.safe_load((ROLE / "tasks/lost_nodes.yml").read_text())
    (task,) = [entry for entry in tasks if entry["name"] == "Judge the Node of each Pod"]
    result = {
        "states": "{{ dict(myapp_judged | default([]) | map(attribute='pod') "
        "| zip(myapp_judged | default([]) | map(attribute='state'))) }}",
        "condition": "{{ myapp_lost_condition }}",
        "events": "{{ myapp_events | map(attribute='message') | list }}",
    }
    seen = {"observedGeneration": 2 if current else 1}
    return {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [str(ROLE / "vars/main.yml")],
        "vars": {
            "ansible_python_interpreter": sys.executable,
            "ansible_operator_meta": {"name": "app", "namespace": "default"},
            "_example_com_myapp": {
                "metadata": {"uid": "u", "generation": 2},
                "spec": {},
                "status": {"conditions": [before] if before else []},
            },
            "node_lost_after_seconds": 300,
            "myapp_stateful_set": {"result": {"metadata": {"uid": "new", "generation": 2}, "status": seen}},
            "myapp_pods": {"resources": list(pods)},
            "myapp_nodes": {"resources": list(nodes)},
            "myapp_released": {},
            "myapp_jobs": {},
            "myapp_cron_job_found": {},
        },
        "tasks": [
            task,
            {
                "ansible.builtin.copy": {"content": "{{ result | to_json }}", "dest": str(result_file)},
                "vars": {"result": result},
            },
        ],
    }


async def judge(
    folder: Path,
    *,
    pods: Sequence[dict[str, Any]] = (),
    nodes: Sequence[dict[str, Any]] = (),
    before: dict[str, Any] | None = None,
    current: bool = True,
) -> dict[str, Any]:
    """Return the states by Pod, the condition and the Events, as the role's task and variables have them."""
    play = play_of(folder / "result", pods=pods, nodes=nodes, before=before, current=current)
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        "localhost,",
        "-c",
        "local",
        "play.yml",
        cwd=folder,
        env={key: value for key, value in environment().items() if not key.startswith("ANSIBLE_")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    raw, _ = await process.communicate()
    assert process.returncode == 0, raw.decode()
    answer: dict[str, Any] = json.loads((folder / "result").read_text())
    return answer


async def test_only_a_silent_node_with_an_evicting_taint_counts_as_fenced(tmp_path: Path) -> None:
    """Neither a taint of another effect nor a kubelet that says it isn't ready proves an end; a missing Node does."""
    nodes = [
        node(0, effects=["NoSchedule", "NoExecute"]),
        node(1, effects=["NoSchedule"]),
        node(2, ready="False", effects=["NoExecute"]),
        node(3, ready="True", effects=["NoExecute"]),
        node(4, ready="", effects=["NoExecute"]),
    ]
    found = await judge(tmp_path, pods=[pod(number) for number in range(6)], nodes=nodes)
    assert found["states"] == {
        "app-0": "Fenced",
        "app-1": "Lost",
        "app-2": "Lost",
        "app-3": "Ready",
        "app-4": "Lost",
        "app-5": "Gone",
    }
    assert found["condition"]["reason"] == "FencingNeeded"
    assert f"app-4 on Node node-4 (not Ready since {LONG_AGO})" in found["condition"]["message"]


async def test_pods_of_an_earlier_stateful_set_of_the_name_are_judged(tmp_path: Path) -> None:
    """The owner is known by kind and name, as one that was made anew has another UID; others' Pods aren't looked at."""
    pods = [pod(0), pod(1, kind="ReplicaSet"), pod(2, owner="application")]
    found = await judge(tmp_path, pods=pods, nodes=[node(9, ready="True")])
    assert found["states"] == {"app-0": "Gone"}


async def test_each_newly_lost_pod_has_an_event(tmp_path: Path) -> None:
    """While the condition is True one more lost Node is told, and what the last message named isn't told again."""
    first = await judge(tmp_path, pods=[pod(0)], nodes=[node(0)])
    (event,) = first["events"]
    assert event.startswith(f"app-0 on Node node-0 (not Ready since {LONG_AGO}): nobody can know")
    before = first["condition"]
    both = await judge(tmp_path, pods=[pod(0), pod(1)], nodes=[node(0), node(1)], before=before)
    (event,) = both["events"]
    assert event.startswith("app-1 on Node node-1 ")
    again = await judge(tmp_path, pods=[pod(0)], nodes=[node(0)], before={**before, "reason": "NodeNotReady"})
    assert len(again["events"]) == 1


async def test_a_run_that_reads_no_pods_keeps_the_condition(tmp_path: Path) -> None:
    """Until the controller has seen an edit nothing is read, so what the last run that did said stands."""
    before = {"type": "PodsOnLostNodes", "status": "True", "reason": "FencingNeeded", "message": "app-0 on Node x"}
    found = await judge(tmp_path, before=before, current=False)
    assert (found["condition"], found["events"]) == (before, [])
    assert (await judge(tmp_path, before=before))["condition"]["reason"] == "NodesReady"
