"""The next step of taking one machine away: cordon, then evict, then terminate. Pure.

Each step is read from the cluster: a Node that is cordoned and marked may be drained, one that has no pods left may be
terminated. So a run that ends at any point is followed by one that goes on there, and never by one that skips a step.
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
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import removing_since
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


def next_step(node: Node | None, pods: Iterable[Pod], *, spec: Mapping[str, Any], now: datetime) -> Step:
    """Return the step; *spec* is the pool's, with `drainTimeout` (0s: none) and `drainTimeoutPolicy`."""
    if node is None:
        return Step(kind=TERMINATE, why="it never became a node")
    since = removing_since(node)
    if not since or not is_cordoned(node):
        return Step(kind=CORDON, why="the pool has more nodes than it has to have")
    left = [pod for pod in pods if _holds(pod, node, now=now)]
    if not left:
        return Step(kind=TERMINATE, why="it's drained")
    timeout = seconds(spec.get("drainTimeout"), default=DRAIN_TIMEOUT)
    if timeout and age(since, now=now) >= timeout and spec.get("drainTimeoutPolicy", "Terminate") == "Terminate":
        return Step(kind=TERMINATE, why=f"its drainTimeout of {timeout:.0f} s is over, with {_named(left)} still on it")
    evictable = [pod for pod in left if not is_terminating(pod)]
    if evictable:
        return Step(kind=EVICT, why=f"{_named(left)} still on it", pods=evictable)
    return Step(kind=WAIT, why=f"{_named(left)} still terminating")


def is_overdue(node: Node, *, spec: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a drain takes longer than it should."""
    timeout = seconds(spec.get("drainTimeout"), default=DRAIN_TIMEOUT)
    return bool(timeout and removing_since(node) and age(removing_since(node), now=now) >= timeout)


def _holds(pod: Pod, node: Node, *, now: datetime) -> bool:
    """Return whether the node has to be kept for the pod.

    On a node that answers no more nobody ends a pod: there its grace period counts, which the deletion timestamp ends.
    """
    if node_of(pod) != node["metadata"]["name"] or stays_with_its_node(pod) or has_ended(pod):
        return False
    given_up = is_terminating(pod) and age(pod["metadata"]["deletionTimestamp"], now=now) >= 0
    return not (given_up and not is_ready(node))


def _named(pods: Sequence[Pod]) -> str:
    names = sorted(key_of(pod) for pod in pods)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
