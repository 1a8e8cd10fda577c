"""`examples/01-webapp` on real controllers: what its README promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.kube.client import KubeClient
from runner.kube.objects import Object, conditions_of, resource_version_of, uid_of
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import wait_until
from tests.integration.examples.example_site import (
    CLUSTER_ROLES,
    DEPLOYMENTS,
    LIMIT,
    SERVICES,
    WEBAPP,
    ExampleSite,
    Objects,
    operating,
    owners,
    set_room,
    states,
)

IMAGE = "nginx:1.25-alpine"


@pytest.fixture(scope="module")
def site(plane: ControlPlane, node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleSite]:
    """Run the operator for all tests of this module."""
    del node  # Pods run on it
    with operating(WEBAPP, plane=plane, folder=tmp_path_factory.mktemp("webapp")) as site:
        yield site


@pytest.fixture
def webapps(site: ExampleSite, kube: KubeClient) -> Objects:
    """Give the WebApps of the namespace."""
    return Objects(kube=kube, site=site, namespace=site.namespace)


def image_of(deployment: Object) -> str:
    """Return the image of a Deployment's only container."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def told(watched_states: list[Object]) -> list[tuple[str, int]]:
    """Return phase and available replicas of each state, equal neighbours once."""
    pairs = [(obj["status"]["phase"], obj["status"]["availableReplicas"]) for obj in watched_states]
    return [pair for index, pair in enumerate(pairs) if index == 0 or pairs[index - 1] != pair]


async def running(webapps: Objects, name: str, *, replicas: int = 1, image: str = IMAGE) -> Object:
    """Create a WebApp and return it when it is Running."""
    await webapps.create(name, replicas=replicas, image=image)
    return await webapps.reaches(name, phase="Running", availableReplicas=replicas)


async def barrier(webapps: Objects, name: str) -> None:
    """Return when what happened so far must have started its runs: a WebApp made now has had its first one."""
    await webapps.create(name, replicas=0, image=IMAGE)
    await webapps.reaches(name)


async def test_a_webapp_becomes_a_deployment_and_a_service(webapps: Objects) -> None:
    """The sample ends at Running 3/3 by way of Scaling, its Deployment and Service as documented, each owned once."""
    sample = WEBAPP.document("config/samples/webapp.yaml")
    name = sample["metadata"]["name"]
    async with webapps.history(WEBAPP.primary.gvk) as history:
        await webapps.create(name, **sample["spec"])
        obj = await webapps.reaches(name, phase="Running", availableReplicas=3)
        seen = told(states(history, name))
    assert (seen[0], seen[-1]) == (("Scaling", 0), ("Running", 3))
    assert {phase for phase, _ in seen} == {"Scaling", "Running"}
    deployment = await webapps.get(name, of=DEPLOYMENTS)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"] == {"app": name}
    assert (container["name"], container["image"]) == ("webapp", IMAGE)
    assert [port["containerPort"] for port in container["ports"]] == [80]
    service = await webapps.get(f"{name}-service", of=SERVICES)
    (port,) = service["spec"]["ports"]
    assert (service["spec"]["type"], port["port"], port["targetPort"]) == ("NodePort", 80, 80)
    assert service["spec"]["selector"] == {"app": name}
    assert owners(deployment) == owners(service) == [("WebApp", uid_of(obj))]
    head, line = (await webapps.kubectl("get", "wa", name)).splitlines()
    assert head.split() == ["NAME", "PHASE", "REPLICAS", "AVAILABLE"]
    assert line.split() == [name, "Running", "3", "3"]


async def test_a_manual_scale_is_put_back(webapps: Objects, site: ExampleSite) -> None:
    """`kubectl scale --replicas=10` is told in log and Event with field and values, and undone down to the Pods."""
    await running(webapps, "scaled", replicas=3)
    async with webapps.history(WEBAPP.primary.gvk) as history:
        await webapps.kubectl("scale", "deployment/scaled", "--replicas=10")
        await wait_until(lambda: _replicas(webapps, "scaled", 3), what="3 replicas again", limit=LIMIT)
        await webapps.reaches("scaled", phase="Running", availableReplicas=3)
        await wait_until(lambda: _count(webapps, "scaled", 3), what="the extra Pods to go", limit=LIMIT)
        await webapps.reaches("scaled", phase="Running", availableReplicas=3)
        phases = [phase for phase, _ in told(states(history, "scaled"))]
    assert (phases[0], phases[-1], "Scaling" in phases) == ("Running", "Running", True)
    (line,) = site.log.told("Dependent changed", name="scaled")
    assert "Deployment" in line["dependent"]
    assert [field for field in map(str, line["fields"]) if "spec.replicas" in field and "3" in field and "10" in field]
    message = await webapps.event("scaled", reason="DependentChanged")
    assert "spec.replicas" in message


