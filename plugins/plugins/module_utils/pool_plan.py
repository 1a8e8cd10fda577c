"""What to do for one NodePool: object, machines, Nodes and pods in, a list of actions out. Pure.

The role's task files only carry the actions out. One plan never holds two steps of one removal, and everything that
decides is read from the cluster or from the pool's status, so after a run that ended anywhere the next one is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.launches import (
    Registration,
    last_serial,
    launches,
    names_of,
    never_registered,
    registration_of,
    useless,
)
from ansible_collections.aws_operator.core.plugins.module_utils.offerings import Shortage, offerings_of, shortages_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import (
    JOINING,
    TERMINATING,
    Member,
    orphans,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import labels_for_nodes
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import (
    DELETE_NODE,
    SET_NODE,
    Action,
    PoolView,
    delete_action,
)
from ansible_collections.aws_operator.core.plugins.module_utils.removals import Removal, brake, remove


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """What a run has to do, and what to remember of why."""

    actions: Sequence[Action]
    """In the order in which they're to be carried out."""
    missing: int
    """Machines that should be launched and can't be yet."""
    starved: bool
    """Whether AWS has none of the pool's offerings."""
    shortages: Sequence[Shortage]
    registration: Registration
    terminations: Sequence[Mapping[str, str]]
    """Of the last hour."""
    held: int
    """Steps that wait for `maxTerminationsPerHour`."""
    serial: int

    @property
    def scales(self) -> bool:
        """Return whether machines come or go."""
        return any(action.kind not in {SET_NODE, DELETE_NODE} for action in self.actions)


def make_pool_plan(view: PoolView) -> PoolPlan:
    """Decide."""
    late, failed = never_registered(view), useless(view)
    removal = remove(view, given_up=names_of([*late, *failed]))
    ended = [delete_action(member, why="it never became a node") for member in late]
    braked = brake(view, [*ended, *removal.actions])
    registration = registration_of(view, failed_now=any(action in braked.actions for action in ended))
    shortages = shortages_of(view.status, view.members, now=view.now, first=view.capacity_pause)
    missing = max(0, view.wanted - len(removal.staying))
    created = launches(view, missing=missing, shortages=shortages, registration=registration)
    return PoolPlan(
        actions=[
            *created,
            *(delete_action(member, why=f"{member.failure}: {member.message}") for member in failed),
            *braked.actions,
            *_node_actions(view),
        ],
        missing=missing - len(created),
        starved=_is_starved(view, removal, missing=missing, shortages=shortages),
        shortages=[shortages[offering] for offering in sorted(shortages)],
        registration=registration,
        terminations=braked.terminations,
        held=braked.held,
        serial=last_serial(view, created),
    )


def _is_starved(view: PoolView, removal: Removal, *, missing: int, shortages: Mapping[Any, Shortage]) -> bool:
    """Return whether nodes are missing and every offering failed last time, one that is being tried again included."""
    unlaunched = any(not member.instance_id for member in removal.staying)
    offered = offerings_of(view.spec)
    return bool(offered) and set(offered) <= shortages.keys() and (missing > 0 or unlaunched)


def _node_actions(view: PoolView) -> list[Action]:
    """Return what brings the Nodes in step: labels at any time, taints and provider id while one joins."""
    changed = [_set_node(view, member) for member in view.members if member.node and member.phase != TERMINATING]
    gone = [
        Action(kind=DELETE_NODE, name=node["metadata"]["name"], why="its machine is gone")
        for node in orphans(view.pool, members=view.members, nodes=view.nodes, now=view.now)
    ]
    return [*(action for action in changed if action), *gone]


def _set_node(view: PoolView, member: Member) -> Action | None:
    node: Mapping[str, Any] = member.node or {}
    present = node["metadata"].get("labels") or {}
    labels = {key: value for key, value in labels_for_nodes(view.pool).items() if present.get(key) != value}
    joining = _joining_parts(view, member) if member.phase == JOINING else {}
    if not labels and not joining:
        return None
    body = {"metadata": {"labels": labels}, "spec": joining}
    return Action(kind=SET_NODE, name=member.node_name, why=f"it lacks {', '.join([*labels, *joining])}", body=body)


def _joining_parts(view: PoolView, member: Member) -> dict[str, Any]:
    """Return what a node is given before it's Ready; later its taints are others' business too."""
    spec = (member.node or {}).get("spec") or {}
    there = spec.get("taints") or []
    known = {(item.get("key"), item.get("effect")) for item in there}
    taints = [item for item in view.spec.get("taints") or [] if (item.get("key"), item.get("effect")) not in known]
    parts: dict[str, Any] = {"taints": [*there, *taints]} if taints else {}
    zone = (member.obj.get("status") or {}).get("availabilityZone")
    if not spec.get("providerID") and zone:
        parts["providerID"] = f"aws:///{zone}/{member.instance_id}"
    return parts
