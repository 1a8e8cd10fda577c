"""What a run knows of one NodePool, and what it may do about it: the values between the parts of its plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.offerings import FIRST_PAUSE
from ansible_collections.aws_operator.core.plugins.module_utils.places import Node
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Pod
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import Member, may_be_a_node, members_of

CREATE, CORDON, EVICT, DELETE, UNCORDON = "Create", "Cordon", "Evict", "Delete", "Uncordon"
SET_NODE, DELETE_NODE, SET_POLICY = "SetNode", "DeleteNode", "SetPolicy"
RETAIN = "Retain"


@dataclass(frozen=True, kw_only=True)
class PoolView:
    """What is known at the start of a run."""

    pool: Mapping[str, Any]
    instances: Sequence[Mapping[str, Any]]
    """EC2Instance objects; those that the pool doesn't own are passed over."""
    nodes: Sequence[Node]
    """Read before the instances, so that the machine of a Node without an instance is gone for certain."""
    now: datetime
    pods: Sequence[Pod] = ()
    """The pods on the nodes."""
    pods_read: bool = True
    """Whether the pods were read: else no node counts as drained."""
    finalizing: bool = False
    user_data_secret: str = ""
    obstacle: tuple[str, str] | None = None
    """Why nothing can be launched, as reason and message: there is no user data."""
    capacity_pause: float = FIRST_PAUSE
    """Seconds for which an offering is left alone after its first failure."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return the pool's spec."""
        return self.pool.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        """Return the pool's status as of the start of the run."""
        return self.pool.get("status") or {}

    @property
    def policy(self) -> str:
        """Return what becomes of the machines with the pool."""
        return str(self.spec.get("deletionPolicy") or "Delete")

    @property
    def retires(self) -> bool:
        """Return whether the pool goes and leaves its machines."""
        return self.finalizing and self.policy == RETAIN

    @cached_property
    def members(self) -> list[Member]:
        """Return the pool's machines by name."""
        found: list[Member] = members_of(self.pool, instances=self.instances, nodes=self.nodes)
        return found

    def may_be_a_node(self, member: Member) -> bool:
        """Return whether a machine whose id isn't known may be a Node: then it doesn't end before that is known."""
        found: bool = may_be_a_node(member, members=self.members, nodes=self.nodes, pool=self.pool)
        return found

    @property
    def wanted(self) -> int:
        """Return how many nodes there have to be; the lower limit wins over the upper one."""
        if self.finalizing:
            return 0
        target, least = int(self.spec.get("targetNodes") or 0), int(self.spec.get("minNodes") or 0)
        return max(least, min(target, int(self.spec.get("maxNodes", target))))

    @property
    def cut(self) -> str:
        """Return why fewer or more nodes are wanted than `targetNodes` says, empty where it holds."""
        target = int(self.spec.get("targetNodes") or 0)
        if self.finalizing or target == self.wanted:
            return ""
        limit, how = ("minNodes", "below") if target < self.wanted else ("maxNodes", "above")
        return f"targetNodes is {target}, {how} {limit}"


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing to do."""

    kind: str
    """`Create`, `Cordon`, `Evict`, `Delete` (terminates), `Uncordon`, `SetNode`, `DeleteNode` or `SetPolicy`."""
    name: str
    """Of the EC2Instance (`Create`, `Delete`, `SetPolicy`) or of the Node."""
    why: str
    body: Mapping[str, Any] = field(default_factory=dict)
    """The object to create, or what to patch."""
    pods: Sequence[Mapping[str, str]] = ()
    """Namespace and name of the pods to evict."""
    is_termination: bool = False
    """Whether a machine ends."""
    uid: str = ""
    """Of the object that is deleted, so that no later one of its name goes."""
    unseen: bool = False
    """Whether the machine was no Node when it was looked at: it may have become one since."""


def delete_action(member: Member, *, why: str) -> Action:
    """Return what ends a member, whatever is to become of it when the pool goes."""
    retained = (member.obj.get("spec") or {}).get("deletionPolicy") == RETAIN
    return Action(
        kind=DELETE,
        name=member.name,
        why=why,
        body={"spec": {"deletionPolicy": "Delete"}} if retained else {},
        is_termination=bool(member.instance_id),
        uid=str(member.obj["metadata"].get("uid") or ""),
        unseen=bool(member.instance_id or member.was_asked_for) and member.node is None,
    )
