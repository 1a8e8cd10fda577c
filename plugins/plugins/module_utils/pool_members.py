"""A NodePool's machines: each owned EC2Instance with the Node that it became, and how far it is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.node_matching import index_of
from ansible_collections.aws_operator.core.plugins.module_utils.places import Node, is_ready, unready_since
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import belongs_to, removing_since
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, parse

LAUNCHING = "Launching"
LAUNCH_FAILED = "LaunchFailed"
BOOTING = "Booting"
JOINING = "Joining"
READY = "Ready"
NOT_READY = "NotReady"
LOST = "Lost"
"""It was a Node, and is none any more."""
DRAINING = "Draining"
TERMINATING = "Terminating"

# What one type in one subnet lacks, and another may have. Everything else (a wrong image, missing rights, a quota)
# needs a person, and no other offering helps.
_OFFERING_LACKS = (
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientFreeAddressesInSubnet",
    "Unsupported",
)
_ORPHANED = 60.0
_CALL = timedelta(seconds=180)
"""How long a launch may be under way: botocore's tries with their time-outs."""
_LOST_FOR_GOOD = 60.0
_ENDED = ("shutting-down", "terminated")


@dataclass(frozen=True, kw_only=True)
class Member:
    """One machine of the pool."""

    obj: Mapping[str, Any]
    """The EC2Instance."""
    node: Node | None
    phase: str
    failure: str = ""
    """The reason of a launch that failed, one word."""
    message: str = ""
    last_node: str = ""
    """Name of the Node that it was, where it's lost."""
    lost_since: str = ""
    """When it was seen first that the Node is gone, empty where this run is the first to see it."""

    @property
    def name(self) -> str:
        """Return the EC2Instance's name."""
        return str(self.obj["metadata"]["name"])

    @property
    def instance_id(self) -> str:
        """Return the machine's id, empty where none was launched."""
        return str((self.obj.get("status") or {}).get("instanceId") or "")

    @property
    def node_name(self) -> str:
        """Return the Node's name, empty where there is none."""
        return str(self.node["metadata"]["name"]) if self.node else ""

    @property
    def offering(self) -> tuple[str, str]:
        """Return instance type and subnet; the subnet is empty for a default one."""
        spec = self.obj.get("spec") or {}
        return str(spec.get("instanceType") or ""), str(spec.get("subnetId") or "")

    @property
    def created(self) -> str:
        """Return when the object was made."""
        return str(self.obj["metadata"].get("creationTimestamp") or "")

    @property
    def launched(self) -> str:
        """Return when the machine was launched, or the object made."""
        return str((self.obj.get("status") or {}).get("launchTime") or self.created)

    @property
    def was_asked_for(self) -> bool:
        """Return whether AWS was asked for a machine, and its id isn't known: there may be one."""
        return not self.instance_id and bool((self.obj.get("status") or {}).get("launchAttempt"))

    def is_lost_for_good(self, now: datetime) -> bool:
        """Return whether the Node is gone for so long that no restart of its kubelet explains it."""
        return bool(self.phase == LOST and self.lost_since and age(self.lost_since, now=now) >= _LOST_FOR_GOOD)

    @property
    def failed_at(self) -> str:
        """Return since when its EC2Instance isn't Ready, empty where it is or doesn't say."""
        return str(_not_ready(self.obj).get("lastTransitionTime") or "")

    @property
    def obstacle(self) -> str:
        """Return the reason of its EC2Instance for not being Ready, empty where it is Ready or says none."""
        return str(_not_ready(self.obj).get("reason") or "")

    @property
    def lacks_capacity(self) -> bool:
        """Return whether the launch failed for a reason that another type or subnet may not have."""
        return self.failure in _OFFERING_LACKS


def members_of(
    pool: Mapping[str, Any], *, instances: Iterable[Mapping[str, Any]], nodes: Sequence[Node]
) -> list[Member]:
    """Return the machines that the pool owns, in the order of their names."""
    owned = [item for item in instances if _is_owned(item, pool)]
    index = index_of(nodes, pool=pool)
    told = {str(item.get("name")): item for item in (pool.get("status") or {}).get("nodes") or []}
    found = [(item, index.node_of(item)) for item in sorted(owned, key=lambda item: str(item["metadata"]["name"]))]
    taken = {str(node["metadata"]["name"]) for _, node in found if node}
    members = []
    for item, node in found:
        before = told.get(str(item["metadata"]["name"])) or {}
        known = _known(item, before)
        members.append(_member(item, node or (index.as_before(known) if known not in taken else None), before=before))
    return members


