"""How our `operator_sdk.util` modules find a kind: by the document of its version alone, where that tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.operator_sdk.util.plugins.module_utils import api
from kubernetes.client import Configuration
from kubernetes.dynamic.exceptions import NotFoundError

EVERYTHING = ["/version", "/apis"]
"""What the client's own discovery asks for first."""


def _resource(kind: str, *, name: str | None = None) -> dict[str, Any]:
    plural = name or f"{kind.lower()}s"
    return {"kind": kind, "name": plural, "singularName": kind.lower(), "namespaced": True, "verbs": ["get"]}


DOCUMENTS: dict[str, dict[str, Any]] = {
    "/version": {"gitVersion": "v1.34.0"},
    "/apis": {
        "groups": [
            {
                "name": name,
                "versions": [{"version": "v1", "groupVersion": f"{name}/v1"}],
                "preferredVersion": {"version": "v1", "groupVersion": f"{name}/v1"},
            }
            for name in ("example.com", "twice.example.com")
        ]
    },
    "/api/v1": {"resources": [_resource("Pod"), _resource("Event")]},
    "/apis/example.com/v1": {
        "resources": [_resource("Gadget"), {**_resource("Gadget", name="gadgets/status"), "verbs": ["patch"]}]
    },
    "/apis/twice.example.com/v1": {
        "resources": [_resource("Gadget"), _resource("Gadget", name="gizmos"), _resource("Gizmo", name="x")]
    },
}


class Server:
    """A dynamic client's lower half: gives documents, and remembers for which it was asked."""

    def __init__(self, *, problem: Exception | None = None) -> None:
        self.configuration = Configuration(host="http://user:secret@127.0.0.1:1")
        self.asked: list[str] = []
        self._problem = problem
        self.resources = api.Kinds(self, None)

    def request(self, _method: str, path: str, **_options: Any) -> Any:
        """Answer as `DynamicClient.request` does."""
        path = f"/{path.lstrip('/')}"
        self.asked.append(path)
        if self._problem is not None:
            raise self._problem
        if path not in DOCUMENTS:
            raise NotFoundError(SimpleNamespace(status=404, reason="Not Found", body=b"", headers={}))
        return SimpleNamespace(**{"resources": None, "groups": None, **DOCUMENTS[path]})


@pytest.fixture(autouse=True)
def no_cache_of_others(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own discovery keeps a file in the folder for temporary ones."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.parametrize(
    ("api_version", "kind", "asked"),
    [("example.com/v1", "Gadget", ["/apis/example.com/v1"]), ("v1", "Event", ["/api/v1"])],
)
def test_a_kind_costs_one_request_and_leaves_no_file(
    api_version: str, kind: str, asked: list[str], tmp_path: Any
) -> None:
    """Neither the server's version nor its groups are asked for, and nothing is kept that could be out of date."""
    server = Server()
    found = api.find_resource(server, kind=kind, api_version=api_version)
    assert (found.kind, found.group_version, server.asked) == (kind, api_version, asked)
    assert not list(tmp_path.iterdir())


def test_subresources_are_found_with_their_kind() -> None:
    """`k8s_status` tells by them whether there is a status to write."""
    assert list(api.find_resource(Server(), kind="Gadget", api_version="example.com/v1").subresources) == ["status"]


@pytest.mark.parametrize("name", ["gadgets", "gadget"])
def test_another_name_of_a_kind_is_looked_for_everywhere(name: str) -> None:
    """Plural and singular are found by the client's own search, after the version's document had no such kind."""
    server = Server()
    assert api.find_resource(server, kind=name, api_version="example.com/v1").kind == "Gadget"
    assert server.asked[:3] == ["/apis/example.com/v1", *EVERYTHING]


def test_a_kind_of_another_group_of_that_version_is_found_as_ever() -> None:
    """`v1` without a group is also that of each group that has a v1, where the core has no such kind."""
    assert api.find_resource(Server(), kind="Gizmo", api_version="v1").group == "twice.example.com"


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("example.com/v1", "Missing"), ("gone.example.com/v1", "Gadget"), ("twice.example.com/v1", "Gadget")],
)
def test_what_is_missing_or_ambiguous_is_refused_by_the_published_sentence(api_version: str, kind: str) -> None:
    """A kind, a group or one of two resources: roles look for these words."""
    with pytest.raises(api.Failure, match=f"Failed to find exact match for {api_version}.{kind} by"):
        api.find_resource(Server(), kind=kind, api_version=api_version)


@pytest.mark.parametrize("kind", ["Gadget", ""])
def test_a_server_that_cannot_be_reached_is_told_without_its_password(kind: str) -> None:
    """By the one request as by the client's own search, once: nobody waits for it twice."""
    server = Server(problem=OSError("refused"))
    with pytest.raises(api.Failure, match=r"cannot reach the API server at http://127\.0\.0\.1:1: refused"):
        api.find_resource(server, kind=kind, api_version="example.com/v1")
    assert len(server.asked) == 1
