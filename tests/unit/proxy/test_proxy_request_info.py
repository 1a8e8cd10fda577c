"""What a request is about, by kube-apiserver's rules."""

from __future__ import annotations

import random
from dataclasses import fields

import pytest

from runner.proxy.request_info import RequestInfo, parse

POD = {"prefix": "api", "version": "v1", "resource": "pods"}
DEPLOYMENT = {"prefix": "apis", "group": "apps", "version": "v1", "resource": "deployments"}


def told(info: RequestInfo) -> dict[str, object]:
    """Return the fields that say something, but for those that repeat the request."""
    rest = {field.name: getattr(info, field.name) for field in fields(info)}
    return {name: value for name, value in rest.items() if value and name not in {"path", "method", "is_resource"}}


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/pods", {**POD, "verb": "list", "parts": ("pods",)}),
        ("HEAD", "/api/v1/pods", {**POD, "verb": "list", "parts": ("pods",)}),
        ("GET", "/api/v1/namespaces/ns/pods/", {**POD, "verb": "list", "namespace": "ns", "parts": ("pods",)}),
        ("GET", "//api/v1/pods//", {**POD, "verb": "list", "parts": ("pods",)}),
        ("GET", "/api/v1/pods?watch=true", {**POD, "verb": "watch", "parts": ("pods",)}),
        ("GET", "/api/v1/pods?watch", {**POD, "verb": "watch", "parts": ("pods",)}),
        ("GET", "/api/v1/pods?watch=0", {**POD, "verb": "list", "parts": ("pods",)}),
        ("GET", "/api/v1/pods?watch=False&watch=1", {**POD, "verb": "list", "parts": ("pods",)}),
        ("GET", "/api/v1/pods?limit=5", {**POD, "verb": "list", "parts": ("pods",)}),
        ("DELETE", "/api/v1/pods", {**POD, "verb": "deletecollection", "parts": ("pods",)}),
        (
            "get",
            "/api/v1/namespaces/ns/pods/p",
            {**POD, "verb": "get", "namespace": "ns", "name": "p", "parts": ("pods", "p")},
        ),
        (
            "POST",
            "/apis/apps/v1/namespaces/ns/deployments",
            {**DEPLOYMENT, "verb": "create", "namespace": "ns", "parts": ("deployments",)},
        ),
        (
            "PUT",
            "/apis/apps/v1/namespaces/ns/deployments/d/scale",
            {
                **DEPLOYMENT,
                "verb": "update",
                "namespace": "ns",
                "name": "d",
                "subresource": "scale",
                "parts": ("deployments", "d", "scale"),
            },
        ),
        (
            "POST",
            "/api/v1/namespaces/ns/pods/p/exec?command=date&command=-u",
            {
                **POD,
                "verb": "create",
                "namespace": "ns",
                "name": "p",
                "subresource": "exec",
                "parts": ("pods", "p", "exec"),
            },
        ),
        (
            "PATCH",
            "/api/v1/namespaces/a%2Db/pods/p%3Aq",
            {**POD, "verb": "patch", "namespace": "a-b", "name": "p:q", "parts": ("pods", "p:q")},
        ),
        ("POST", "/api/v1/namespaces%2Fns/pods", {**POD, "verb": "create", "namespace": "ns", "parts": ("pods",)}),
        ("POST", "http://localhost:8888/api/v1/pods", {**POD, "verb": "create", "parts": ("pods",)}),
    ],
)
def test_resources(method: str, target: str, expected: dict[str, object]) -> None:
    """Verb, group, version, namespace, name and subresource are read from method and URL."""
    info = parse(method, target)
    assert info.is_resource
    assert told(info) == expected


