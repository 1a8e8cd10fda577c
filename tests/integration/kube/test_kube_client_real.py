"""The client against the real API server: verbs and what its refusals become."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from runner.errors import (
    AlreadyExists,
    Call,
    ConfigError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Unauthorized,
)
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.kube.objects import GVK, Object
from runner.localdev.plane import ControlPlane
from runner.settings import KubeSettings
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, SECRETS, crd, install_crd, remove_crd
from runner.testing.identities import new_identity
from runner.testing.kubeconfig import derived_kubeconfig

WHO = Call(verb="create", resource="selfsubjectreviews.authentication.k8s.io")


def config_map(name: str, **data: str) -> Object:
    """Build a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def client_for(kubeconfig: Path) -> KubeClient:
    """Build a client."""
    return KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig)))


async def test_an_object_can_be_created_read_replaced_patched_and_deleted(kube: KubeClient, namespace: str) -> None:
    """All verbs answer with the object; a mapping is a merge patch, a list a JSON patch."""
    made = await kube.create(CONFIG_MAPS, namespace=namespace, body=config_map("a", k="1"))
    read = await kube.get(CONFIG_MAPS, namespace=namespace, name="a")
    assert read == made
    replaced = await kube.replace(CONFIG_MAPS, body={**read, "data": {"k": "2"}})
    assert replaced["data"] == {"k": "2"}
    merged = await kube.patch(CONFIG_MAPS, namespace=namespace, name="a", body={"data": {"l": "3"}})
    assert merged["data"] == {"k": "2", "l": "3"}
    steps = [{"op": "test", "path": "/data/l", "value": "3"}, {"op": "remove", "path": "/data/l"}]
    patched = await kube.patch(CONFIG_MAPS, namespace=namespace, name="a", body=steps)
    assert patched["data"] == {"k": "2"}
    await kube.delete(CONFIG_MAPS, namespace=namespace, name="a")
    with pytest.raises(NotFound, match="get configmaps a in namespace"):
        await kube.get(CONFIG_MAPS, namespace=namespace, name="a")


async def test_a_list_takes_selectors_and_knows_the_kind(kube: KubeClient, namespace: str) -> None:
    """Lists are filtered by the server, and built-in kinds get apiVersion and kind."""
    labelled = config_map("a")
    labelled["metadata"]["labels"] = {"tier": "x,y"[:1]}
    await kube.create(CONFIG_MAPS, namespace=namespace, body=labelled)
    await kube.create(CONFIG_MAPS, namespace=namespace, body=config_map("b"))
    found = await kube.list(CONFIG_MAPS, namespace=namespace, query=(("labelSelector", "tier in (x, z),!other"),))
    assert [obj["metadata"]["name"] for obj in found] == ["a"]
    assert (found[0]["apiVersion"], found[0]["kind"]) == ("v1", "ConfigMap")


async def test_an_old_version_is_a_conflict(kube: KubeClient, namespace: str) -> None:
    """A replace with an outdated resourceVersion is refused."""
    old = await kube.create(CONFIG_MAPS, namespace=namespace, body=config_map("a"))
    await kube.replace(CONFIG_MAPS, body={**old, "data": {"k": "1"}})
    with pytest.raises(Conflict):
        await kube.replace(CONFIG_MAPS, body={**old, "data": {"k": "2"}})


async def test_a_delete_of_another_uid_is_a_conflict(kube: KubeClient, namespace: str) -> None:
    """A precondition in the delete options is respected."""
    await kube.create(CONFIG_MAPS, namespace=namespace, body=config_map("a"))
    with pytest.raises(Conflict):
        await kube.delete(CONFIG_MAPS, namespace=namespace, name="a", options={"preconditions": {"uid": "other"}})


async def test_a_taken_name_already_exists(kube: KubeClient, namespace: str) -> None:
    """A second create of a name is told apart from a conflict."""
    await kube.create(CONFIG_MAPS, namespace=namespace, body=config_map("a"))
    with pytest.raises(AlreadyExists, match="create configmaps a in namespace"):
        await kube.create(CONFIG_MAPS, namespace=namespace, body=config_map("a"))


async def test_a_body_that_validation_refuses_is_invalid(kube: KubeClient, namespace: str) -> None:
    """A wrong name (422) and a wrong type (400) are both final."""
    with pytest.raises(Invalid):
        await kube.create(CONFIG_MAPS, namespace=namespace, body=config_map("NOT_A_NAME"))
    with pytest.raises(Invalid):
        await kube.create(CONFIG_MAPS, namespace=namespace, body={**config_map("a"), "data": "text"})
    with pytest.raises(Invalid):
        await kube.patch(NAMESPACES, name=namespace, body=[{"op": "test", "path": "/metadata/name", "value": "other"}])


