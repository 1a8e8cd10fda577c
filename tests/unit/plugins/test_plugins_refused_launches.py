"""Launches that AWS refuses and that nobody waits for: given up before any idle node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.packing import pack
from ansible_collections.aws_operator.core.plugins.module_utils.pools import places_of, pool_of
from ansible_collections.aws_operator.core.plugins.module_utils.shrinking import Shrinking, shrink

from tests.unit.plugins.cluster_builders import NOW, ago, make_facts, make_node, make_pod, make_pool_object
from tests.unit.plugins.pool_world import make_instance_object, not_ready

IDLE = dict.fromkeys(["n1", "n2", "n3"], ago(86400))


def judged(
    nodes: Sequence[Mapping[str, Any]],
    instances: Sequence[Mapping[str, Any]],
    *,
    target: int = 4,
    minimum: int = 0,
    pending: Sequence[Mapping[str, Any]] = (),
) -> Shrinking:
    """Return the decision for a pool of idle *nodes*, of which none was needed for a day."""
    obj, facts = make_pool_object(targetNodes=target, minNodes=minimum), make_facts(*nodes, instances=instances)
    pools = [pool_of(obj, facts)]
    packing = pack(pending, pools=pools, places=places_of(facts, [], pools=[obj]))
    found: Shrinking = shrink(packing, pools=pools, now=NOW, since=IDLE)
    return found


def nodes_of(number: int) -> list[dict[str, Any]]:
    """Return nodes `n1`, `n2` and so on, of 16 GiB each."""
    return [make_node(f"n{index}") for index in range(1, number + 1)]


def refused_launch(name: str = "workers-4", *, since: float = 86400) -> dict[str, Any]:
    """Return an EC2Instance that AWS refused to launch."""
    (condition,) = not_ready("VcpuLimitExceeded")
    return make_instance_object(name, conditions=[{**condition, "lastTransitionTime": ago(since)}])


@pytest.mark.parametrize(
    ("minimum", "instances", "target"),
    [
        (0, [refused_launch()], 3),
        (0, [refused_launch(), refused_launch("workers-5")], 3),
        (4, [refused_launch(), refused_launch("workers-5")], 4),
        (0, [refused_launch(since=599)], 4),
        (0, [refused_launch(since=599), refused_launch("workers-5")], 4),
        (4, [refused_launch()], 4),
    ],
)
def test_refused_launch_that_nobody_waits_for_goes_first(
    minimum: int, instances: list[dict[str, Any]], target: int
) -> None:
    """A machine that AWS refuses for long is given up before any idle node, and never below minNodes."""
    found = judged(nodes_of(3), instances, target=3 + len(instances), minimum=minimum)
    assert found.targets == {"workers": target}


def test_refused_launch_is_named_and_then_the_idle_nodes_go() -> None:
    """The decision says what isn't needed; once the machine has gone, the nodes are judged as ever."""
    found = judged(nodes_of(3), [refused_launch()])
    assert [item.why for item in found.decisions] == ["not needed: workers-4 (AWS refuses its launch)"]
    assert judged(nodes_of(3), [], target=3).targets == {"workers": 0}


def test_refused_launch_that_a_pod_waits_for_stays() -> None:
    """While a pod waits for the pool its target stays, or it would go up and down."""
    found = judged(nodes_of(3), [refused_launch()], pending=[make_pod(memory="16Gi", cpu="8")] * 4)
    assert found.targets == {"workers": 4}
    unready = [*nodes_of(2), make_node("n3", ready=False)]  # of the two NodePool might take the node
    assert judged(unready, [refused_launch()]).targets == {"workers": 4}
    assert judged(nodes_of(2), [refused_launch()]).targets == {"workers": 4}  # one is coming
