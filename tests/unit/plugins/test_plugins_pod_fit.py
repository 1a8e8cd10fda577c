"""Whether a pod can be on a node: selectors, affinity, taints, volumes, ports and neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.neighbours import rules_for
from ansible_collections.aws_operator.core.plugins.module_utils.places import Place, place_of
from ansible_collections.aws_operator.core.plugins.module_utils.pod_fit import Misfit, misfit, why_nowhere
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import Volumes
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest

from tests.unit.plugins.cluster_builders import HOSTNAME, make_guest, make_node, make_place, running_pod

ZONE = "topology.kubernetes.io/zone"


def judged(guest: Guest, place: Place, *, others: Sequence[Place] = ()) -> Misfit | None:
    """Return what keeps a pod from a place among others."""
    rules = rules_for(guest, [place, *others])
    found: Misfit | None = misfit(guest, place, rules=rules, volumes=Volumes())
    return found


def kind(guest: Guest, place: Place, *, others: Sequence[Place] = ()) -> str:
    """Return why not, as one word, empty where the pod fits."""
    found = judged(guest, place, others=others)
    return found.kind if found else ""


def node_affinity(*terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod's spec that requires one of *terms*."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def test_node_selector() -> None:
    """Every label of the node selector has to be there, and the ones that aren't are named."""
    place = make_place(labels={"disk": "ssd"})
    assert kind(make_guest(spec={"nodeSelector": {"disk": "ssd"}}), place) == ""
    found = judged(make_guest(spec={"nodeSelector": {"disk": "hdd", "gpu": "yes"}}), place)
    assert found == Misfit(kind="NodeSelector", what="disk=hdd,gpu=yes")


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["4", "8"], True),
        ("In", ["4"], False),
        ("NotIn", ["4"], True),
        ("NotIn", ["8"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["7"], True),
        ("Gt", ["8"], False),
        ("Lt", ["9"], True),
        ("Lt", ["8"], False),
        ("Gt", ["many"], False),
        ("Gt", ["1", "2"], False),
        ("Near", ["8"], False),
    ],
)
def test_node_affinity_operators(operator: str, values: list[str], fits: bool) -> None:  # noqa: FBT001 - a column
    """All operators of node affinity are judged; one that isn't known never matches."""
    term = {"matchExpressions": [{"key": "cores", "operator": operator, "values": values}]}
    assert (kind(make_guest(spec=node_affinity(term)), make_place(labels={"cores": "8"})) == "") is fits


@pytest.mark.parametrize(
    ("operator", "fits"), [("In", False), ("NotIn", True), ("Exists", False), ("DoesNotExist", True)]
)
def test_absent_label(operator: str, fits: bool) -> None:  # noqa: FBT001 - a column of the table
    """A label that the node doesn't have satisfies NotIn and DoesNotExist only."""
    term = {"matchExpressions": [{"key": "cores", "operator": operator, "values": ["8"]}]}
    assert (kind(make_guest(spec=node_affinity(term)), make_place()) == "") is fits


def test_terms_are_alternatives_and_their_requirements_are_not() -> None:
    """One term is enough, within a term everything counts, and an empty term takes no node."""
    ssd = {"key": "disk", "operator": "In", "values": ["ssd"]}
    gpu = {"key": "gpu", "operator": "Exists"}
    place = make_place(labels={"disk": "ssd"})
    assert kind(make_guest(spec=node_affinity({"matchExpressions": [gpu]}, {"matchExpressions": [ssd]})), place) == ""
    assert kind(make_guest(spec=node_affinity({"matchExpressions": [gpu, ssd]})), place) == "NodeAffinity"
    assert kind(make_guest(spec=node_affinity({})), place) == "NodeAffinity"
    assert kind(make_guest(spec=node_affinity()), place) == "NodeAffinity"


