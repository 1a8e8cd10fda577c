"""What nodes of instance types offer."""

from __future__ import annotations

import sys

from runner.localdev.machines.capacity import capacity_of


def test_a_node_has_its_types_cores_and_memory_less_what_kernel_and_kubelet_keep() -> None:
    """Of an m5.large's 8 GiB the kernel keeps a twentieth, and the eviction threshold is never allocated."""
    found = capacity_of("m5.large")
    assert (found.capacity["cpu"], found.capacity["memory"], found.capacity["pods"]) == ("2", "7782Mi", "110")
    assert (found.allocatable["cpu"], found.allocatable["memory"]) == ("2", "7682Mi")
    assert found.architecture == "amd64"


def test_a_graviton_is_arm64() -> None:
    """The architecture is that of the type's processor."""
    assert capacity_of("m6g.large").architecture == "arm64"


def test_an_unknown_type_is_a_small_one() -> None:
    """A type that EC2 doesn't have counts as two cores and 8 GiB."""
    assert capacity_of("z9.huge").capacity == capacity_of("m5.large").capacity


def test_on_eks_interfaces_limit_the_pods_and_the_kubelet_keeps_more() -> None:
    """An m5.large of EKS has room for 29 pods and reserves memory for them."""
    found = capacity_of("m5.large", by_interfaces=True)
    assert found.capacity["pods"] == "29"
    assert found.allocatable["cpu"] == "1930m"
    assert found.allocatable["memory"] == "7108Mi"


def test_the_kubelets_own_limit_of_pods_counts() -> None:
    """--max-pods wins over both defaults."""
    assert capacity_of("m5.large", max_pods=7).allocatable["pods"] == "7"
    assert capacity_of("m5.large", max_pods=7, by_interfaces=True).allocatable["pods"] == "7"


def test_reading_the_types_does_not_import_moto() -> None:
    """The simulator stays small: the emulator's library is not loaded for a table."""
    before = "moto" in sys.modules
    capacity_of("c6i.12xlarge")
    assert ("moto" in sys.modules) is before
