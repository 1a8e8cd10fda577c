"""The next step of taking one machine away: cordon, then evict, then terminate. Pure.

Each step is read from the cluster: a Node that is cordoned and marked may be drained, one that has no pods left may be
terminated. So a run that ends at any point is followed by one that goes on there, and never by one that skips a step.
`drainTimeout` counts from the first time that the pods were asked to go, so no stop of the operator takes their turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.durations import seconds
from ansible_collections.aws_operator.core.plugins.module_utils.places import Node, is_cordoned, is_ready
from ansible_collections.aws_operator.core.plugins.module_utils.pods import (
    Pod,
    has_ended,
    is_terminating,
    key_of,
    node_of,
    stays_with_its_node,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import evicting_since, removing_since
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age

CORDON, EVICT, WAIT, TERMINATE = "Cordon", "Evict", "Wait", "Terminate"
DRAIN_TIMEOUT = 600.0
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Step:
    """What to do now with a machine that has to go."""

    kind: str
    why: str
    pods: Sequence[Pod] = ()
    """Whom to evict."""


def next_step(node: Node, pods: Iterable[Pod], *, spec: Mapping[str, Any], now: datetime) -> Step:
    """Return the step; *spec* is the pool's, with `drainTimeout` (0s: none) and `drainTimeoutPolicy`."""
    if not removing_since(node) or not is_cordoned(node):
        return Step(kind=CORDON, why="the pool has more nodes than it has to have")
    answers = is_ready(node)
    left = [pod for pod in pods if _holds(pod, node["metadata"]["name"], answers=answers, now=now)]
    if not left:
        return Step(kind=TERMINATE, why="it's drained")
    asked = evicting_since(node) or _all_told(left)
    if is_overdue(asked, spec=spec, now=now) and spec.get("drainTimeoutPolicy", "Terminate") == "Terminate":
        timeout = seconds(spec.get("drainTimeout"), default=DRAIN_TIMEOUT)
        return Step(kind=TERMINATE, why=f"its drainTimeout of {timeout:.0f} s is over, with {_named(left)} still on it")
    return _ask(left)


def step_without_node(name: str, pods: Iterable[Pod], *, now: datetime) -> Step:
    """Return the step for a machine whose Node, called *name*, is gone: what was bound to it may still run there.

    Kubernetes itself ends pods of a Node that is gone, within minutes and whatever budgets say. So nothing times out.
    """
    left = [pod for pod in pods if _holds(pod, name, answers=False, now=now)]
    return _ask(left) if left else Step(kind=TERMINATE, why=f"its Node {name} is gone, and no pod is left there")


def is_overdue(asked: str, *, spec: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a drain that *asked* first at this time takes longer than it should."""
    timeout = seconds(spec.get("drainTimeout"), default=DRAIN_TIMEOUT)
    return bool(timeout and asked and age(asked, now=now) >= timeout)


def _ask(left: Sequence[Pod]) -> Step:
    """Return whom to evict of the pods that are left."""
    evictable = [pod for pod in left if not is_terminating(pod)]
    if evictable:
        return Step(kind=EVICT, why=f"{_named(left)} still on it", pods=evictable)
    return Step(kind=WAIT, why=f"{_named(left)} still terminating")


def _all_told(left: Iterable[Pod]) -> str:
    """Return since when all the pods that are left were told to go by others, empty where one wasn't."""
    times = [str(pod["metadata"].get("deletionTimestamp") or "") for pod in left]
    return max(times) if all(times) else ""


def _holds(pod: Pod, name: str, *, answers: bool, now: datetime) -> bool:
    """Return whether the node called *name* has to be kept for the pod.

    Where it *answers* no more nobody ends a pod: its grace period counts there, which the deletion timestamp ends.
    """
    if node_of(pod) != name or stays_with_its_node(pod) or has_ended(pod):
        return False
    given_up = is_terminating(pod) and age(pod["metadata"]["deletionTimestamp"], now=now) >= 0
    return not (given_up and not answers)


def _named(pods: Sequence[Pod]) -> str:
    names = sorted(key_of(pod) for pod in pods)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
