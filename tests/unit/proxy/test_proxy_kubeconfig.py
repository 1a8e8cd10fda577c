"""The kubeconfig that leads a run to the proxy: the peer's form, with a secret for a password."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import pytest

from runner.kube.objects import GVK
from runner.proxy.exchange import Owner
from runner.proxy.kubeconfig import document_for, owner_of, username_of

WEB = Owner(gvk=GVK("apps.example.com", "v1", "Web"), namespace="shop", name="front", uid="8d7f0f0c")
CLUSTER = Owner(gvk=GVK("", "v1", "Node"), name="node-1", uid="1")


def test_the_document_has_the_peers_form() -> None:
    """Names, structure and the two places of the credentials are the peer's; only the password is a secret."""
    name = username_of(WEB)
    assert document_for(WEB, secret="s3cret", port=8888) == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "proxy-server",
                "cluster": {"insecure-skip-tls-verify": True, "server": f"http://{name}:s3cret@localhost:8888"},
            }
        ],
        "contexts": [
            {"name": "shop/proxy-server", "context": {"cluster": "proxy-server", "user": "admin/proxy-server"}}
        ],
        "current-context": "shop/proxy-server",
        "preferences": {},
        "users": [{"name": "admin/proxy-server", "user": {"username": name, "password": "s3cret"}}],
    }


def test_the_user_name_is_the_peers_identity() -> None:
    """It is JSON with the peer's keys in their order, `Namespace` with its capital, also where that is empty."""
    assert base64.urlsafe_b64decode(username_of(CLUSTER)).decode() == (
        '{"apiVersion":"v1","kind":"Node","name":"node-1","uid":"1","Namespace":""}'
    )


@pytest.mark.parametrize("owner", [WEB, CLUSTER, replace(WEB, name="a.b-c"), replace(WEB, name="ä?>~ü")])
def test_the_owner_comes_back(owner: Owner) -> None:
    """What was written is read, in either alphabet of base64."""
    username = username_of(owner)
    assert owner_of(username) == owner
    assert owner_of(username.replace("-", "+").replace("_", "/")) == owner


@pytest.mark.parametrize("owner", [WEB, replace(WEB, name="ä?>~ü"), replace(WEB, name="x")])
def test_the_url_carries_both_whole(owner: Owner) -> None:
    """User and password survive a URL, whatever characters they have."""
    document = document_for(owner, secret="a:b@c/d?e#f", port=1)
    parts = urlsplit(document["clusters"][0]["cluster"]["server"])
    assert (unquote(parts.username or ""), unquote(parts.password or "")) == (username_of(owner), "a:b@c/d?e#f")
    assert (parts.hostname, parts.port) == ("localhost", 1)


@pytest.mark.parametrize("identity", ["[]", "{}", '{"kind":"Web"}', '{"kind":1,"name":"x","uid":"1"}', "no JSON"])
def test_what_names_no_owner_is_refused(identity: str) -> None:
    """An identity is an object whose fields are texts, with a kind and a name."""
    with pytest.raises(ValueError, match=r"."):
        owner_of(base64.b64encode(identity.encode()).decode())


def test_deep_nesting_is_refused() -> None:
    """A user name that is a nest of brackets is an error like any other."""
    with pytest.raises(ValueError, match=r"."):
        owner_of(base64.b64encode(json.dumps({}).replace("{}", "[" * 100_000).encode()).decode())