def test_node_named_by_a_field() -> None:
    """A pod may name its node, and no node that doesn't exist yet is the one that it names."""
    spec = node_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})
    assert kind(make_guest(spec=spec), make_place("n1")) == ""
    assert kind(make_guest(spec=spec), make_place("n2")) == "NodeAffinity"
    assert kind(make_guest(spec=spec), make_place("n1", is_there=False)) == "NodeAffinity"


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "a"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "b"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"value": "a"}, False),
        ({"key": "team", "operator": "Gt", "value": "a"}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], fits: bool) -> None:  # noqa: FBT001 - a column of the table
    """A toleration covers by key, value and effect; what it leaves out covers everything."""
    place = make_place(taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    assert (kind(make_guest(spec={"tolerations": [toleration]}), place) == "") is fits


@pytest.mark.parametrize(
    ("effect", "found"), [("NoSchedule", "Taint"), ("NoExecute", "Taint"), ("PreferNoSchedule", "")]
)
def test_only_hard_taints_repel(effect: str, found: str) -> None:
    """A taint that only prefers doesn't keep a pod away."""
    assert kind(make_guest(), make_place(taints=[{"key": "team", "effect": effect}])) == found


def test_cordoned_node_takes_nobody() -> None:
    """A node that was cordoned is closed even where its taint isn't written yet."""
    assert kind(make_guest(), place_of(make_node(unschedulable=True))) == "Taint"


def test_room_is_what_the_pods_of_the_node_leave() -> None:
    """Pods that run or terminate take room, pods that ended don't."""
    going = running_pod("going", node="n1", memory="6Gi", deletionTimestamp="2026-11-30T12:00:00Z")
    ended = running_pod("ended", node="n1", memory="6Gi")
    ended["status"]["phase"] = "Succeeded"
    place = place_of(make_node(memory="16Gi"), pods=[going, ended, running_pod("far", node="n2", memory="16Gi")])
    assert kind(make_guest(memory="10Gi"), place) == ""
    found = judged(make_guest(memory="11Gi"), place)
    assert found == Misfit(kind="Room", what="it asks for 11Gi memory, a node has 10Gi memory")


def test_device_that_no_node_has() -> None:
    """A resource that the node doesn't speak of is one that it doesn't have."""
    spec = {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}
    assert kind(make_guest(spec=spec), make_place()) == "Room"


@pytest.mark.parametrize(
    ("mine", "theirs", "found"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, "HostPort"),
        ({"hostPort": 80}, {"hostPort": 81}, ""),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, ""),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, ""),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, "HostPort"),
        ({"containerPort": 80}, {"containerPort": 80}, ""),
    ],
)
def test_host_ports(mine: dict[str, Any], theirs: dict[str, Any], found: str) -> None:
    """Two pods on one node can't have the same port of the same address and protocol."""
    other = make_guest("other", spec={"containers": [{"ports": [theirs]}]})
    assert kind(make_guest(spec={"containers": [{"ports": [mine]}]}), make_place(guests=[other])) == found


def required(kind_of: str, *, key: str = HOSTNAME, app: str = "web", **more: Any) -> dict[str, Any]:
    """Return a pod's spec with one required affinity or anti-affinity term."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {"affinity": {kind_of: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_anti_affinity_closes_a_node_both_ways() -> None:
    """A pod keeps from those that it repels, and from those that repel it."""
    lonely, plain = make_guest("a", spec=required("podAntiAffinity")), make_guest("b")
    assert kind(lonely, make_place(guests=[plain])) == "Neighbours"
    assert kind(plain, make_place(guests=[lonely])) == "Neighbours"
    assert kind(lonely, make_place("n2"), others=[make_place("n1", guests=[plain])]) == ""


def test_anti_affinity_over_a_zone_closes_all_its_nodes() -> None:
    """The domain of a term is every node with the same value of its label."""
    lonely = make_guest("a", spec=required("podAntiAffinity", key=ZONE))
    taken = make_place("n1", labels={ZONE: "a"}, guests=[make_guest("b")])
    assert kind(lonely, make_place("n2", labels={ZONE: "a"}), others=[taken]) == "Neighbours"
    assert kind(lonely, make_place("n3", labels={ZONE: "b"}), others=[taken]) == ""
    assert kind(lonely, make_place("n4"), others=[taken]) == ""


@pytest.mark.parametrize(
    ("more", "found"),
    [({}, ""), ({"namespaces": ["dev"]}, "Neighbours"), ({"namespaceSelector": {}}, "Neighbours")],
)
def test_terms_speak_of_namespaces(more: dict[str, Any], found: str) -> None:
    """A term is about its pod's own namespace unless it names others."""
    lonely = make_guest("a", spec=required("podAntiAffinity", **more))
    assert kind(lonely, make_place(guests=[make_guest("b", namespace="dev")])) == found