async def test_a_manual_image_is_put_back(webapps: Objects) -> None:
    """Another image in the Deployment gives way to the spec's, and the phase is Running when the last Pod has it."""
    await running(webapps, "repainted", replicas=2)
    await webapps.kubectl("set", "image", "deployment/repainted", "webapp=nginx:evil")
    await wait_until(lambda: _generation(webapps, "repainted", 3), what="the change and its undoing", limit=LIMIT)
    await webapps.reaches("repainted", phase="Running", availableReplicas=2)
    assert image_of(await webapps.get("repainted", of=DEPLOYMENTS)) == IMAGE
    await wait_until(lambda: _count(webapps, "repainted", 2), what="the foreign Pods to go", limit=LIMIT)
    assert {pod["spec"]["containers"][0]["image"] for pod in await webapps.pods("app=repainted")} == {IMAGE}


async def test_what_was_added_to_lists_and_selectors_goes(webapps: Objects) -> None:
    """A container, and a label that the Service's selector asks for in addition, are taken away again."""
    await running(webapps, "grown")
    service = await webapps.patch("grown-service", {"spec": {"selector": {"tier": "x"}}}, of=SERVICES)
    assert service["spec"]["selector"] == {"app": "grown", "tier": "x"}
    await wait_until(lambda: _selector(webapps, "grown-service", {"app": "grown"}), what="the selector", limit=LIMIT)
    extra = [{"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "miner", "image": "x"}}]
    await webapps.kube.patch(DEPLOYMENTS, namespace=webapps.namespace, name="grown", body=extra)
    await wait_until(lambda: _containers(webapps, "grown", ["webapp"]), what="one container", limit=LIMIT)
    await webapps.reaches("grown", phase="Running", availableReplicas=1)


async def test_what_is_deleted_by_hand_comes_back(webapps: Objects) -> None:
    """A Deployment and a Service that somebody deletes are there again, as other objects, and owned."""
    obj = await running(webapps, "lost")
    parts = {"lost": DEPLOYMENTS, "lost-service": SERVICES}
    before = {name: uid_of(await webapps.get(name, of=of)) for name, of in parts.items()}
    for name, of in parts.items():
        await webapps.delete(name, of=of)
    for name, of in parts.items():
        after = await webapps.another(name, of=of, than=before[name])
        assert owners(after) == [("WebApp", uid_of(obj))]
    await webapps.reaches("lost", phase="Running", availableReplicas=1)


async def test_an_edit_of_the_spec_scales_and_rolls(webapps: Objects) -> None:
    """Replicas and image of the spec are those of the Deployment, and Running waits for both."""
    await running(webapps, "edited", replicas=1)
    await webapps.patch("edited", {"spec": {"replicas": 2, "image": "nginx:1.27-alpine"}})
    await webapps.reaches("edited", phase="Running", availableReplicas=2)
    deployment = await webapps.get("edited", of=DEPLOYMENTS)
    assert (deployment["spec"]["replicas"], image_of(deployment)) == (2, "nginx:1.27-alpine")
    assert deployment["status"]["updatedReplicas"] == deployment["status"]["replicas"] == 2


async def test_the_phase_is_scaling_as_long_as_pods_are_missing(site: ExampleSite, kube: KubeClient) -> None:
    """Where only two of three Pods find room it is Scaling 2 of 3, and Running without an edit when the third does."""
    crowded = Objects(kube=kube, site=site, namespace=site.crowded)
    await crowded.create("tight", replicas=3, image=IMAGE)
    obj = await crowded.reaches("tight", phase="Scaling", availableReplicas=2)
    await set_room(kube, site, pods=3)
    await crowded.kubectl("delete", "replicaset", "--selector=app=tight")  # a new one doesn't wait in a back-off
    after = await crowded.reaches("tight", phase="Running", availableReplicas=3)
    assert after["metadata"]["generation"] == obj["metadata"]["generation"]


async def test_a_settled_webapp_is_left_alone(webapps: Objects, site: ExampleSite) -> None:
    """Nothing starts a run of a Running one; a run that another's label starts finds changed=0 and writes nothing."""
    await running(webapps, "settled")
    await barrier(webapps, "first-barrier")
    runs, version = site.log.runs("settled"), resource_version_of(await webapps.get("settled"))
    await barrier(webapps, "second-barrier")
    assert (site.log.runs("settled"), resource_version_of(await webapps.get("settled"))) == (runs, version)
    service = await webapps.get("settled-service", of=SERVICES)
    labelled = await webapps.patch("settled", {"metadata": {"labels": {"team": "blue"}}}, of=DEPLOYMENTS)
    await wait_until(lambda: _has_run(site, "settled", runs + 1), what="the run", limit=LIMIT)
    obj = await webapps.reaches("settled", phase="Running")
    (result,) = [entry["ansibleResult"] for entry in conditions_of(obj) if entry["type"] == "Running"]
    assert (result["changed"], result["failures"]) == (0, 0)
    assert resource_version_of(await webapps.get("settled", of=DEPLOYMENTS)) == resource_version_of(labelled)
    assert resource_version_of(await webapps.get("settled-service", of=SERVICES)) == resource_version_of(service)


async def test_nothing_in_a_spec_is_a_template(webapps: Objects) -> None:
    """Braces in an image reach the Deployment as they are."""
    await webapps.create("braces", replicas=0, image="{{1+1}}")
    await webapps.reaches("braces")
    assert image_of(await webapps.get("braces", of=DEPLOYMENTS)) == "{{1+1}}"


async def test_a_deleted_webapp_takes_both_along(webapps: Objects, site: ExampleSite) -> None:
    """The garbage collector removes Deployment, Service and Pods, and no run puts them back."""
    await running(webapps, "doomed", replicas=2)
    await barrier(webapps, "before-doomed")
    runs = site.log.runs("doomed")
    await webapps.delete("doomed")
    await webapps.gone("doomed", of=DEPLOYMENTS)
    await webapps.gone("doomed-service", of=SERVICES)
    await wait_until(lambda: _count(webapps, "doomed", 0), what="the Pods to go", limit=LIMIT)
    await barrier(webapps, "after-doomed")
    assert site.log.runs("doomed") == runs
    await webapps.gone("doomed", of=DEPLOYMENTS)


@pytest.mark.parametrize("plural", ["deployments", pytest.param("services", marks=pytest.mark.full)])
async def test_a_missing_right_is_named_and_healed(webapps: Objects, site: ExampleSite, plural: str) -> None:
    """Without one rule the Failure names verb and resource, the operator stays up, and with the rule back it heals."""
    rules = WEBAPP.document("config/rbac/role.yaml")["rules"]
    name = f"no-{plural}"
    await _grant(webapps.kube, site, rules=[rule for rule in rules if rule["resources"] != [plural]])
    try:
        await webapps.create(name, replicas=1, image=IMAGE)
        message = await wait_until(lambda: _failure(webapps, name), what="a Failure", limit=LIMIT)
        assert site.operator.ready()
    finally:
        await _grant(webapps.kube, site, rules=rules)
    assert f'cannot get resource "{plural}"' in message.replace("\\", "")
    await webapps.reaches(name, phase="Running", availableReplicas=1)


async def _grant(kube: KubeClient, site: ExampleSite, *, rules: list[Object]) -> None:
    await kube.patch(CLUSTER_ROLES, name=site.account, body={"rules": rules})


async def _failure(webapps: Objects, name: str) -> str:
    for entry in conditions_of(await webapps.get(name)):
        if (entry["type"], entry["status"]) == ("Failure", "True"):
            return str(entry["message"])
    return ""


async def _replicas(webapps: Objects, name: str, count: int) -> bool:
    return bool((await webapps.get(name, of=DEPLOYMENTS))["spec"]["replicas"] == count)


async def _generation(webapps: Objects, name: str, number: int) -> bool:
    return bool((await webapps.get(name, of=DEPLOYMENTS))["metadata"]["generation"] >= number)


async def _containers(webapps: Objects, name: str, names: list[str]) -> bool:
    containers = (await webapps.get(name, of=DEPLOYMENTS))["spec"]["template"]["spec"]["containers"]
    return [container["name"] for container in containers] == names


async def _selector(webapps: Objects, name: str, labels: dict[str, str]) -> bool:
    return bool((await webapps.get(name, of=SERVICES))["spec"]["selector"] == labels)


async def _count(webapps: Objects, name: str, count: int) -> bool:
    return len(await webapps.pods(f"app={name}")) == count


async def _has_run(site: ExampleSite, name: str, count: int) -> bool:
    return site.log.runs(name) >= count