@pytest.mark.parametrize(
    ("target", "namespace", "resource", "name", "subresource"),
    [
        ("/api/v1/namespaces", "", "namespaces", "", ""),
        ("/api/v1/namespaces/ns", "ns", "namespaces", "ns", ""),
        ("/api/v1/namespaces/ns/status", "ns", "namespaces", "ns", "status"),
        ("/api/v1/namespaces/ns/finalize", "ns", "namespaces", "ns", "finalize"),
        ("/api/v1/namespaces/ns/configmaps", "ns", "configmaps", "", ""),
        ("/api/v1/namespaces/status/configmaps", "status", "configmaps", "", ""),
        ("/apis/apps/v1/namespaces/ns/deployments", "ns", "deployments", "", ""),
    ],
)
def test_namespaces(target: str, namespace: str, resource: str, name: str, subresource: str) -> None:
    """What follows a namespace is a resource in it, but for the Namespace's own two subresources."""
    info = parse("PUT", target)
    assert (info.namespace, info.resource, info.name, info.subresource) == (namespace, resource, name, subresource)


@pytest.mark.parametrize(
    "target",
    ["", "/", "*", "/version", "/api", "/api/v1", "/apis/apps/v1", "/apis/apps/v1/", "/openapi/v2/a/b", "/API/v1/pods"],
)
def test_other_paths_are_about_no_resource(target: str) -> None:
    """Discovery, version, OpenAPI and whatever else is served keep the method in small letters as the verb."""
    info = parse("GET", target)
    assert not info.is_resource
    assert told(info) == {"verb": "get"}


@pytest.mark.parametrize(
    ("target", "verb", "subresource"),
    [
        ("/api/v1/watch/namespaces/ns/pods", "watch", ""),
        ("/api/v1/proxy/namespaces/ns/pods/p/a/b", "proxy", ""),
        ("/api/v1/watch/pods", "watch", ""),
    ],
)
def test_verbs_in_the_path(target: str, verb: str, subresource: str) -> None:
    """A first segment `watch` or `proxy` is the verb whatever the method, and what follows a proxied name is a path."""
    for method in ("GET", "POST", "DELETE"):
        info = parse(method, target)
        assert (info.verb, info.resource, info.subresource) == (verb, "pods", subresource)


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=x", "x"),
        ("metadata.name%3D%3Dx", "x"),
        ("spec.nodeName=n,metadata.name=x", "x"),
        (r"metadata.name=a\,b", "a,b"),
        ("metadata.name!=x", ""),
        ("metadata.namespace=x", ""),
        ("metadata.name=x,broken", ""),
        ("metadata.name=..", ""),
        ("metadata.name=a/b", ""),
        ("", ""),
    ],
)
def test_a_field_selector_can_name_the_object(selector: str, name: str) -> None:
    """A list or watch of one name is about that object, and still a list or watch."""
    assert parse("GET", f"/api/v1/pods?fieldSelector={selector}").name == name
    watch = parse("GET", f"/api/v1/pods?watch=1&fieldSelector={selector}")
    assert (watch.verb, watch.name) == ("watch", name)
    assert parse("DELETE", f"/api/v1/pods?fieldSelector={selector}").name == ""


def test_nothing_raises() -> None:
    """Whatever stands in a request line is answered, with a resource that is never half a one."""
    source = random.Random(5)  # noqa: S311 - the same cases each time
    pieces = [
        *(
            "/",
            "//",
            "?",
            "&",
            "=",
            "%",
            "%2F",
            "%zz",
            "%c3%28",
            "#",
            ";",
            ",",
            "\\",
            ".",
            "..",
            "*",
            "\x00",
            "\udcff",
            "é",
        ),
        *("api", "apis", "v1", "apps", "namespaces", "pods", "p", "status", "watch", "proxy", "watch=1", "://"),
        *("fieldSelector=metadata.name=x", "fieldSelector=\\", "http://h"),
    ]
    for _ in range(20_000):
        target = "".join(source.choices(pieces, k=source.randint(0, 12)))
        info = parse(source.choice(["GET", "POST", "DELETE", "", "BREW"]), target)
        assert info.is_resource == bool(info.parts), target
        assert not info.is_resource or info.resource == info.parts[0], target
