"""`examples/02-myapp` with highAvailability: spread Pods, a disruption budget, and the condition Available."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import pytest

from runner.kube.objects import Object, conditions_of, uid_of
from runner.localdev.nodes import fake_node
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import wait_until
from tests.integration.examples.example_nodes import add_nodes, remove_nodes
from tests.integration.examples.example_site import BUDGETS, LIMIT, STATEFUL_SETS, Objects, condition, owners

IMAGE = "registry.example.com/my-app:1.0.0"
INSTANCE = "app.kubernetes.io/instance"


@pytest.fixture(scope="module")
def second_node(plane: ControlPlane, node: str) -> Iterator[str]:
    """Give a node beside that of the session."""
    name = f"{node}-{secrets.token_hex(2)}"
    asyncio.run(add_nodes(plane, fake_node(name, address="10.64.9.2")))
    yield name
    asyncio.run(remove_nodes(plane, name))


async def budget_of(myapps: Objects, name: str) -> Object:
    """Return the budget when its controller allows one eviction."""

    async def look() -> Object | None:
        budget = await myapps.get(name, of=BUDGETS)
        return budget if budget.get("status", {}).get("disruptionsAllowed") == 1 else None

    found = await wait_until(look, what=f"the budget {name} to allow one eviction", limit=LIMIT)
    assert found is not None
    return found


async def budget_is(myapps: Objects, name: str, *, spec: Object) -> None:
    """Return when the budget's spec is this one again."""

    async def look() -> bool:
        return bool((await myapps.get(name, of=BUDGETS))["spec"] == spec)

    await wait_until(look, what=f"the budget {name} to be {spec}", limit=LIMIT)


async def test_a_highly_available_myapp_is_spread_and_budgeted(myapps: Objects, second_node: str) -> None:
    """Two Pods are on two nodes, one may be evicted, and it is Available; the budget is mended; off, all go."""
    await myapps.create("spread", replicaCount=2, image=IMAGE, highAvailability=True)
    obj = await myapps.reaches("spread", phase="Running", availableReplicas=2, updatedReplicas=2)
    pods = await myapps.pods(f"{INSTANCE}=spread")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2, second_node
    assert condition(obj, "Available") == ("True", "EnoughPodsAvailable")
    budget = await budget_of(myapps, "spread")
    stateful_set = (await myapps.get("spread", of=STATEFUL_SETS))["spec"]
    labels, template = stateful_set["selector"], stateful_set["template"]["spec"]
    (spread,) = template["topologySpreadConstraints"]
    assert (spread["whenUnsatisfiable"], spread["minDomains"], spread["maxSkew"]) == ("DoNotSchedule", 2, 1)
    assert len(template["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]) == 2
    assert template["containers"][0]["readinessProbe"]["tcpSocket"] == {"port": 8080}
    assert (budget["spec"]["maxUnavailable"], budget["spec"]["selector"]) == (1, labels)
    assert (budget["status"]["expectedPods"], budget["status"]["desiredHealthy"]) == (2, 1)
    assert owners(budget) == [("MyApp", uid_of(obj))]
    wrong = {"maxUnavailable": None, "minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}}
    await myapps.patch("spread", {"spec": wrong}, of=BUDGETS)
    await budget_is(myapps, "spread", spec=budget["spec"])
    await myapps.patch("spread", {"spec": {"highAvailability": False, "replicaCount": 1}})
    await myapps.gone("spread", of=BUDGETS)
    await myapps.reaches("spread", phase="Running", availableReplicas=1)
    pod = (await myapps.get("spread", of=STATEFUL_SETS))["spec"]["template"]["spec"]
    assert not {"affinity", "topologySpreadConstraints"} & set(pod)


async def test_a_budget_that_somebody_else_made_is_left_alone(myapps: Objects) -> None:
    """A budget of the object's name stays, with highAvailability too, and is told; one of no Pods isn't Available."""
    foreign: Object = {
        "apiVersion": BUDGETS.gvk.api_version,
        "kind": BUDGETS.gvk.kind,
        "metadata": {"name": "alone"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"x": "y"}}},
    }
    made = await myapps.kube.create(BUDGETS, namespace=myapps.namespace, body=foreign)
    await myapps.create("alone", replicaCount=0, image=IMAGE)
    obj = await myapps.reaches("alone")
    assert condition(obj, "Available") == ("False", "ScaledToZero")
    await myapps.patch("alone", {"spec": {"highAvailability": True, "replicaCount": 2}})
    (entry,) = [entry for entry in conditions_of(await myapps.reaches("alone")) if entry["type"] == "Available"]
    assert "a PodDisruptionBudget of this name is there without an ownerReference" in entry["message"]
    await myapps.patch("alone", {"spec": {"highAvailability": False, "replicaCount": 0}})
    await myapps.reaches("alone", phase="Running")
    left = await myapps.get("alone", of=BUDGETS)
    assert (uid_of(left), left["spec"]) == (uid_of(made), made["spec"])
