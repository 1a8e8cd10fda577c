"""What the API server says about objects of the examples: wrong ones are refused with the field's path."""

from __future__ import annotations

from typing import Any

import pytest

from runner.errors import Invalid
from runner.kube.client import KubeClient
from runner.testing.cluster import install_crd
from tests.integration.examples.example_site import MYAPP, WEBAPP, Example

GOOD: dict[str, dict[str, Any]] = {
    "WebApp": {"replicas": 3, "image": "nginx:1.25-alpine"},
    "MyApp": {"replicaCount": 3, "image": "registry.example.com/my-app:1.0.0"},
}


async def create(kube: KubeClient, namespace: str, example: Example, *, spec: dict[str, Any], name: str = "one") -> Any:
    """Create a good object with *spec* on top; None takes a field away. Return its spec and status as they are read."""
    primary = example.primary
    (definition,) = (example.folder / "crds").glob("*.yaml")
    await install_crd(kube, example.document(f"crds/{definition.name}"))
    merged = {**GOOD[primary.gvk.kind], **spec}
    body = {
        "apiVersion": primary.gvk.api_version,
        "kind": primary.gvk.kind,
        "metadata": {"name": name},
        "spec": {key: value for key, value in merged.items() if value is not None},
    }
    await kube.create(primary, namespace=namespace, body=body)
    found = await kube.get(primary, namespace=namespace, name=name)
    return found["spec"], found["status"]


@pytest.mark.parametrize(
    ("example", "wrong", "sentence"),
    [
        (WEBAPP, {"replicas": "three"}, 'spec.replicas: Invalid value: "string"'),
        (WEBAPP, {"replicas": -1}, "spec.replicas: Invalid value: -1"),
        (WEBAPP, {"image": None}, "spec.image: Required value"),
        (WEBAPP, {"image": "nginx latest"}, "spec.image: Invalid value"),
        (WEBAPP, "a" * 56, "the Service is named after it"),
        (WEBAPP, "1st", "begin with a letter"),
        (MYAPP, {"replicaCount": "three"}, 'spec.replicaCount: Invalid value: "string"'),
        (MYAPP, {"replicaCount": "3"}, 'spec.replicaCount: Invalid value: "string"'),
        (MYAPP, {"replicaCount": -1}, "spec.replicaCount: Invalid value: -1"),
        (MYAPP, {"image": ""}, "spec.image: Invalid value"),
        (MYAPP, {"config": {"log level": "x"}}, "a key of config must be the name of an environment variable"),
        (MYAPP, {"config": {"LEVEL": 3}}, "spec.config.LEVEL: Invalid value"),
        (MYAPP, "a" * 53, "Service and Pods are named after it"),
    ],
)
async def test_a_wrong_object_is_refused(
    kube: KubeClient, namespace: str, example: Example, wrong: dict[str, Any] | str, sentence: str
) -> None:
    """The API server names the field, or says in a sentence what is wrong with it."""
    asked: dict[str, Any] = {"spec": {}, "name": wrong} if isinstance(wrong, str) else {"spec": wrong}
    with pytest.raises(Invalid) as caught:
        await create(kube, namespace, example, **asked)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("example", "count", "status"),
    [
        (WEBAPP, "replicas", {"phase": "Scaling", "availableReplicas": 0}),
        (MYAPP, "replicaCount", {"phase": "Progressing", "availableReplicas": 0, "updatedReplicas": 0}),
    ],
    ids=["webapp", "myapp"],
)
async def test_the_status_is_there_before_any_run(
    kube: KubeClient, namespace: str, example: Example, count: str, status: dict[str, Any]
) -> None:
    """An object that no operator has seen yet has one replica by default, and phase and counts in its status."""
    spec, found = await create(kube, namespace, example, spec={count: None})
    assert spec[count] == 1
    assert found == status