async def test_an_unknown_kind_is_not_found(kube: KubeClient) -> None:
    """Discovery tells a missing kind and a missing group alike."""
    discovery = Discovery(client=kube)
    for gvk in (GVK("", "v1", "Nothing"), GVK("nothing.example.com", "v1", "Nothing"), GVK("apps", "v9", "Deployment")):
        with pytest.raises(NotFound):
            await discovery.resource(gvk)


async def test_discovery_knows_scope_and_subresources(kube: KubeClient) -> None:
    """Built-in and custom kinds are found with what belongs to them."""
    discovery = Discovery(client=kube)
    deployment = await discovery.resource(GVK("apps", "v1", "Deployment"))
    assert (deployment.plural, deployment.namespaced) == ("deployments", True)
    assert {"status", "scale"} <= deployment.subresources
    assert not (await discovery.resource(GVK("", "v1", "Node"))).namespaced
    bare = await install_crd(kube, crd("ClientBare", status=False))
    try:
        assert bare.subresources == frozenset()
    finally:
        await remove_crd(kube, "clientbares.test.example.com")


async def test_a_missing_right_is_forbidden(
    plane: ControlPlane, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    """The message names the right that is missing; what is granted works."""
    identity = await new_identity(kube, namespace=namespace)
    await identity.grant(CONFIG_MAPS, verbs=["list"])
    kubeconfig = await identity.kubeconfig(tmp_path / "kubeconfig", source=plane.kubeconfig)
    async with client_for(kubeconfig) as client:
        await client.list(CONFIG_MAPS, namespace=namespace)
        with pytest.raises(Forbidden, match='cannot list resource "secrets"'):
            await client.list(SECRETS, namespace=namespace)


async def test_a_token_file_is_read_again_when_the_token_is_refused(
    plane: ControlPlane, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    """A client whose token is refused takes the new one from the file with its next request, without a restart."""
    token = tmp_path / "token"
    token.write_text("expired", encoding="utf-8")
    user = {"tokenFile": str(token)}
    kubeconfig = derived_kubeconfig(tmp_path / "kubeconfig", source=plane.kubeconfig, user=user)
    identity = await new_identity(kube, namespace=namespace)
    async with client_for(kubeconfig) as client:
        with pytest.raises(Unauthorized):
            await client.request("GET", "/api/v1", call=WHO)
        token.write_text(f"{await identity.token()}\n", encoding="utf-8")
        path, body = "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"kind": "SelfSubjectReview"}
        review = await client.request("POST", path, body={"apiVersion": "authentication.k8s.io/v1", **body}, call=WHO)
        assert review["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:tester"


async def test_a_garbled_continue_token_is_refused(kube: KubeClient) -> None:
    """A wrong continue token is an error of the request, never an endless loop."""
    with pytest.raises((Invalid, Gone)):
        await kube.list(CONFIG_MAPS, query=(("continue", "garbage"),))


async def test_a_closed_port_is_a_connection_failure(plane: ControlPlane, tmp_path: Path) -> None:
    """An API server that is not there is told as no answer."""
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{taken.getsockname()[1]}"
        kubeconfig = derived_kubeconfig(tmp_path / "kubeconfig", source=plane.kubeconfig, server=server)
        async with client_for(kubeconfig) as client:
            with pytest.raises(ConnectionFailed):
                await client.list(NAMESPACES)


async def test_a_foreign_certificate_is_a_connection_failure(plane: ControlPlane, tmp_path: Path) -> None:
    """A server whose certificate does not fit is not talked to."""
    port = plane.server.rpartition(":")[2]
    kubeconfig = derived_kubeconfig(
        tmp_path / "kubeconfig", source=plane.kubeconfig, server=f"https://127.0.0.2:{port}"
    )
    async with client_for(kubeconfig) as client:
        with pytest.raises(ConnectionFailed):
            await client.list(NAMESPACES)


async def test_a_broken_kubeconfig_is_a_config_error(tmp_path: Path) -> None:
    """A file without contexts is named with the remedy."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("apiVersion: v1\nkind: Config\n", encoding="utf-8")
    async with client_for(kubeconfig) as client:
        with pytest.raises(ConfigError, match="set KUBECONFIG"):
            await client.list(NAMESPACES)
