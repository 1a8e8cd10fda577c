"""What AWS says about instance types and subnets, asked once."""

from __future__ import annotations

from typing import Any

from ansible_collections.aws_operator.core.plugins.filter.autoscaler import FilterModule
from ansible_collections.aws_operator.core.plugins.module_utils.catalogue import catalogue_of, questions

from tests.unit.plugins.cluster_builders import ago, make_pod, make_pool_object

FILTERS = FilterModule().filters()
LARGE = {"instance_type": "m5.large", "cpu": 2, "memory_mib": 8192, "architectures": ["x86_64"]}
AUTOSCALER: dict[str, Any] = {
    "metadata": {"name": "main", "generation": 1},
    "spec": {"namespaces": ["prod"], "nodePools": ["workers"]},
}


def answer(**parts: Any) -> dict[str, Any]:
    """Return AWS's answer for the pool `workers`."""
    return {"pool": "workers", "instance_types": [], "subnets": [], **parts}


def evaluated(*answers: dict[str, Any], pod: dict[str, Any] | None = None, **spec: Any) -> Any:
    """Return the evaluation of one pending pod for a pool with this spec, after AWS's answers."""
    seen = {"nodepools": [make_pool_object(**spec)], "pods": [pod or make_pod()], "now": ago(0), "answers": answers}
    return FILTERS["autoscaler_evaluation"](AUTOSCALER, seen)


def asked(status: dict[str, Any], **spec: Any) -> list[tuple[list[str], list[str]]]:
    """Return the types and subnets that have to be asked for."""
    found = questions([make_pool_object(**spec)], catalogue_of(status))
    return [(list(item.types), list(item.subnets)) for item in found]


def test_only_what_is_missing_and_unknown_is_asked() -> None:
    """A pool that says cores and memory needs no types, and what the status has is never asked again."""
    assert asked({}) == [(["m5.large"], [])]
    assert asked({}, memoryGiB=96) == [(["m5.large"], [])]
    assert asked({}, memoryGiB=96, cpu=8) == []
    assert asked({}, memoryGiB=96, cpu=8, subnetIds=["subnet-1"]) == [([], ["subnet-1"])]
    kept = evaluated(answer(instance_types=[LARGE], subnets=[{"subnet_id": "subnet-1", "availability_zone": "z-1a"}]),
                     subnetIds=["subnet-1"])["status"]  # fmt: skip
    assert kept["catalogue"] == {
        "instanceTypes": [{"name": "m5.large", "cpu": 2, "memoryMiB": 8192, "architecture": "amd64"}],
        "subnets": [{"id": "subnet-1", "zone": "z-1a"}],
    }
    assert asked(kept, subnetIds=["subnet-1"]) == []
    assert asked(kept, instanceTypes=["c5.large"]) == [(["c5.large"], [])]


def test_what_no_pool_names_is_forgotten() -> None:
    """The catalogue keeps nothing of a type that went out of the pools' specs."""
    assert (
        evaluated(answer(instance_types=[LARGE]), instanceType="c5.large", memoryGiB=8)["status"]["catalogue"] is None
    )


def test_size_of_the_type_decides() -> None:
    """A pod that a machine of the type can't hold raises nothing, a smaller one does."""
    big = evaluated(answer(instance_types=[LARGE]), pod=make_pod(memory="8Gi"))
    assert big["targets"] == []
    assert big["status"]["leftOutPods"][0]["reason"].startswith(
        "no pool has nodes that are big enough: it asks for 8Gi"
    )
    small = evaluated(answer(instance_types=[LARGE]), pod=make_pod(memory="7Gi"))
    assert [item["to"] for item in small["targets"]] == [1]


def test_architecture_of_the_type_is_a_label() -> None:
    """A pod that asks for amd64 raises a pool of such machines; of a type with two architectures none is certain."""
    pod = make_pod(spec={"nodeSelector": {"kubernetes.io/arch": "amd64"}})
    assert evaluated(answer(instance_types=[LARGE]), pod=pod)["targets"]
    both = {**LARGE, "architectures": ["i386", "x86_64", "arm64"]}
    assert evaluated(answer(instance_types=[both]), pod=pod)["targets"] == []


def test_zone_of_the_subnet_is_a_label() -> None:
    """A pod that asks for a zone raises a pool whose only subnet is there."""
    pod = make_pod(spec={"nodeSelector": {"topology.kubernetes.io/zone": "z-1a"}})
    subnet = {"subnet_id": "subnet-1", "availability_zone": "z-1a"}
    spec = {"subnetIds": ["subnet-1"], "memoryGiB": 8, "cpu": 2}
    assert evaluated(answer(subnets=[subnet]), pod=pod, **spec)["targets"]
    assert evaluated(answer(), pod=pod, **spec)["targets"] == []


def test_unknown_type_is_told_and_raises_nothing() -> None:
    """Where AWS knows no such type nobody knows what a node offers, unless the pool says it."""
    found = evaluated(answer())
    assert (found["targets"], found["conditions"][0]["reason"]) == ([], "CapacityUnknown")
    assert "AWS knows no instance type m5.large in its region" in found["status"]["leftOutPods"][0]["reason"]
    assert evaluated(answer(), memoryGiB=8, cpu=2)["targets"]


def test_refusal_of_aws_is_a_condition() -> None:
    """A look-up that failed is told with AWS's code, also where the pool needs no answer to grow."""
    failure = FILTERS["autoscaler_failure"]({"error_code": "AuthFailure", "message": "no", "request_id": "r-1"})
    found = evaluated(answer(failure=failure), memoryGiB=8, cpu=2)
    assert (found["conditions"][0]["status"], found["conditions"][0]["reason"]) == ("False", "AuthFailure")
    assert found["conditions"][0]["message"] == (
        "pool workers: AWS answered AuthFailure: no (request id r-1); "
        "check the secret of spec.credentialsSecretRef, or the operator's own credentials where none is named"
    )
    assert len(found["targets"]) == 1


def test_pod_of_list_and_index_counts_once() -> None:
    """The list was read later than the index, so its word counts about a pod that is in both."""
    pod = make_pod()
    bound = {**pod, "spec": {**pod["spec"], "nodeName": "n1"}}
    seen = FILTERS["autoscaler_listed"]([{"item": {"kind": "Pod"}, "resources": [bound]}], [pod, make_pod("other")])
    assert [(item["metadata"]["name"], "nodeName" in item["spec"]) for item in seen["pods"]] == [
        ("web", True),
        ("other", False),
    ]


def test_conflict_asks_for_another_round_and_a_refusal_fails() -> None:
    """After the writes a role knows whether to read again, and what it has to fail with."""
    seen = {"nodepools": [make_pool_object(memoryGiB=96, cpu=8)], "pods": [make_pod()], "now": ago(0)}

    def after(reason: str) -> tuple[bool, str]:
        refusal = {"reason": reason, "message": "m"} if reason else {}
        update = FILTERS["autoscaler_update"](
            AUTOSCALER, seen, writes=[{"item": {"pool": "workers"}, "refusal": refusal}]
        )
        return update["again"], update["failure"]

    assert [after(reason) for reason in ("", "Conflict", "NotFound", "Forbidden")] == [
        (False, ""),
        (True, ""),
        (True, ""),
        (False, "workers: m"),
    ]
