"""What a pod asks of its node, as kube-scheduler counts it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.pod_requests import requests_of
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import QuantityError

from tests.unit.plugins.cluster_builders import container

ONE, TWO, FOUR = container(cpu="1"), container(cpu="2"), container(cpu="4")
SIDECAR = {**ONE, "restartPolicy": "Always"}


def cpu_of(**spec: Any) -> int:
    """Return the thousandths of a core that a pod asks for."""
    return int(requests_of({"spec": spec}).get("cpu", 0))


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [ONE, TWO]}, 3000),
        ({"containers": [ONE], "initContainers": [FOUR]}, 4000),
        ({"containers": [ONE, TWO], "initContainers": [TWO, ONE]}, 3000),
        ({"containers": [ONE], "initContainers": [SIDECAR]}, 2000),
        ({"containers": [ONE], "initContainers": [SIDECAR, FOUR]}, 5000),
        ({"containers": [ONE], "initContainers": [FOUR, SIDECAR]}, 4000),
        ({"containers": [ONE], "initContainers": [SIDECAR, TWO, SIDECAR]}, 3000),
        ({"containers": [ONE], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [ONE], "initContainers": [FOUR], "overhead": {"cpu": "250m"}}, 4250),
        ({"containers": [ONE, ONE], "resources": {"requests": {"cpu": "5"}}}, 5000),
        ({"containers": [FOUR], "resources": {"requests": {"cpu": "5"}}, "overhead": {"cpu": "1"}}, 6000),
        ({"containers": [ONE], "resources": {"limits": {"cpu": "5"}}}, 1000),
        ({"containers": [{}], "resources": {"limits": {"cpu": "5"}}}, 5000),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]}, 1000),
        ({"containers": [{}]}, 0),
        ({}, 0),
    ],
)
def test_requests_are_counted_as_the_scheduler_counts(spec: dict[str, Any], cpu: int) -> None:
    """Containers add up, of init containers the greatest counts, sidecars stay, and the pod's own request wins."""
    assert cpu_of(**spec) == cpu


def test_every_pod_is_one_pod() -> None:
    """A pod without any request takes one of the node's places for pods, and nothing else."""
    assert requests_of({"spec": {"containers": [{}]}}) == {"pods": 1}


def test_devices_and_storage_count_too() -> None:
    """Extended resources and local storage are asked for like cores, and nothing is asked for with a zero."""
    requests = {"nvidia.com/gpu": "2", "ephemeral-storage": "1Gi", "example.com/none": "0"}
    asked = requests_of({"spec": {"containers": [{"resources": {"requests": requests}}]}})
    assert asked == {"nvidia.com/gpu": 2, "ephemeral-storage": 2**30, "pods": 1}


def test_devices_are_no_resource_of_the_pod_as_a_whole() -> None:
    """Only cores, memory and huge pages can be asked for by the pod as a whole."""
    assert requests_of({"spec": {"resources": {"requests": {"nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi"}}}}) == {
        "hugepages-2Mi": 4 * 2**20,
        "pods": 1,
    }


def test_fractions_are_added_before_they_are_rounded() -> None:
    """Two containers of half a thousandth ask for one thousandth, not for two."""
    half = container(cpu="500u")
    assert cpu_of(containers=[half, half]) == 1


@pytest.mark.parametrize(("held", "cpu"), [("3", 3000), ("500m", 1000)])
def test_container_that_is_resized_holds_the_greater_request(held: str, cpu: int) -> None:
    """While a container shrinks or grows in place, what it still has counts where that is more."""
    status = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": held}}]}
    assert requests_of({"spec": {"containers": [ONE]}, "status": status})["cpu"] == cpu


def test_malformed_request_is_an_error() -> None:
    """A request that is no quantity is named."""
    with pytest.raises(QuantityError, match="'much'"):
        cpu_of(containers=[container(cpu="much")])
