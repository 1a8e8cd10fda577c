"""`examples/02-myapp` on real controllers: what its README promises."""

from __future__ import annotations

from typing import Any

import pytest

from runner.kube.client import KubeClient
from runner.kube.objects import Object, annotations_of, conditions_of, name_of, resource_version_of, uid_of
from runner.sources.store import ChangeKind
from runner.testing.cluster import CONFIG_MAPS, wait_until
from runner.testing.informers import Watched
from tests.integration.examples.example_site import (
    LIMIT,
    MYAPP,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    ExampleSite,
    Objects,
    condition,
    owners,
    set_room,
    states,
)

IMAGE = "registry.example.com/my-app:1.0.0"
NEXT_IMAGE = "registry.example.com/my-app:1.1.0"
INSTANCE = "app.kubernetes.io/instance"


@pytest.fixture
def site(myapp_site: ExampleSite) -> ExampleSite:
    """Give the operator that all tests of MyApp share."""
    return myapp_site


async def running(myapps: Objects, name: str, *, replicas: int = 1, **config: str) -> Object:
    """Create a MyApp and return it when it is Running."""
    await myapps.create(name, replicaCount=replicas, image=IMAGE, config=config)
    return await myapps.reaches(name, phase="Running", availableReplicas=replicas, updatedReplicas=replicas)


def most_pods_away(watched: Watched, *, replicas: int) -> int:
    """Return how many of the Pods that the watch began with were missing or not Ready at the worst moment."""
    ready: set[str] = set()
    fewest = replicas
    for index, change in enumerate(watched.changes):
        name = name_of(change.obj)
        conditions = {entry["type"]: entry["status"] for entry in conditions_of(change.obj)}
        if change.kind is ChangeKind.DELETED or conditions.get("Ready") != "True":
            ready.discard(name)
        else:
            ready.add(name)
        if index >= replicas - 1:
            fewest = min(fewest, len(ready))
    return replicas - fewest


async def test_the_sample_becomes_three_owned_dependents(myapps: Objects) -> None:
    """The sample ends at Running 3/3; StatefulSet, headless Service and ConfigMap are there, each owned once."""
    sample = MYAPP.document("config/samples/myapp.yaml")
    name = sample["metadata"]["name"]
    assert name == "my-app-instance"
    async with myapps.history(MYAPP.primary.gvk) as history:
        await myapps.create(name, **sample["spec"])
        obj = await myapps.reaches(name, phase="Running", availableReplicas=3, updatedReplicas=3)
        phases = [state["status"]["phase"] for state in states(history, name)]
    assert (phases[0], set(phases)) == ("Progressing", {"Progressing", "Running"})
    stateful_set = await myapps.get(name, of=STATEFUL_SETS)
    service = await myapps.get(name, of=SERVICES)
    config_map = await myapps.get(f"{name}-config", of=CONFIG_MAPS)
    assert (stateful_set["spec"]["replicas"], stateful_set["spec"]["serviceName"]) == (3, name)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == stateful_set["spec"]["selector"]["matchLabels"]
    assert config_map["data"] == sample["spec"]["config"]
    for dependent in (stateful_set, service, config_map):
        assert owners(dependent) == [("MyApp", uid_of(obj))]
    head, line = (await myapps.kubectl("get", "ma", name)).splitlines()
    assert head.split() == ["NAME", "PHASE", "REPLICAS", "UPDATED", "AVAILABLE", "AGE"]
    assert line.split()[:-1] == [name, "Running", "3", "3", "3"]


async def test_what_is_edited_or_scaled_by_hand_is_put_back(myapps: Objects, site: ExampleSite) -> None:
    """A scaled StatefulSet, changed, removed and added keys of the ConfigMap, and a Service's port are put back."""
    await running(myapps, "edited", LEVEL="info", GREETING="hello")
    await myapps.kubectl("scale", "statefulset/edited", "--replicas=3")
    await myapps.patch("edited-config", {"data": {"LEVEL": "debug", "GREETING": None, "EXTRA": "1"}}, of=CONFIG_MAPS)
    port = {"name": "http", "port": 8080, "targetPort": 9999, "protocol": "TCP"}
    await myapps.patch("edited", {"spec": {"ports": [port], "selector": {"x": "y"}}}, of=SERVICES)

    async def put_back() -> bool:
        config_map = await myapps.get("edited-config", of=CONFIG_MAPS)
        service = (await myapps.get("edited", of=SERVICES))["spec"]
        return (
            (await myapps.get("edited", of=STATEFUL_SETS))["spec"]["replicas"] == 1
            and config_map["data"] == {"LEVEL": "info", "GREETING": "hello"}
            and [port["targetPort"] for port in service["ports"]] == [8080]
            and "x" not in service["selector"]
        )

    await wait_until(put_back, what="everything to be put back", limit=LIMIT)
    await myapps.reaches("edited", phase="Running", availableReplicas=1)
    told = {line["dependent"].split()[0] for line in site.log.told("Dependent changed", name="edited")}
    assert told == {"StatefulSet", "ConfigMap", "Service"}
    assert "spec.replicas" in await myapps.event("edited", reason="DependentChanged")


