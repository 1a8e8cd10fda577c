"""Growth that doesn't help the pods that it was for: told, remembered, and not done again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.autoscaling import (
    AutoscalerView,
    Evaluation,
    evaluate,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_facts import Facts
from ansible_collections.aws_operator.core.plugins.module_utils.promises import (
    Promise,
    likeness_of,
    promises_of,
    renewed,
    revision_of,
)
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render

from tests.unit.plugins.cluster_builders import (
    NO_RESERVE,
    NOW,
    UNSCHEDULABLE,
    make_guest,
    make_node,
    make_pod,
    make_pool_object,
    running_pod,
)

ZONE = "topology.kubernetes.io/zone"
IN_A = {"nodeSelector": {ZONE: "eu-central-1a"}}
WHY = f"n1 doesn't satisfy its node selector {ZONE}=eu-central-1a"


@dataclass(kw_only=True)
class Scene:
    """A pool in whose subnet's zone nodes are made, without a label of it; evaluations at five minutes' distance."""

    pods: list[dict[str, Any]]
    pool: dict[str, Any] = field(default_factory=lambda: make_pool_object(memoryGiB=96, cpu=8))
    nodes: list[dict[str, Any]] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    now: datetime = NOW

    def evaluate(self, *, refused: Mapping[str, str] | None = None) -> Evaluation:
        """Evaluate, write what was decided and the status, and let five minutes pass."""
        spec = {"namespaces": ["prod"], "nodePools": ["workers"], "scaleDown": {"enabled": False}, **self.spec}
        facts = Facts(nodes=self.nodes, now=self.now, reserve=NO_RESERVE, zones={"workers": ["eu-central-1a"]})
        view = AutoscalerView(
            obj={"metadata": {"name": "main"}, "spec": spec, "status": self.status},
            pools=[self.pool],
            pods=self.pods,
            facts=facts,
            refused=refused or {},
        )
        found: Evaluation = evaluate(view)
        for target in [] if refused else found.targets:
            self.pool["spec"]["targetNodes"] = target["to"]
        changes = {**self.status, **found.status, "conditions": list(found.conditions)}
        self.status = {name: value for name, value in changes.items() if value is not None}
        self.now += timedelta(minutes=5)
        return found

    def join(self, name: str = "n1", **node: Any) -> None:
        """Let a node become Ready now, after its start."""
        found = make_node(name, **{"memory": "96Gi", **node})
        for condition in found["status"]["conditions"]:
            condition["lastTransitionTime"] = render(self.now)
        self.nodes.append(found)
        self.now += timedelta(minutes=20)

    @property
    def target(self) -> int:
        """Return the pool's target."""
        return int(self.pool["spec"]["targetNodes"])


def ready(found: Evaluation) -> tuple[str, str]:
    """Return reason and message of the condition."""
    return found.conditions[0]["reason"], found.conditions[0]["message"]


def test_pool_is_not_grown_again_for_a_pod_that_its_node_does_not_take() -> None:
    """A label that was guessed and that the node lacks costs one machine, also when that one has gone again."""
    scene = Scene(pods=[make_pod(spec=IN_A)])
    scene.evaluate()
    assert scene.target == 1
    scene.join()
    found = scene.evaluate()
    message = f"pool workers was grown for prod/web, and {WHY}; it isn't grown for such pods again until they, or the"
    assert scene.target == 1
    assert ready(found)[0] == "GrowthDidNotHelp"
    assert ready(found)[1] == f"{message} pool's spec, are changed"
    scene.nodes.clear()
    scene.pool["spec"]["targetNodes"] = 0
    again = scene.evaluate()
    assert (scene.target, ready(again)[0]) == (0, "GrowthDidNotHelp")
    assert again.status["leftOutPods"] == [
        {"pod": "prod/web", "reason": f"a pool was grown for such a pod already, and {WHY}"}
    ]
    assert again.events == []


