"""Which Node a pool's machine has become: by provider id, else by what both say of themselves. Pure.

A kubelet of ours says whose it is. That of a person's own template may say neither provider id nor label: its Node is
the one that has the machine's private address or name, and is no older than the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.places import Node
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import (
    POOL_UID_LABEL,
    belongs_to,
    instance_id_of,
)
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse

_NAMES = ("Hostname", "InternalDNS")
_VAGUE_PROVIDERS = ("", "k3s")
"""What a Node says of where it runs that may as well be an EC2 machine."""


@dataclass(frozen=True, kw_only=True)
class NodeIndex:
    """The cluster's Nodes by what they are known by."""

    by_id: Mapping[str, Node]
    by_address: Mapping[str, Node]
    """Those that say whose they are, without a provider id of EC2."""
    by_sign: Mapping[str, Sequence[Node]]
    """Those, and for a person's template those that don't, by addresses and names."""
    own: Mapping[str, Node]
    """Those that say whose they are by their names, whatever else they say."""

    def node_of(self, instance: Mapping[str, Any]) -> Node | None:
        """Return the Node of an EC2Instance's machine, None where there is none, or more than one may be it."""
        status = instance.get("status") or {}
        instance_id, address = str(status.get("instanceId") or ""), str(status.get("privateIp") or "")
        if not instance_id:
            return None
        found = self.by_id.get(instance_id) or (self.by_address.get(address) if address else None)
        return found or self._nameless(instance, signs=_signs_of_machine(instance_id, address))

    def as_before(self, known: str) -> Node | None:
        """Return the Node that a machine was last time, None where none of the pool has the name *known* any more.

        It isn't lost because its addresses don't tell any more; but it may be another machine's by now.
        """
        node = self.own.get(known)
        return node if node is not None and not instance_id_of(node) else None

    def _nameless(self, instance: Mapping[str, Any], *, signs: Iterable[str]) -> Node | None:
        status = instance.get("status") or {}
        launched = parse(status.get("launchTime") or instance["metadata"].get("creationTimestamp"))
        fitting = {
            str(node["metadata"]["name"]): node
            for sign in signs
            for node in self.by_sign.get(sign) or ()
            if _is_younger(node, launched)
        }
        return next(iter(fitting.values())) if len(fitting) == 1 else None


def index_of(nodes: Sequence[Node], *, pool: Mapping[str, Any]) -> NodeIndex:
    """Return the index for one pool; Nodes that don't say whose they are count for bootstrap `custom` only."""
    by_id: dict[str, Node] = {}
    by_address: dict[str, Node] = {}
    by_sign: dict[str, list[Node]] = {}
    own = {str(node["metadata"]["name"]): node for node in nodes if belongs_to(node, pool)}
    custom = ((pool.get("spec") or {}).get("bootstrap") or {}).get("type") == "custom"
    for node in nodes:
        if instance_id_of(node):
            by_id[instance_id_of(node)] = node
            continue
        if belongs_to(node, pool):
            by_address[next(iter(_addresses(node, "InternalIP")), "")] = node
        if belongs_to(node, pool) or (custom and _is_nobodys(node)):
            for sign in _signs_of_node(node):
                by_sign.setdefault(sign, []).append(node)
    return NodeIndex(by_id=by_id, by_address=by_address, by_sign=by_sign, own=own)


def _is_nobodys(node: Node) -> bool:
    """Return whether the Node says of no pool and no provider that it's theirs."""
    provider = str((node.get("spec") or {}).get("providerID") or "").partition("://")[0]
    return POOL_UID_LABEL not in (node["metadata"].get("labels") or {}) and provider in _VAGUE_PROVIDERS


def _is_younger(node: Node, launched: Any) -> bool:
    """Return whether the Node can be that of a machine launched then: an older one had the address before."""
    created = parse(node["metadata"].get("creationTimestamp"))
    return bool(created and launched and created >= launched)


def _signs_of_machine(instance_id: str, address: str) -> list[str]:
    """Return the private address, and the two host names that EC2 gives (`ip-10-0-0-7`, `i-0123...`)."""
    return [instance_id, *([address, f"ip-{address.replace('.', '-')}"] if address else [])]


def _signs_of_node(node: Node) -> set[str]:
    names = [str(node["metadata"]["name"]), *_addresses(node, *_NAMES)]
    return {*_addresses(node, "InternalIP"), *(name.partition(".")[0] for name in names)}


def _addresses(node: Node, *kinds: str) -> list[str]:
    addresses = (node.get("status") or {}).get("addresses") or []
    return [str(item.get("address")) for item in addresses if item.get("type") in kinds]
