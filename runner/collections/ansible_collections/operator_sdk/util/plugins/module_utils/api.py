"""Connection to the API server for the modules of this collection: arguments, client, errors, retries on conflict."""

from __future__ import annotations

import os
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule, env_fallback, missing_required_lib

try:
    import kubernetes
    from kubernetes.dynamic import DynamicClient, LazyDiscoverer
    from kubernetes.dynamic.exceptions import (
        ConflictError,
        DynamicApiError,
        NotFoundError,
        ResourceNotFoundError,
        ResourceNotUniqueError,
    )

    IMPORT_PROBLEM = None
except ImportError:
    IMPORT_PROBLEM = traceback.format_exc()
    LazyDiscoverer = object
    ConflictError = DynamicApiError = NotFoundError = ResourceNotFoundError = ResourceNotUniqueError = Exception

CONFLICT_TRIES = 10
_USER = re.compile(r"//[^/@]*@")
"""User and password in a URL, which the kubeconfig of a run has in it: no message may repeat them."""


def _option(*env: str, kind: str = "str", aliases: Sequence[str] = (), no_log: bool | None = None) -> dict[str, Any]:
    spec = {"type": kind, "fallback": (env_fallback, [f"K8S_AUTH_{name}" for name in env]), "aliases": list(aliases)}
    return spec if no_log is None else {**spec, "no_log": no_log}


AUTH_SPEC = {
    "kubeconfig": _option("KUBECONFIG", kind="raw"),
    "context": _option("CONTEXT"),
    "host": _option("HOST"),
    "api_key": _option("API_KEY", no_log=True),
    "username": _option("USERNAME"),
    "password": _option("PASSWORD", no_log=True),
    "validate_certs": _option("VALIDATE_CERTS", "VERIFY_SSL", kind="bool", aliases=["verify_ssl"]),
    "ca_cert": _option("CA_CERT", "SSL_CA_CERT", kind="path", aliases=["ssl_ca_cert"]),
    "client_cert": _option("CLIENT_CERT", "CERT_FILE", kind="path", aliases=["cert_file"]),
    "client_key": _option("CLIENT_KEY", "KEY_FILE", kind="path", aliases=["key_file"], no_log=False),
    "proxy": _option("PROXY"),
    "persist_config": _option("PERSIST_CONFIG", kind="bool"),
}


class Failure(Exception):
    """Ends the module with its sentence, and further keys of the result."""

    def __init__(self, sentence: str, **details: Any) -> None:
        """Keep *details* for `fail_json`."""
        super().__init__(sentence)
        self.details = details


def connect(module: AnsibleModule) -> Any:
    """Return a dynamic client for the module's arguments, $K8S_AUTH_* and $KUBECONFIG."""
    if IMPORT_PROBLEM is not None:
        module.fail_json(msg=missing_required_lib("kubernetes"), exception=IMPORT_PROBLEM)
    params = module.params
    configuration = kubernetes.client.Configuration()
    try:
        if not _says_all(params):
            _load(params, configuration)
    except (kubernetes.config.ConfigException, OSError) as error:
        raise Failure(f"cannot use the Kubernetes configuration: {error}") from error
    _override(params, configuration)
    try:
        return DynamicClient(kubernetes.client.ApiClient(configuration), discoverer=Kinds)
    except Exception as error:  # urllib3's and the client's own, by version
        raise _unreachable(configuration, error) from error


def _says_all(params: Mapping[str, Any]) -> bool:
    """Tell whether the arguments alone are enough, so that no kubeconfig's identity mixes with theirs."""
    with_login = params.get("api_key") or (params.get("username") and params.get("password"))
    return bool(params.get("host") and (with_login or not params.get("kubeconfig")))