async def test_what_is_deleted_by_hand_comes_back(myapps: Objects) -> None:
    """Each of the three is there again, as another object, and owned."""
    obj = await running(myapps, "lost", LEVEL="info")
    parts = {STATEFUL_SETS: "lost", SERVICES: "lost", CONFIG_MAPS: "lost-config"}
    before = {of: uid_of(await myapps.get(name, of=of)) for of, name in parts.items()}
    for of, name in parts.items():
        await myapps.delete(name, of=of)
    for of, name in parts.items():
        assert owners(await myapps.another(name, of=of, than=before[of])) == [("MyApp", uid_of(obj))]
    await myapps.reaches("lost", phase="Running", availableReplicas=1)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"image": NEXT_IMAGE}, id="image", marks=pytest.mark.full),
        pytest.param({"config": {"LEVEL": "debug"}}, id="configuration"),
    ],
)
async def test_an_edit_rolls_one_pod_at_a_time(myapps: Objects, edit: dict[str, Any]) -> None:
    """Another image or configuration replaces every Pod, never two at once, and the count of updated ones follows."""
    name = f"rolled-{next(iter(edit))}"
    await running(myapps, name, replicas=3, LEVEL="info")
    before = {uid_of(pod) for pod in await myapps.pods(f"{INSTANCE}={name}")}
    async with myapps.history(PODS.gvk, selector=f"{INSTANCE}={name}") as history:
        await myapps.patch(name, {"spec": edit})
        await myapps.reaches(name, phase="Running", availableReplicas=3, updatedReplicas=3)
        away = most_pods_away(history, replicas=3)
    pods = await myapps.pods(f"{INSTANCE}={name}")
    assert len(pods) == 3
    assert not before & {uid_of(pod) for pod in pods}
    assert away == 1
    template = (await myapps.get(name, of=STATEFUL_SETS))["spec"]["template"]
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {edit.get("image", IMAGE)}
    for pod in pods:
        hashes = [annotations_of(one)["example.com/config-hash"] for one in (pod, template)]
        assert hashes[0] == hashes[1]


async def test_the_status_says_how_far_a_roll_out_is(site: ExampleSite, kube: KubeClient) -> None:
    """While the second Pod finds no room it is Progressing, Available by the first, and Running when there is room."""
    crowded = Objects(kube=kube, site=site, namespace=site.crowded)
    await running(crowded, "stuck", replicas=2)
    await set_room(kube, site, pods=1)
    await crowded.patch("stuck", {"spec": {"image": NEXT_IMAGE}})
    obj = await crowded.reaches("stuck", phase="Progressing", availableReplicas=1, updatedReplicas=0)
    assert condition(obj, "Available") == ("True", "EnoughPodsAvailable")
    await set_room(kube, site, pods=2)
    await crowded.reaches("stuck", phase="Running", availableReplicas=2, updatedReplicas=2)


async def test_no_text_of_a_spec_is_read_as_anything_else(myapps: Objects) -> None:
    """Braces, quotes, line breaks and other scripts in a configuration arrive as they are, and keys keep their case."""
    text = 'a: {{ 7*7 }}\n"b" #\t\u00e9\u2028\U0001f600'
    await myapps.create("braces", replicaCount=0, image="{{7*7}}", config={"mixedCase": text, "EMPTY": ""})
    obj = await myapps.reaches("braces")
    assert (await myapps.get("braces-config", of=CONFIG_MAPS))["data"] == obj["spec"]["config"]
    assert obj["spec"]["config"]["mixedCase"] == text
    template = (await myapps.get("braces", of=STATEFUL_SETS))["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "{{7*7}}"


async def test_a_settled_myapp_is_left_alone(myapps: Objects, site: ExampleSite) -> None:
    """Once it is Running nothing starts a run; one that another's label starts finds changed=0 and writes nothing."""
    await running(myapps, "settled", LEVEL="info")
    await running(myapps, "first-barrier", replicas=0)
    runs = site.log.runs("settled")
    labelled = await myapps.patch("settled", {"metadata": {"labels": {"team": "blue"}}}, of=STATEFUL_SETS)

    async def has_run() -> bool:
        return site.log.runs("settled") > runs

    await wait_until(has_run, what="the run that the label starts", limit=LIMIT)
    obj = await myapps.reaches("settled", phase="Running")
    assert site.log.runs("settled") == runs + 1
    (result,) = [entry["ansibleResult"] for entry in conditions_of(obj) if entry["type"] == "Running"]
    assert (result["changed"], result["failures"]) == (0, 0)
    assert resource_version_of(await myapps.get("settled", of=STATEFUL_SETS)) == resource_version_of(labelled)


async def test_a_deleted_myapp_takes_all_along(myapps: Objects) -> None:
    """The garbage collector removes StatefulSet, Service, ConfigMap and Pods."""
    await running(myapps, "doomed", LEVEL="info")
    await myapps.delete("doomed")
    await myapps.gone("doomed", of=STATEFUL_SETS)
    await myapps.gone("doomed", of=SERVICES)
    await myapps.gone("doomed-config", of=CONFIG_MAPS)

    async def no_pods() -> bool:
        return not await myapps.pods(f"{INSTANCE}=doomed")

    await wait_until(no_pods, what="the Pods to go", limit=LIMIT)
