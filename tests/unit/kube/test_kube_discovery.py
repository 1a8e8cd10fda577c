"""Which URL belongs to a kind."""

from __future__ import annotations

import pytest

from runner.errors import Call, NotFound, ServerError
from runner.kube.discovery import Discovery, Resource
from runner.kube.objects import GVK, Object

DEPLOYMENT = GVK("apps", "v1", "Deployment")
CORE = {
    "resources": [
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
        {"name": "pods", "kind": "Pod", "namespaced": True},
        {"name": "pods/eviction", "kind": "Eviction", "namespaced": True},
        {"name": "pods/status", "kind": "Pod", "namespaced": True},
    ]
}


class Answers:
    """Plays the one verb of a client that discovery needs, from a table."""

    def __init__(self, table: dict[str, Object]) -> None:
        """Answer as in *table*."""
        self.table = table
        self.asked: list[str] = []

    async def request(self, method: str, path: str, *, call: Call) -> Object:
        """Answer, or say that nothing is there."""
        assert method == "GET"
        self.asked.append(path)
        if path not in self.table:
            raise NotFound("no such path", call=call, status=404)
        return self.table[path]


async def test_a_core_kind_is_found_with_its_subresources() -> None:
    """Plural, scope and subresources come from the API server."""
    discovery = Discovery(client=Answers({"/api/v1": CORE}))
    found = await discovery.resource(GVK("", "v1", "Pod"))
    assert (found.plural, found.namespaced, found.subresources) == ("pods", True, frozenset({"eviction", "status"}))
    assert not (await discovery.resource(GVK("", "v1", "Namespace"))).namespaced


async def test_a_subresource_is_not_taken_for_a_kind() -> None:
    """A kind that exists as a subresource only is not found."""
    with pytest.raises(NotFound, match="serves v1, but no kind Eviction"):
        await Discovery(client=Answers({"/api/v1": CORE})).resource(GVK("", "v1", "Eviction"))


async def test_a_found_kind_is_asked_for_once() -> None:
    """What was found is remembered until it is forgotten."""
    client = Answers({"/api/v1": CORE})
    discovery = Discovery(client=client)
    pod = GVK("", "v1", "Pod")
    await discovery.resource(pod)
    await discovery.resource(pod)
    assert client.asked == ["/api/v1"]
    discovery.forget(pod)
    discovery.forget(pod)
    await discovery.resource(pod)
    assert client.asked == ["/api/v1", "/api/v1"]


async def test_a_missing_kind_is_asked_for_each_time() -> None:
    """A kind whose CRD comes later is found then."""
    client = Answers({})
    discovery = Discovery(client=client)
    with pytest.raises(NotFound):
        await discovery.resource(DEPLOYMENT)
    client.table["/apis/apps/v1"] = {
        "resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]
    }  # fmt: skip
    assert (await discovery.resource(DEPLOYMENT)).plural == "deployments"


async def test_a_group_version_without_resources_is_a_missing_kind() -> None:
    """An empty or absent list of resources means that the kind is not served."""
    documents: list[Object] = [{"resources": []}, {"resources": None}, {}]
    for document in documents:
        with pytest.raises(NotFound):
            await Discovery(client=Answers({"/apis/apps/v1": document})).resource(DEPLOYMENT)


async def test_other_trouble_is_passed_on() -> None:
    """An API server out of order is not taken for one that does not serve the kind."""

    class Broken(Answers):
        async def request(self, method: str, path: str, *, call: Call) -> Object:
            raise ServerError(f"{method} {path}", call=call, status=503)

    with pytest.raises(ServerError):
        await Discovery(client=Broken({})).resource(DEPLOYMENT)


def test_paths_of_a_namespaced_kind() -> None:
    """Collection, object and subresource have the API's URLs; without a namespace it is the collection of all."""
    resource = Resource(gvk=DEPLOYMENT, plural="deployments")
    assert resource.path() == "/apis/apps/v1/deployments"
    assert resource.path(namespace="ns") == "/apis/apps/v1/namespaces/ns/deployments"
    assert resource.path(namespace="ns", name="a") == "/apis/apps/v1/namespaces/ns/deployments/a"
    assert resource.path(namespace="ns", name="a", subresource="status").endswith("/deployments/a/status")


def test_paths_of_a_cluster_scoped_core_kind() -> None:
    """A namespace is ignored for cluster scope, and the core group lives under /api."""
    resource = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)
    assert resource.path(namespace="ns", name="n1") == "/api/v1/nodes/n1"


def test_labels_are_what_rbac_rules_say() -> None:
    """Messages name plural, group and subresource."""
    assert Resource(gvk=DEPLOYMENT, plural="deployments").label("status") == "deployments.apps/status"
    assert Resource(gvk=GVK("", "v1", "Pod"), plural="pods").label() == "pods"