def _load(params: Mapping[str, Any], configuration: Any) -> None:
    given = params.get("kubeconfig")
    if isinstance(given, dict):
        kubernetes.config.load_kube_config_from_dict(
            given, context=params.get("context"), client_configuration=configuration, persist_config=False
        )
        return
    path = given or os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    if not given and not Path(path.split(":")[0]).exists() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        kubernetes.config.load_incluster_config(client_configuration=configuration)
        return
    kubernetes.config.load_kube_config(
        config_file=path,
        context=params.get("context"),
        client_configuration=configuration,
        persist_config=bool(params.get("persist_config")),
    )


def _override(params: Mapping[str, Any], configuration: Any) -> None:
    for name, attribute in (
        ("host", "host"),
        ("username", "username"),
        ("password", "password"),
        ("validate_certs", "verify_ssl"),
        ("ca_cert", "ssl_ca_cert"),
        ("client_cert", "cert_file"),
        ("client_key", "key_file"),
        ("proxy", "proxy"),
    ):
        if params.get(name) is not None:
            setattr(configuration, attribute, params[name])
    if params.get("api_key"):
        value = f"Bearer {params['api_key']}"
        configuration.api_key = {"authorization": value, "BearerToken": value}


class Kinds(LazyDiscoverer):  # type: ignore[misc]  # the client has no types
    """The kinds that an API server has, as `client.resources`, which asks for nothing before it is asked itself.

    The client's own asks for the server's version and all groups when it is made, and writes a file of what it found.
    """

    def __init__(self, client: Any, cache_file: str | None) -> None:
        """Keep what a first search needs."""
        self.client = client
        self._file = cache_file
        self._begun = False

    def at(self, api_version: str, *, kind: str) -> Any:
        """Return the resource *kind* of *api_version*, or None where its document alone doesn't tell: see `search`."""
        group, _, version = api_version.rpartition("/")
        if not version or "/" in group:
            return None
        prefix = "apis" if group else "api"
        try:
            found = self.get_resources_for_api_version(prefix, group, version, True).get(kind, [])  # noqa: FBT003 - the client's interface
        except DynamicApiError:
            return None
        except Exception as error:  # as in `connect`
            raise _unreachable(self.client.configuration, error) from error
        return found[0] if len(found) == 1 and found[0].kind == kind else None

    def search(self, **query: Any) -> Any:
        """Return what there is of *query*, as the client's own does."""
        if not self._begun:
            try:
                super().__init__(self.client, self._file)
            except Exception as error:  # as in `connect`
                raise _unreachable(self.client.configuration, error) from error
            self._begun = True
        return super().search(**query)


def _unreachable(configuration: Any, error: Exception) -> Failure:
    host = _USER.sub("//", configuration.host)
    return Failure(f"cannot reach the API server at {host}: {error}")


def find_resource(client: Any, *, kind: str, api_version: str) -> Any:
    """Return the resource of *api_version* that is called *kind*: its kind, plural, singular or a short name."""
    if (found := client.resources.at(api_version, kind=kind)) is not None:
        return found
    for query in ({"kind": kind}, {"name": kind}, {"singular_name": kind}, {"short_names": [kind]}):
        try:
            return client.resources.get(api_version=api_version, **query)
        except (ResourceNotFoundError, ResourceNotUniqueError):
            continue
    raise Failure(
        f"Failed to find exact match for {api_version}.{kind} by [kind, name, singularName, shortNames]"  # as published
    )


def sentence(error: Exception) -> str:
    """Return what the API server said."""
    body = answer(error)["body"]
    return f"{getattr(error, 'status', '')} {getattr(error, 'reason', '')}: {body}" if body else str(error)


def answer(error: Exception) -> dict[str, Any]:
    """Return the API server's answer in parts, for a result's `error`."""
    body = getattr(error, "body", None)
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    return {"status": getattr(error, "status", None), "reason": getattr(error, "reason", None), "body": text}


def repeat_on_conflict(attempt: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call *attempt* until no other writer came in between; it reads the object anew each time."""
    for number in range(CONFLICT_TRIES):
        try:
            return attempt()
        except ConflictError:
            if number == CONFLICT_TRIES - 1:
                raise
            time.sleep(min(1.0, 0.02 * 2**number))
    raise AssertionError("unreachable")
