"""What to do for one NodePool: object, machines, Nodes and pods in, a list of actions out. Pure.

The role's task files only carry the actions out. One plan never holds two steps of one removal, and everything that
decides is read from the cluster or from the pool's status, so after a run that ended anywhere the next one is right.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.drain import Step
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
    NOT_READY,
    READY,
    TERMINATING,
    Member,
    orphans,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import (
    PRIMARY_RESOURCE,
    annotations_for_nodes,
    labels_for_nodes,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import (
    DELETE,
    DELETE_NODE,
    SET_NODE,
    SET_POLICY,
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
    steps: Mapping[str, Step] = field(default_factory=dict)
    """What each machine that goes is at, by its name."""
    waits: bool = False
    """Whether only the pause after a machine that never became a node is in the way."""

    @property
    def scales(self) -> bool:
        """Return whether machines come or go."""
        return any(action.kind not in {SET_NODE, DELETE_NODE, SET_POLICY} for action in self.actions)


def make_pool_plan(view: PoolView) -> PoolPlan:
    """Decide; of a pool that goes and leaves its machines nothing is taken away."""
    if view.retires:
        return _leave(view)
    late, failed = never_registered(view), useless(view)
    removal = remove(view, given_up=names_of([*late, *failed]))
    ended = [delete_action(member, why="it never became a node") for member in late]
    braked = brake(view, [*ended, *removal.actions])
    registration = registration_of(view, failed_now=any(action in braked.actions for action in ended))
    shortages = shortages_of(view.status, view.members, now=view.now, first=view.capacity_pause)
    missing = max(0, view.wanted - len(removal.staying))
    created = launches(view, missing=missing, shortages=shortages, registration=registration)
    given_up = [delete_action(member, why=f"{member.failure}: {member.message}") for member in failed]
    doomed = {action.name for action in [*given_up, *braked.actions] if action.kind == DELETE}
    return PoolPlan(
        actions=[
            *created,
            *given_up,
            *braked.actions,
            *_policy_actions(view, doomed=doomed),
            *_node_actions(view),
        ],
        missing=missing - len(created),
        starved=_is_starved(view, removal, missing=missing, shortages=shortages),
        shortages=[shortages[offering] for offering in sorted(shortages)],
        registration=registration,
        terminations=braked.terminations,
        held=braked.held,
        serial=last_serial(view, created),
        steps=removal.steps,
        waits=_waits(view, registration, missing=missing),
    )


def _waits(view: PoolView, registration: Registration, *, missing: int) -> bool:
    pause = registration.pause_ends()
    standing = all(member.phase in {READY, NOT_READY} for member in view.members)
    return bool(missing and standing and pause and pause > view.now)


def _leave(view: PoolView) -> PoolPlan:
    return PoolPlan(
        actions=_policy_actions(view),
        missing=0,
        starved=False,
        shortages=[],
        registration=registration_of(view, failed_now=False),
        terminations=view.status.get("terminations") or [],
        held=0,
        serial=last_serial(view),
    )


def _policy_actions(view: PoolView, *, doomed: Collection[str] = ()) -> list[Action]:
    """Return what passes the pool's deletionPolicy and credentials on to the machines that are there.

    The garbage collector asks nobody what becomes of them with the pool. Those that are *doomed* end, whatever the
    pool's policy is; one that is ending already still needs credentials for it.
    """
    staying = [member for member in view.members if member.name not in doomed]
    changes = {member.name: _differing(view, member) for member in staying}
    return [
        Action(kind=SET_POLICY, name=name, why=f"the pool's {' and '.join(sorted(spec))}", body={"spec": spec})
        for name, spec in changes.items()
        if spec
    ]


def _differing(view: PoolView, member: Member) -> dict[str, Any]:
    """Return what of a machine's spec isn't as the pool says; None takes a field away."""
    there = member.obj.get("spec") or {}
    spec: dict[str, Any] = {}
    if member.phase != TERMINATING and there.get("deletionPolicy", "Delete") != view.policy:
        spec["deletionPolicy"] = view.policy
    credentials = view.spec.get("credentialsSecretRef") or None
    if (there.get("credentialsSecretRef") or None) != credentials:
        spec["credentialsSecretRef"] = credentials
    return spec


def _is_starved(view: PoolView, removal: Removal, *, missing: int, shortages: Mapping[Any, Shortage]) -> bool:
    """Return whether nodes are missing and every offering failed last time, one that is being tried again included."""
    unlaunched = any(not member.instance_id for member in removal.staying)
    offered = offerings_of(view.spec)
    return bool(offered) and set(offered) <= shortages.keys() and (missing > 0 or unlaunched)


def _node_actions(view: PoolView) -> list[Action]:
    """Return what brings the Nodes in step: labels and provider id at any time, taints while one joins."""
    changed = [_set_node(view, member) for member in view.members if member.node and member.phase != TERMINATING]
    gone = [
        Action(
            kind=DELETE_NODE,
            name=node["metadata"]["name"],
            why="its machine is gone",
            uid=str(node["metadata"].get("uid") or ""),
        )
        for node in orphans(view.pool, members=view.members, nodes=view.nodes, now=view.now)
    ]
    return [*(action for action in changed if action), *gone]


def _set_node(view: PoolView, member: Member) -> Action | None:
    node: Mapping[str, Any] = member.node or {}
    labels = _lacking(node, "labels", wanted=labels_for_nodes(view.pool))
    annotations = _lacking(node, "annotations", wanted=annotations_for_nodes(view.pool))
    spec = _spec_parts(view, member)
    if not labels and not annotations and not spec:
        return None
    # What is written holds for the Node that was read: taints are one list, and others write it too.
    version = node["metadata"].get("resourceVersion")
    metadata = {"labels": labels, "annotations": annotations, "resourceVersion": version}
    body = {"metadata": {key: value for key, value in metadata.items() if value}, "spec": spec}
    why = f"it lacks {', '.join([*labels, *annotations, *spec])}"
    return Action(kind=SET_NODE, name=member.node_name, why=why, body=body)


def _lacking(node: Mapping[str, Any], part: str, *, wanted: Mapping[str, str]) -> dict[str, str]:
    present = node["metadata"].get(part) or {}
    return {key: value for key, value in wanted.items() if present.get(key) != value}


def _spec_parts(view: PoolView, member: Member) -> dict[str, Any]:
    """Return the provider id, which is set once, and the taints, which later are others' business too."""
    node: Mapping[str, Any] = member.node or {}
    spec = node.get("spec") or {}
    there = spec.get("taints") or []
    known = {(item.get("key"), item.get("effect")) for item in there}
    new = PRIMARY_RESOURCE not in (node["metadata"].get("annotations") or {})
    wanted = view.spec.get("taints") or [] if new or member.phase == JOINING else []
    taints = [item for item in wanted if (item.get("key"), item.get("effect")) not in known]
    parts: dict[str, Any] = {"taints": [*there, *taints]} if taints else {}
    zone = (member.obj.get("status") or {}).get("availabilityZone")
    if not spec.get("providerID") and zone:
        parts["providerID"] = f"aws:///{zone}/{member.instance_id}"
    return parts
