"""What a node of an instance type offers: EC2's own figures, less what kernel and kubelet keep.

`kubelet` registers nodes with it. The figures are those that the EC2 emulator answers DescribeInstanceTypes with, read
from moto's file: importing moto would cost a hundred MiB, and a call would stand in the emulator's call log.
"""

from __future__ import annotations

import functools
import gzip
import importlib.util
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE = Path("ec2/resources/instance_types.json.gz")
_KERNEL_SHARE = 0.05
"""Of the memory: an m5.large has 8192 MiB, and its kubelet finds about 7700."""
_EVICTION_MIB = 100
"""The kubelet's default threshold of hard eviction, which is never allocated."""
_PODS = 110
_DISK = "20Gi"
_DISK_ALLOCATABLE = "18Gi"
_reading = threading.Lock()
"""A hundred machines that boot at once read the file once: it takes 30 MiB for a moment."""
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class _Type:
    """What EC2 says about an instance type; without words: one that nobody knows."""

    cores: int = 2
    memory: int = 8192
    """In MiB."""
    addresses: int = _PODS
    """EKS's limit of pods: an address for each; the first one of each interface is the node's own."""
    architecture: str = "amd64"


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What one node has and gives."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    architecture: str


def capacity_of(instance_type: str, *, max_pods: int = 0, by_interfaces: bool = False) -> Capacity:
    """Return what a node of *instance_type* offers; of an unknown type: two cores and 8 GiB.

    Args:
        instance_type: EC2's name, such as `m5.large`.
        max_pods: the kubelet's own limit; 0: the default.
        by_interfaces: as on EKS, where the default is what the network interfaces have addresses for, and kubelets
            keep some of their node for themselves.
    """
    with _reading:
        kind = _types().get(instance_type, _Type())
    cores, memory = kind.cores, kind.memory
    pods = max_pods or (kind.addresses if by_interfaces else _PODS)
    seen = int(memory * (1 - _KERNEL_SHARE))
    kept_cpu, kept_memory = (_eks_cpu(cores), 255 + 11 * pods) if by_interfaces else (0, 0)
    return Capacity(
        capacity=_resources(millicores=cores * 1000, mebibytes=seen, disk=_DISK, pods=pods),
        allocatable=_resources(
            millicores=cores * 1000 - kept_cpu,
            mebibytes=max(0, seen - kept_memory - _EVICTION_MIB),
            disk=_DISK_ALLOCATABLE,
            pods=pods,
        ),
        architecture=kind.architecture,
    )


def _resources(*, millicores: int, mebibytes: int, disk: str, pods: int) -> dict[str, str]:
    cpu = str(millicores // 1000) if millicores % 1000 == 0 else f"{millicores}m"
    return {"cpu": cpu, "memory": f"{mebibytes}Mi", "ephemeral-storage": disk, "pods": str(pods)}


def _eks_cpu(cores: int) -> int:
    """Return the millicores that EKS's kubelets keep: 6 % of the first core, 1 %, 0.5 % and 0.5 %, 0.25 % of others."""
    kept = 60.0
    kept += 10 * min(max(cores - 1, 0), 1)
    kept += 5 * min(max(cores - 2, 0), 2)
    kept += 2.5 * max(cores - 4, 0)
    return int(kept)


@functools.cache
def _types() -> Mapping[str, _Type]:
    found = importlib.util.find_spec("moto")
    for folder in (found and found.submodule_search_locations) or ():
        path = Path(folder) / _FILE
        if path.exists():
            types: Mapping[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
            return {name: _read(facts) for name, facts in types.items()}
    return {}


def _read(facts: Mapping[str, Any]) -> _Type:
    network = facts["NetworkInfo"]
    interfaces, addresses = int(network["MaximumNetworkInterfaces"]), int(network["Ipv4AddressesPerInterface"])
    supported = facts["ProcessorInfo"]["SupportedArchitectures"]
    return _Type(
        cores=int(facts["VCpuInfo"]["DefaultVCpus"]),
        memory=int(facts["MemoryInfo"]["SizeInMiB"]),
        addresses=interfaces * (addresses - 1) + 2,
        architecture=next((_ARCHITECTURES[name] for name in supported if name in _ARCHITECTURES), "amd64"),
    )
