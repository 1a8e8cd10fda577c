"""What Autoscalers need beside their role: an index of the pods that wait, and what is said while one is written.

A run gets `ansible_operator_handlers.pending_pods`. Two Autoscalers that claim one pool are refused, as no later object
could heal that; what is missing yet is a warning only. Without webhooks (docs/handlers.md) the role itself keeps to the
older Autoscaler, and its condition says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import kopf

from runner.handlers import published

# With their version: without one kopf takes the group's preferred one only, which may be one that other kinds have.
AUTOSCALERS = ("aws.ansible-operator.io", "v1alpha1", "autoscalers")
NODE_POOLS = ("aws.ansible-operator.io", "v1alpha1", "nodepools")
_KEPT_OF_SPECS = (
    "affinity",
    "nodeName",
    "nodeSelector",
    "overhead",
    "priority",
    "resources",
    "schedulingGates",
    "tolerations",
    "topologySpreadConstraints",
)
_KEPT_OF_META = ("name", "namespace", "uid", "labels", "ownerReferences", "deletionTimestamp")
_KEPT_OF_CONTAINERS = ("name", "ports", "resources", "restartPolicy")
_KEPT_OF_VOLUMES = ("name", "persistentVolumeClaim", "ephemeral", "emptyDir", "hostPath")
_KEPT_OF_STATUS = ("phase", "nominatedNodeName")


def is_pending(status: Mapping[str, Any], **_: object) -> bool:
    """Return whether a pod waits, for room or for something else."""
    return status.get("phase") == "Pending"


@kopf.index("pods", when=is_pending)
async def autoscaler_pods(*, body: Mapping[str, Any], namespace: str | None, **_: object) -> dict[str | None, Any]:
    """Index pending pods by their namespace, each with what decides where it can be."""
    return {namespace: slim(body)}


@kopf.index(*AUTOSCALERS)
async def autoscaler_claims(
    *, name: str, namespace: str | None, body: Mapping[str, Any], **_: object
) -> dict[str | None, Any]:
    """Index what Autoscalers claim by their namespace."""
    spec = body.get("spec") or {}
    return {namespace: {"name": name, "spec": spec, "leaves": bool(body["metadata"].get("deletionTimestamp"))}}


@kopf.index(*NODE_POOLS)
async def autoscaler_pools(
    *, name: str, namespace: str | None, body: Mapping[str, Any], **_: object
) -> dict[str | None, Any]:
    """Index pools with their labels by their namespace."""
    return {namespace: {"name": name, "labels": body["metadata"].get("labels") or {}}}


@published
def pending_pods(*, autoscaler_pods: Mapping[str, Iterable[Any]], spec: Mapping[str, Any], **_: object) -> list[Any]:
    """Return the pending pods of the Autoscaler's namespaces."""
    return [pod for namespace in spec.get("namespaces") or [] for pod in autoscaler_pods.get(namespace, [])]


@kopf.on.validate(  # type: ignore[arg-type]  # indexes come by their names, which kopf's types cannot say
    *AUTOSCALERS, operations=["CREATE", "UPDATE"], ignore_failures=True
)
async def check_claims(
    *,
    name: str | None,
    namespace: str | None,
    body: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    autoscaler_claims: Mapping[str | None, Iterable[Any]],
    autoscaler_pools: Mapping[str | None, Iterable[Any]],
    warnings: list[str],
    **_: object,
) -> None:
    """Refuse an Autoscaler for pools that another one has; warn where a pool that it names isn't there."""
    spec = body.get("spec") or {}
    if (old or {}).get("spec") == spec or body["metadata"].get("deletionTimestamp"):
        return  # an edit of something else must go through, whatever has become of the pools
    pools = list(autoscaler_pools.get(namespace, []))
    others = [other for other in autoscaler_claims.get(namespace, []) if other["name"] != name and not other["leaves"]]
    taken = [] if spec.get("dryRun") else sorted(_taken(spec, others, pools=pools))
    if taken:
        told = ", ".join(f"{pool} (by {other})" for pool, other in taken)
        raise kopf.AdmissionError(
            f"claimed by another Autoscaler already: {told}; name other pools, set dryRun, or delete one of the two",
            code=422,
        )
    there = {pool["name"] for pool in pools}
    missing = [pool for pool in spec.get("nodePools") or [] if pool not in there]
    if missing:
        warnings.append(f"there is no NodePool {', '.join(missing)} in namespace {namespace} (yet)")
    if "nodePoolSelector" in spec and not any(claims(spec, pool) for pool in pools):
        warnings.append(f"spec.nodePoolSelector selects no NodePool of namespace {namespace} (yet)")


def slim(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a pod what the decision needs: no environment, whose values aren't for files of a run."""
    meta, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    annotations = meta.get("annotations") or {}
    wishes = {key: text for key, text in annotations.items() if key.startswith("cluster-autoscaler.kubernetes.io/")}
    return {
        "metadata": {**_some(meta, _KEPT_OF_META), "annotations": wishes},
        "spec": {
            **_some(spec, _KEPT_OF_SPECS),
            "containers": [_some(item, _KEPT_OF_CONTAINERS) for item in spec.get("containers") or []],
            "initContainers": [_some(item, _KEPT_OF_CONTAINERS) for item in spec.get("initContainers") or []],
            "volumes": [_some(item, _KEPT_OF_VOLUMES) for item in spec.get("volumes") or []],
        },
        "status": {
            **_some(status, _KEPT_OF_STATUS),
            "conditions": [_some(item, ("type", "status", "reason")) for item in status.get("conditions") or []],
        },
    }


def _some(mapping: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: mapping[name] for name in names if name in mapping}


def _taken(
    spec: Mapping[str, Any], others: Iterable[Mapping[str, Any]], *, pools: Sequence[Mapping[str, Any]]
) -> set[tuple[str, str]]:
    """Return the claimed pools that another Autoscaler claims, with its name; also those that aren't there yet."""
    claimed = {pool["name"] for pool in pools if claims(spec, pool)}
    found = set()
    for other in others:
        if not other["spec"].get("dryRun"):
            theirs = {pool["name"] for pool in pools if claims(other["spec"], pool)}
            named = set(spec.get("nodePools") or []) & set(other["spec"].get("nodePools") or [])
            found |= {(pool, other["name"]) for pool in claimed & theirs | named}
    return found


def claims(spec: Mapping[str, Any], pool: Mapping[str, Any]) -> bool:
    """Return whether a spec names or selects the pool, as the role's `autoscaler_view` has it.

    That one runs with Ansible and isn't there in the operator's own environment; a test holds the two together.
    """
    if pool["name"] in (spec.get("nodePools") or []):
        return True
    selector, labels = spec.get("nodePoolSelector"), pool["labels"]
    if selector is None:
        return False
    exact = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return exact and all(_meets(item, labels) for item in selector.get("matchExpressions") or [])


def _meets(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
    return value is None  # DoesNotExist: the schema knows no other