def test_affinity_follows_the_pods_that_are_there() -> None:
    """A pod goes to the domain of the pods that it wants to be with, the first of a group anywhere."""
    follower = make_guest("a", labels={"app": "cache"}, spec=required("podAffinity", app="web"))
    occupied = make_place("n1", guests=[make_guest("b")])
    assert kind(follower, occupied) == ""
    assert kind(follower, make_place("n2"), others=[occupied]) == "Neighbours"
    assert kind(follower, make_place("n2")) == "Neighbours"
    assert kind(make_guest("c", spec=required("podAffinity", app="web")), make_place("n2")) == ""


def spread(**more: Any) -> dict[str, Any]:
    """Return a pod's spec that spreads over zones."""
    item = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "web"}}, **more}
    return {"topologySpreadConstraints": [item]}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, "Neighbours"),
        ({"maxSkew": 2}, ""),
        ({"whenUnsatisfiable": "ScheduleAnyway"}, ""),
        ({"labelSelector": {"matchLabels": {"app": "other"}}}, ""),
        ({"matchLabelKeys": ["version"]}, ""),
    ],
)
def test_spread(more: dict[str, Any], found: str) -> None:
    """A pod doesn't go where its kind is more crowded than elsewhere by more than the skew."""
    guest = make_guest("new", labels={"app": "web", "version": "2"}, spec=spread(**more))
    full = make_place("n1", labels={ZONE: "a"}, guests=[make_guest("b")])
    empty = make_place("n2", labels={ZONE: "b"})
    assert kind(guest, full, others=[empty]) == found
    assert kind(guest, empty, others=[full]) == ""


def test_spread_counts_only_nodes_that_the_pod_selects() -> None:
    """An empty zone that the pod's node selector excludes doesn't lower the least count."""
    guest = make_guest("new", spec={**spread(), "nodeSelector": {"disk": "ssd"}})
    full = make_place("n1", labels={ZONE: "a", "disk": "ssd"}, guests=[make_guest("b")])
    assert kind(guest, full, others=[make_place("n2", labels={ZONE: "b"})]) == ""


def test_spread_over_too_few_domains() -> None:
    """Below the least number of domains the least count is zero."""
    guest = make_guest("new", spec=spread(minDomains=2))
    assert kind(guest, make_place("n1", labels={ZONE: "a"}, guests=[make_guest("b")])) == "Neighbours"


def test_label_whose_value_nobody_knows_yet() -> None:
    """A pod isn't kept from a new node by a zone that is open, but isn't promised a zone either."""
    new = make_place("new", is_there=False, vague=frozenset({ZONE}))
    assert kind(make_guest(spec=spread()), new) == ""
    assert kind(make_guest(spec=required("podAntiAffinity", key=ZONE)), new) == ""
    assert kind(make_guest(spec={"nodeSelector": {ZONE: "a"}}), new) == "NodeSelector"


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({}, "there is no pool to grow"),
        ({"a": Misfit(kind="NodeSelector", what="disk=ssd")}, "no pool satisfies its node selector disk=ssd"),
        (
            {"a": Misfit(kind="Taint", what="x:NoSchedule")},
            "every pool has the taint x:NoSchedule, which it doesn't tolerate",
        ),
        (
            {"b": Misfit(kind="Taint", what="x:NoSchedule"), "a": Misfit(kind="Room", what="too much")},
            "no pool fits: a is too small for it: too much; b has the taint x:NoSchedule, which it doesn't tolerate",
        ),
        (
            {"b": Misfit(kind="NodeSelector", what="disk=ssd"), "a": Misfit(kind="NodeSelector", what="disk=ssd")},
            "no pool satisfies its node selector disk=ssd",
        ),
    ],
)
def test_reason_for_a_person(found: dict[str, Misfit], sentence: str) -> None:
    """What all pools lack is said once, what differs is said pool by pool."""
    assert why_nowhere(found) == sentence


def test_alternatives_are_shown_to_a_person() -> None:
    """The terms of a node affinity that no node satisfies are told in full."""
    high = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]}
    ssd = {
        "matchExpressions": [
            {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
            {"key": "x", "operator": "Exists"},
        ]
    }
    found = judged(make_guest(spec=node_affinity(high, ssd)), make_place())
    assert found is not None
    assert found.what == "(cores Gt 8 or disk In [ssd,nvme] and x Exists)"