def test_edited_pool_is_tried_anew_and_a_new_size_is_no_edit() -> None:
    """What kept the pods off may be mended by an edit of the pool; its size says nothing about that."""
    scene = Scene(pods=[make_pod(spec=IN_A)])
    scene.evaluate()
    scene.join()
    scene.evaluate()
    scene.nodes.clear()
    scene.pool["spec"] |= {"targetNodes": 0, "maxNodes": 50}
    scene.evaluate()
    assert scene.target == 0
    scene.pool["spec"]["labels"] = {"tier": "web"}
    assert (scene.evaluate().conditions[0]["reason"], scene.target) == ("Evaluated", 1)


def test_pods_that_ask_for_the_same_are_one() -> None:
    """A pod's successor doesn't raise the pool again; one that asks for something else does."""
    scene = Scene(pods=[make_pod("web-1", spec=IN_A)])
    scene.evaluate()
    scene.join()
    scene.evaluate()
    scene.nodes.clear()
    scene.pool["spec"]["targetNodes"] = 0
    scene.pods.append(make_pod("web-2", labels={"pod-template-hash": "2"}, spec=IN_A))
    scene.evaluate()
    scene.pods.pop(0)
    scene.evaluate()
    assert (scene.target, len(scene.status["grownFor"])) == (0, 1)
    scene.pods.append(make_pod("other"))
    scene.evaluate()
    assert scene.target == 1


def test_node_that_others_filled_is_no_proof() -> None:
    """Where the node that came would do but for the pods on it, the next one is added for those that still wait."""
    pods = [make_pod(f"p{index}", memory="60Gi") for index in (1, 2)]
    scene = Scene(pods=pods[:1])
    scene.evaluate()
    scene.join()
    scene.pods.append(running_pod("vip", node="n1", memory="60Gi"))
    found = scene.evaluate()
    assert (scene.target, ready(found)[0]) == (2, "Evaluated")


def test_node_that_is_smaller_than_thought_is_proof() -> None:
    """A machine that offers less than was reckoned, to a pod that needs it, isn't asked for twice."""
    scene = Scene(pods=[make_pod(memory="90Gi")])
    scene.evaluate()
    scene.join(memory="88Gi")
    found = scene.evaluate()
    why = "n1 is too small for it: it asks for 90Gi memory, a node has 88Gi memory"
    assert (scene.target, why in ready(found)[1]) == (1, True)


def test_node_that_came_earlier_or_takes_nobody_is_no_proof() -> None:
    """Only nodes that became Ready since, and are open, tell whether the growth helped."""
    scene = Scene(pods=[make_pod(memory="90Gi")])
    scene.join("old", memory="8Gi")
    scene.pool["spec"]["targetNodes"] = 1
    scene.evaluate()
    scene.nodes.append(make_node("closed", memory="8Gi", since=-9999, unschedulable=True))
    scene.evaluate()
    assert [entry.get("unfit") for entry in scene.status["grownFor"]] == [None]


def test_proof_that_is_mended_is_forgotten() -> None:
    """Once a node that came takes such a pod, the pool may grow for it again, and the condition is over."""
    scene = Scene(pods=[make_pod(spec=IN_A)])
    scene.evaluate()
    scene.join()
    assert ready(scene.evaluate())[0] == "GrowthDidNotHelp"
    scene.nodes[0]["metadata"]["labels"][ZONE] = "eu-central-1a"
    assert ready(scene.evaluate())[0] == "Evaluated"


def test_what_waits_no_longer_is_forgotten() -> None:
    """The status keeps nothing of pods that found their place."""
    scene = Scene(pods=[make_pod()])
    scene.evaluate()
    assert [entry["pod"] for entry in scene.status["grownFor"]] == ["prod/web"]
    scene.pods.clear()
    scene.evaluate()
    assert "grownFor" not in scene.status


