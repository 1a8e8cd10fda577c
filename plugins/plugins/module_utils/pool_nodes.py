"""What a NodePool and its Nodes know of each other: labels, provider ids, and the mark of a node that has to go. Pure.

The mark and the cordon are written by one patch, so a removal that began is read from the cluster after any restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.places import Node

POOL_LABEL = "aws.ansible-operator.io/nodepool"
POOL_UID_LABEL = "aws.ansible-operator.io/nodepool-uid"
REMOVING = "aws.ansible-operator.io/removing-since"
EVICTING = "aws.ansible-operator.io/evicting-since"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
# By these two the runtime knows whose run a change of the Node starts.
PRIMARY_RESOURCE = "operator-sdk/primary-resource"
PRIMARY_RESOURCE_TYPE = "operator-sdk/primary-resource-type"
_LONGEST_LABEL = 63


def labels_for_nodes(pool: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that every node of the pool has to carry."""
    meta, spec = pool["metadata"], pool.get("spec") or {}
    ours = {POOL_LABEL: str(meta["name"])[:_LONGEST_LABEL], POOL_UID_LABEL: str(meta["uid"])}
    return {**{key: str(value) for key, value in (spec.get("labels") or {}).items()}, **ours}


def annotations_for_nodes(pool: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations that every node of the pool has to carry; the first one tells that the pool saw it."""
    meta = pool["metadata"]
    group = str(pool.get("apiVersion") or "").rpartition("/")[0]
    return {
        PRIMARY_RESOURCE: f"{meta.get('namespace', '')}/{meta['name']}",
        PRIMARY_RESOURCE_TYPE: f"{pool.get('kind', 'NodePool')}.{group}",
    }


def belongs_to(node: Node, pool: Mapping[str, Any]) -> bool:
    """Return whether the node says that it's one of the pool's."""
    return bool((node["metadata"].get("labels") or {}).get(POOL_UID_LABEL) == pool["metadata"].get("uid"))


def instance_id_of(node: Node) -> str:
    """Return the EC2 instance that the node runs on (`aws:///eu-central-1a/i-...`), empty where it doesn't say."""
    provider_id = str((node.get("spec") or {}).get("providerID") or "")
    last = provider_id.rpartition("/")[2]
    return last if provider_id.startswith("aws://") and last.startswith("i-") else ""


def removing_since(node: Node) -> str:
    """Return since when the pool takes the node away, empty where it doesn't."""
    return str((node["metadata"].get("annotations") or {}).get(REMOVING) or "")


def evicting_since(node: Node) -> str:
    """Return when this drain asked first for the pods to go, empty where it hasn't."""
    return str((node["metadata"].get("annotations") or {}).get(EVICTING) or "")


def is_leaving(node: Node) -> bool:
    """Return whether the node goes on purpose, so that nobody makes up for it."""
    return bool(removing_since(node) or node["metadata"].get("deletionTimestamp"))
