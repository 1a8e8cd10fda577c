"""The filters of NodePool and Autoscaler: plain data in and out, and clear errors."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.aws_operator.core.plugins.filter.autoscaler import FilterModule as AutoscalerFilters
from ansible_collections.aws_operator.core.plugins.filter.node_pool import FilterModule as NodePoolFilters
from ansible_collections.aws_operator.core.plugins.module_utils.durations import backoff, seconds

from tests.unit.plugins.cluster_builders import ago, make_pod, make_pool_object
from tests.unit.plugins.pool_world import make_instance_object, not_ready

FILTERS = {**NodePoolFilters().filters(), **AutoscalerFilters().filters()}
SEEN: dict[str, Any] = {"instances": [], "nodes": [], "pods": [], "now": ago(0)}
AUTOSCALER: dict[str, Any] = {
    "metadata": {"name": "main", "generation": 1},
    "spec": {"namespaces": ["prod"], "nodePools": ["workers"]},
}


def test_plan_is_a_list_of_plain_actions() -> None:
    """A role gets each action with its kind, its name, why, and what to send."""
    plan = FILTERS["pool_plan"](make_pool_object(targetNodes=1), {**SEEN, "user_data_secret": "workers-join"})
    (action,) = plan["actions"]
    assert (action["kind"], action["name"]) == ("Create", "workers-1")
    assert action["body"]["spec"]["userDataSecretRef"] == {"name": "workers-join"}


def test_finalizing_plan_has_nothing_to_create() -> None:
    """A deleted pool wants no node."""
    assert FILTERS["pool_plan"](make_pool_object(targetNodes=1), {**SEEN, "finalizing": True})["actions"] == []


def test_status_is_a_patch_with_conditions() -> None:
    """A role gets what to write and when to look again."""
    update = FILTERS["pool_status"](make_pool_object(targetNodes=1), SEEN)
    assert update["status"]["scaleOperation"] == "active"
    assert update["look_again"] == 5
    assert {item["type"] for item in update["conditions"]} == {
        "Ready",
        "ScalingUp",
        "ScalingDown",
        "CapacityUnavailable",
        "TerminationLimited",
    }


@pytest.mark.parametrize(("reason", "look_again"), [("AuthFailure", 60), ("Pending", 60), ("", 5)])
def test_pool_that_aws_refuses_looks_less_often(reason: str, look_again: int) -> None:
    """While a person has to mend something, the pool looks once a minute."""
    conditions = not_ready(reason) if reason else []
    instance = make_instance_object(conditions=conditions, launchAttempt=1)
    update = FILTERS["pool_status"](make_pool_object(targetNodes=1), {**SEEN, "instances": [instance]})
    assert update["look_again"] == look_again


def test_refused_evictions_are_told() -> None:
    """What the evictions of this run met is in the condition."""
    blocked = [{"pod": "prod/web", "message": "the budget web allows no disruption"}]
    update = FILTERS["pool_status"](make_pool_object(targetNodes=1), SEEN, blocked=blocked)
    assert update["conditions"][0]["reason"] == "DrainBlocked"


def test_evictions_that_are_refused_for_good_are_told() -> None:
    """A refusal that a person has to mend is in the conditions and in an Event, before what a budget only delays."""
    refused = [{"pod": "prod/web", "message": "pods is forbidden"}]
    blocked = [{"pod": "prod/db", "message": "the budget db allows no disruption"}]
    instance = make_instance_object(instanceId="i-1", state="running", metadata={"deletionTimestamp": ago(1)})
    seen = {**SEEN, "instances": [instance]}
    update = FILTERS["pool_status"](make_pool_object(targetNodes=0), seen, blocked=blocked, refused=refused)
    conditions = {item["type"]: item for item in update["conditions"]}
    assert conditions["Ready"]["reason"] == "EvictionRefused"
    assert conditions["Ready"]["message"].endswith("prod/web can't be evicted: pods is forbidden")
    told = "workers-1 is terminating; prod/web can't be evicted: pods is forbidden"
    assert conditions["ScalingDown"]["message"] == told
    assert [(item["type"], item["reason"]) for item in update["events"]] == [("Warning", "EvictionRefused")]


@pytest.mark.parametrize("name", ["pool_plan", "pool_status"])
def test_pool_without_uid_is_refused(name: str) -> None:
    """Without a UID no machine is taken for the pool's own."""
    with pytest.raises(AnsibleFilterError, match=r"no metadata\.uid"):
        FILTERS[name]({"metadata": {"name": "workers"}, "spec": {}}, SEEN)


def test_wrong_duration_is_an_error_that_names_it() -> None:
    """A duration that can't be read ends the task with a sentence."""
    booting = make_instance_object(instanceId="i-1", state="running", launchTime=ago(60))
    pool = make_pool_object(targetNodes=1, registrationTimeout="soon")
    with pytest.raises(AnsibleFilterError, match="'soon' is no duration; write one such as 30s, 10m or 1h30m"):
        FILTERS["pool_plan"](pool, {**SEEN, "instances": [booting]})


def test_evaluation_is_plain() -> None:
    """A role gets the scale writes, the status and the conditions of one evaluation."""
    seen = {"nodepools": [make_pool_object(memoryGiB=96)], "pods": [make_pod()], "now": ago(0)}
    found = FILTERS["autoscaler_evaluation"](AUTOSCALER, seen)
    assert [(item["pool"], item["to"]) for item in found["targets"]] == [("workers", 1)]
    assert found["status"]["pendingPods"] == 1


def test_wrong_cooldown_is_an_error_that_names_it() -> None:
    """A duration in an Autoscaler that can't be read ends the task with a sentence."""
    odd = {**AUTOSCALER, "spec": {**AUTOSCALER["spec"], "scaleUp": {"cooldown": "5 minutes"}}}
    with pytest.raises(AnsibleFilterError, match="'5 minutes' is no duration"):
        FILTERS["autoscaler_evaluation"](odd, {"now": ago(0)})


@pytest.mark.parametrize(("text", "value"), [("30s", 30), ("10m", 600), ("1h30m", 5400), ("0s", 0), (None, 7), ("", 7)])
def test_durations(text: str | None, value: int) -> None:
    """Durations are read in seconds, and none at all is the default."""
    assert seconds(text, default=7) == value


@pytest.mark.parametrize(("failures", "pause"), [(1, 30), (2, 60), (3, 120), (9, 1800), (10_000, 1800)])
def test_backoff(failures: int, pause: int) -> None:
    """The pause doubles with each failure in a row, up to the longest."""
    assert backoff(failures, first=30, most=1800) == pause
