"""What AWS says about instance types and subnets: asked for once, then kept in the Autoscaler's status. Pure.

A type's cores and memory and a subnet's zone never change, so a quiet Autoscaler calls AWS not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.pools import instance_types

_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class Question:
    """What has to be asked for one pool, with its region and credentials."""

    pool: Mapping[str, Any]
    types: Sequence[str]
    subnets: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What AWS didn't tell about a pool."""

    pool: str
    reason: str
    """One word for a condition: AWS's code, as a rule."""
    message: str


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """What is known."""

    types: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name: `cpu`, `memoryMiB`, `architecture`."""
    subnets: Mapping[str, str] = field(default_factory=dict)
    """Availability zones by subnet."""
    troubles: Sequence[Trouble] = ()
    asked: frozenset[str] = frozenset()
    """The pools for which AWS was asked just now."""

    def capacities(self) -> dict[str, dict[str, str]]:
        """Return cores and memory by instance type, as quantities."""
        return {
            name: {"cpu": str(entry["cpu"]), "memory": f"{entry['memoryMiB']}Mi"} for name, entry in self.types.items()
        }

    def architectures(self) -> dict[str, str]:
        """Return the value of `kubernetes.io/arch` by instance type."""
        return {name: str(entry["architecture"]) for name, entry in self.types.items() if entry.get("architecture")}

    def zones(self, pools: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
        """Return the zones by pool name, for pools whose subnets are all known."""
        found = {}
        for pool in pools:
            subnets = (pool.get("spec") or {}).get("subnetIds") or []
            if subnets and all(item in self.subnets for item in subnets):
                found[str(pool["metadata"]["name"])] = sorted({self.subnets[item] for item in subnets})
        return found

    def unclear(self, pools: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Return by pool why nobody knows what its machines offer."""
        told = {trouble.pool: trouble.message for trouble in self.troubles}
        return {
            str(pool["metadata"]["name"]): told.get(str(pool["metadata"]["name"]), "")
            or f"AWS knows no instance type {' or '.join(instance_types(pool.get('spec') or {}))} in its region"
            for pool in pools
            if pool["metadata"]["name"] in self.asked
            and asks_for_capacity(pool)
            and not any(name in self.types for name in instance_types(pool["spec"]))
        }

    def entry(self, pools: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """Return it as the status has it, without what no pool of *pools* names any more."""
        named = {name for pool in pools for name in instance_types(pool.get("spec") or {})}
        used = {name for pool in pools for name in (pool.get("spec") or {}).get("subnetIds") or []}
        types = [{"name": name, **entry} for name, entry in sorted(self.types.items()) if name in named]
        subnets = [{"id": name, "zone": zone} for name, zone in sorted(self.subnets.items()) if name in used]
        return {"instanceTypes": types, "subnets": subnets} if types or subnets else None


def asks_for_capacity(pool: Mapping[str, Any]) -> bool:
    """Return whether the pool leaves out what its nodes offer."""
    spec = pool.get("spec") or {}
    return not (spec.get("memoryGiB") and spec.get("cpu"))


def catalogue_of(status: Mapping[str, Any], answers: Iterable[Mapping[str, Any]] = ()) -> Catalogue:
    """Return what the status kept and AWS's *answers* say.

    An answer has `pool`, and `instance_types` and `subnets` as the module gives them, or `failure`.
    """
    kept = status.get("catalogue") or {}
    types = {str(item["name"]): _without_name(item) for item in kept.get("instanceTypes") or []}
    subnets = {str(item["id"]): str(item["zone"]) for item in kept.get("subnets") or []}
    troubles, asked = [], set()
    for answer in answers:
        asked.add(str(answer["pool"]))
        if answer.get("failure"):
            pool, failure = str(answer["pool"]), answer["failure"]
            troubles.append(Trouble(pool=pool, reason=str(failure["reason"]), message=str(failure["message"])))
        types |= {str(item["instance_type"]): _type(item) for item in answer.get("instance_types") or []}
        subnets |= {str(item["subnet_id"]): str(item["availability_zone"]) for item in answer.get("subnets") or []}
    return Catalogue(types=types, subnets=subnets, troubles=troubles, asked=frozenset(asked))


def questions(pools: Iterable[Mapping[str, Any]], known: Catalogue) -> list[Question]:
    """Return what has to be asked of AWS, pool by pool, as each has its own region and credentials."""
    found = []
    for pool in pools:
        spec = pool.get("spec") or {}
        wanted = instance_types(spec) if asks_for_capacity(pool) else []
        types = [name for name in wanted if name not in known.types]
        subnets = [name for name in spec.get("subnetIds") or [] if name not in known.subnets]
        if types or subnets:
            found.append(Question(pool=pool, types=types, subnets=subnets))
    return found


def _without_name(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "name"}


def _type(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an instance type as the status has it; of several architectures none is certain."""
    known = [_ARCHITECTURES[name] for name in item.get("architectures") or [] if name in _ARCHITECTURES]
    entry = {"cpu": int(item["cpu"]), "memoryMiB": int(item["memory_mib"])}
    return {**entry, "architecture": known[0]} if len(known) == 1 else entry