def test_broken_promise_is_remembered_for_a_day_without_its_pod() -> None:
    """A CronJob whose pod never fits buys one machine, not one at each run, and nobody is told while none waits."""
    scene = Scene(pods=[make_pod("job-1", spec=IN_A)])
    scene.evaluate()
    scene.join()
    assert ready(scene.evaluate())[0] == "GrowthDidNotHelp"
    scene.nodes.clear()
    scene.pool["spec"]["targetNodes"] = 0
    scene.pods.clear()
    assert ready(scene.evaluate())[0] == "Evaluated"
    scene.pods.append(make_pod("job-2", spec=IN_A))
    assert (ready(scene.evaluate())[0], scene.target) == ("GrowthDidNotHelp", 0)
    scene.pods.clear()
    scene.now = NOW + timedelta(hours=23)
    scene.evaluate()
    assert len(scene.status["grownFor"]) == 1
    scene.now = NOW + timedelta(hours=24)
    scene.evaluate()
    assert "grownFor" not in scene.status


def test_why_growth_did_not_help_is_cut() -> None:
    """A selector of many thousand characters doesn't fill the status."""
    scene = Scene(pods=[make_pod(spec={"nodeSelector": {**IN_A["nodeSelector"], "rack": "r" * 5000}})])
    scene.pool["spec"]["labels"] = {"rack": "r" * 5000}
    scene.evaluate()
    scene.join()
    scene.evaluate()
    (entry,) = scene.status["grownFor"]
    assert (len(entry["unfit"]), entry["unfit"][-7:]) == (407, "… (cut)")


@pytest.mark.parametrize(
    ("spec", "refused", "pods"),
    [({"dryRun": True}, None, None), ({}, {"workers": "a conflict"}, None), ({}, None, ["prod/web"])],
)
def test_only_what_was_done_is_remembered(
    spec: dict[str, Any], refused: dict[str, str] | None, pods: Sequence[str] | None
) -> None:
    """A growth that was only told, or that the API server didn't take, is no promise."""
    scene = Scene(pods=[make_pod()], spec=spec)
    scene.evaluate(refused=refused)
    found = scene.status.get("grownFor")
    assert (found and [entry["pod"] for entry in found]) == pods


def test_node_that_somebody_else_asked_for_is_a_promise_too() -> None:
    """What was written by a run that ended before its status is found again: a node is coming for the pods."""
    scene = Scene(pods=[make_pod()])
    scene.pool["spec"]["targetNodes"] = 1
    scene.evaluate()
    first = scene.status["grownFor"]
    scene.evaluate()
    assert scene.status["grownFor"] == first
    assert first[0]["since"] == render(NOW)


def test_promises_are_bounded() -> None:
    """The newest two hundred are kept, and the broken ones before those, each once per pool and pods."""
    old = [
        Promise(pool="p", likeness=str(index), pod="a/b", since=render(NOW + timedelta(seconds=index)), revision="r")
        for index in range(300)
    ]
    broken = Promise(pool="p", likeness="x", pod="a/b", since=render(NOW - timedelta(days=1)), revision="r", unfit="no")
    kept = renewed([broken, *old], [old[299], Promise(**{**vars(broken), "unfit": "", "since": render(NOW)})])
    assert (len(kept), kept[0], kept[-1]) == (200, broken, old[299])
    assert promises_of({"grownFor": [item.entry() for item in kept]}) == kept


def test_digests_say_what_they_should() -> None:
    """What decides where a pod can be makes another likeness, its name doesn't; a pool's size makes no new revision."""
    plain = likeness_of(make_guest("a"))
    assert likeness_of(make_guest("b", labels={}, status={"conditions": [UNSCHEDULABLE]})) == plain
    token = {"volumes": [{"name": "kube-api-access-x", "projected": {}}]}
    assert likeness_of(make_guest(spec=token)) == plain
    claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]}
    for other in ({"memory": "2Gi"}, {"namespace": "dev"}, {"spec": IN_A}, {"spec": claim}):
        assert likeness_of(make_guest(**other)) != plain
    assert revision_of({"targetNodes": 1, "imageId": "a"}) == revision_of({"maxNodes": 3, "imageId": "a"})
    assert revision_of({"imageId": "b"}) != revision_of({"imageId": "a"})
