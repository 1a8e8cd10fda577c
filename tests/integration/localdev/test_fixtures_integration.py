"""The session's plane as other tests get it: client, namespace, CRDs, EC2 endpoint."""

from __future__ import annotations

import http.client
from contextlib import closing
from urllib.parse import urlsplit

from runner.kube.client import KubeClient
from runner.kube.objects import Object
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, crd, install_crd, remove_crd


async def test_each_test_has_a_namespace_of_its_own(kube: KubeClient, namespace: str) -> None:
    """The namespace is there, is empty but for what the controllers put in, and takes objects."""
    found = await kube.get(NAMESPACES, name=namespace)
    assert found["status"]["phase"] == "Active"
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}}
    await kube.create(CONFIG_MAPS, body=body, namespace=namespace)


async def test_a_crd_is_served_when_its_installation_returns(kube: KubeClient, namespace: str) -> None:
    """Objects of a kind can be made and listed at once; installing it again changes nothing."""
    definition = crd("Fixturewidget", versions=("v1alpha1", "v1"))
    widgets = await install_crd(kube, definition)
    assert await install_crd(kube, definition) == widgets
    assert widgets.gvk.version == "v1alpha1"
    assert widgets.subresources == {"status"}
    body: Object = {
        "apiVersion": widgets.gvk.api_version,
        "kind": widgets.gvk.kind,
        "metadata": {"name": "w"},
        "spec": {"anything": [1, {"goes": True}]},
    }
    await kube.create(widgets, body=body, namespace=namespace)
    (found,) = await kube.list(widgets, namespace=namespace)
    assert found["spec"] == body["spec"]
    await remove_crd(kube, "fixturewidgets.test.example.com")


def test_the_ec2_emulator_answers(plane: ControlPlane, ec2: str) -> None:
    """The session's plane has an EC2 emulator that is healthy on loopback."""
    assert ec2 == plane.ec2_endpoint
    address = urlsplit(ec2)
    assert address.hostname == "127.0.0.1"
    with closing(http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)) as connection:
        connection.request("GET", "/sim/health")
        assert connection.getresponse().status == 200