def may_be_a_node(member: Member, *, members: Sequence[Member], nodes: Iterable[Node], pool: Mapping[str, Any]) -> bool:
    """Return whether a machine whose id isn't known may exist as a Node: nobody could tell that they are the same.

    While AWS hasn't refused the launch, it may; after a refusal, where there is a Node of the pool that is no other
    machine's, and is younger than the object: an earlier answer of AWS may have been lost.
    """
    if not member.was_asked_for or member.failure == "":
        return member.was_asked_for
    taken = {other.node_name for other in members}
    return any(
        belongs_to(node, pool)
        and node["metadata"]["name"] not in taken
        and not removing_since(node)
        and str(node["metadata"].get("creationTimestamp") or "") >= member.created
        for node in nodes
    )


def orphans(pool: Mapping[str, Any], *, members: Sequence[Member], nodes: Iterable[Node], now: datetime) -> list[Node]:
    """Return the pool's Nodes whose machine is gone: no member's, and drained by us or unready for a while.

    While a machine's id isn't known yet, an unready Node may be the one that it becomes.
    """
    taken = {member.node_name for member in members}
    unknown = [member for member in members if not member.instance_id]
    return [
        node
        for node in nodes
        if belongs_to(node, pool)
        and node["metadata"]["name"] not in taken
        and (
            removing_since(node)
            or (_is_long_unready(node, now) and not any(_may_become(member, node) for member in unknown))
        )
    ]


def _may_become(member: Member, node: Node) -> bool:
    """Return whether a machine whose id isn't known may be this Node: one that came before AWS refused it is not.

    Unless its failure is an answer that was lost: then the machine came while the call was under way.
    """
    refused, created = parse(member.failed_at), parse(node["metadata"].get("creationTimestamp"))
    if not member.failure or refused is None or created is None:
        return True
    return bool(created >= refused - _CALL)


def _is_long_unready(node: Node, now: datetime) -> bool:
    return bool(not is_ready(node) and age(unready_since(node), now=now) >= _ORPHANED)


def _is_owned(instance: Mapping[str, Any], pool: Mapping[str, Any]) -> bool:
    owners = instance["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") == pool["metadata"]["uid"] for owner in owners)


def _known(instance: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Return the name of the Node that the machine was when the status was written, empty for none."""
    same = before.get("instanceId") == (instance.get("status") or {}).get("instanceId")
    return str(before.get("node") or "") if same else ""


def _member(instance: Mapping[str, Any], node: Node | None, *, before: Mapping[str, Any]) -> Member:
    """Return the machine; *before* is what the pool's status says of it."""
    status = instance.get("status") or {}
    was = _known(instance, before)
    launched = bool(status.get("instanceId")) and status.get("state") not in _ENDED
    failed = _not_ready(instance)
    failure = "" if launched else str(failed.get("reason") or "")
    if status.get("instanceId") and failure not in _OFFERING_LACKS:
        failure = ""  # its EC2Instance replaces a machine that ended, and says so itself
    phase = _phase(instance, node, launched=launched, known=before.get("phase") in {READY, NOT_READY})
    if phase == LAUNCHING and failure:
        phase = LAUNCH_FAILED
    message = str(failed.get("message") or "") if failure else ""
    if phase == BOOTING and was:
        since = str(before.get("lostSince") or "")
        return Member(obj=instance, node=None, phase=LOST, last_node=was, lost_since=since)
    return Member(obj=instance, node=node, phase=phase, failure=failure, message=message)


def _not_ready(instance: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition that says why an EC2Instance isn't Ready, empty where it is, or where none says so."""
    conditions: Sequence[Mapping[str, Any]] = (instance.get("status") or {}).get("conditions") or []
    false = (item for item in conditions if item.get("type") == "Ready" and item.get("status") == "False")
    return next(false, {})


def _phase(instance: Mapping[str, Any], node: Node | None, *, launched: bool, known: bool) -> str:
    if instance["metadata"].get("deletionTimestamp"):
        return TERMINATING
    if node is not None and removing_since(node):
        return DRAINING
    if not launched:
        return LAUNCHING
    if node is None:
        return BOOTING
    if is_ready(node):
        return READY
    return NOT_READY if known else JOINING
