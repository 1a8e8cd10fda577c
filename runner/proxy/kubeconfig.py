"""The kubeconfig that leads a run to the proxy, and the owner identity in it: written here, read back by `runs`.

Its form is the peer's, so that whoever reads it finds what they look for: kubectl and curl take user and password from
the URL, the Python client from the user entry. Only the password is ours: the run's secret.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from runner.kube.objects import GVK
from runner.proxy.exchange import Owner

_CLUSTER = "proxy-server"
_USER = "admin/proxy-server"
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def document_for(owner: Owner, *, secret: str, port: int) -> dict[str, Any]:
    """Return the kubeconfig of a run for *owner* that shows *secret* to the proxy on *port*."""
    username = username_of(owner)
    # `=` may stand in the user part of a URL, and the peer leaves it there; `:`, `@` and `/` may not.
    user, password = quote(username, safe="="), quote(secret, safe="")
    context = f"{owner.namespace}/{_CLUSTER}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": _CLUSTER,
                "cluster": {
                    "insecure-skip-tls-verify": True,
                    "server": f"http://{user}:{password}@localhost:{port}",
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": _CLUSTER, "user": _USER}}],
        "current-context": context,
        "preferences": {},
        "users": [{"name": _USER, "user": {"username": username, "password": secret}}],
    }


def username_of(owner: Owner) -> str:
    """Return *owner* as a user name: the peer's JSON, whose `Namespace` has a capital, in URL-safe base64."""
    identity = {
        "apiVersion": owner.gvk.api_version,
        "kind": owner.gvk.kind,
        "name": owner.name,
        "uid": owner.uid,
        "Namespace": owner.namespace,
    }
    return base64.urlsafe_b64encode(json.dumps(identity, separators=(",", ":")).encode()).decode()


def owner_of(username: str) -> Owner:
    """Return the owner that *username* names, in either alphabet of base64.

    Raises:
        ValueError: it names none.
    """
    try:
        identity = json.loads(base64.b64decode(username.encode("ascii").translate(_URL_SAFE), validate=True))
    except (binascii.Error, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    fields = identity if isinstance(identity, Mapping) else {}
    texts = {key: fields.get(key, "") for key in ("apiVersion", "kind", "name", "uid", "Namespace")}
    if not all(isinstance(text, str) for text in texts.values()) or not (texts["kind"] and texts["name"]):
        raise ValueError("it is no object with the texts apiVersion, kind, name, uid and Namespace")
    return Owner(gvk=GVK.of(texts), namespace=texts["Namespace"], name=texts["name"], uid=texts["uid"])
