"""The operator's own credentials for raw HTTP: what the proxy sends a client's request on with.

`KubeClient` speaks JSON and verbs; the proxy passes bytes. Both stand on `load_configuration`, so that they reach the
same API server as the same user. A token file that is rotated is read again (each minute in a cluster, else after a
401), and a 401 makes `AccessSource` read the whole configuration again: once, however many requests were refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field

from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from yarl import URL

from runner.errors import ConfigError
from runner.kube.client import load_configuration
from runner.settings import KubeSettings

_NEVER_PROXIED = "trust_env"


@dataclass(frozen=True, kw_only=True)
class Access:
    """How one API server is reached as one user."""

    base: URL
    """The server's URL without a slash at its end, with the path that it may have (Rancher's `/k8s/clusters/c-1`)."""
    ssl: ssl.SSLContext | None = None
    """None: plain HTTP. It holds the client certificate, where there is one."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`Authorization`, where the user has a token or a password."""
    server_hostname: str | None = None
    """The name that the server's certificate must have where that is not the URL's (`tls-server-name`)."""
    proxy: URL | None = field(default=None, repr=False)
    """The HTTP proxy on the way (`proxy-url`, else the environment's), maybe with user and password."""
    proxy_headers: Mapping[str, str] | None = field(default=None, repr=False)

    def url(self, target: str) -> URL:
        """Return the URL of *target*, the raw path and query of a request; its percent-encoding is left as it is."""
        return URL(f"{str(self.base).rstrip('/')}{target}", encoded=True)


class AccessSource:
    """Gives the newest `Access`; the configuration is read by the first call."""

    def __init__(self, *, settings: KubeSettings) -> None:
        """Read nothing yet."""
        self._settings = settings
        self._loaded: tuple[Configuration, Access] | None = None
        self._lock = asyncio.Lock()

    @property
    def connect_timeout(self) -> float:
        """Return how many seconds a connection to the API server may take to come up."""
        return self._settings.connect_timeout

    async def current(self) -> Access:
        """Return the access to use now.

        Raises:
            ConfigError: there is no configuration, or it is broken.
        """
        if self._loaded is None:
            async with self._lock:
                if self._loaded is None:
                    self._loaded = await self._load()
        loaded = self._loaded
        configuration, access = loaded
        with contextlib.suppress(kube_config.ConfigException, OSError):  # in the middle of a rotation: the old token
            headers = await _authorization(configuration)
            if self._loaded is not loaded:  # somebody was faster, with what is newer
                return self._loaded[1]
            if headers != access.headers:
                access = dataclasses.replace(access, headers=headers)
                self._loaded = (configuration, access)
        return access

    async def refreshed(self, refused: Access) -> Access:
        """Return what to use instead of *refused*, which the API server answered with 401.

        Raises:
            ConfigError: the configuration can't be read now; it may be in the middle of a rotation.
        """
        async with self._lock:  # many requests may be refused at once: the first one reads the configuration again
            if self._loaded is None or self._loaded[1] is refused:
                self._loaded = await self._load()
        return await self.current()

    async def _load(self) -> tuple[Configuration, Access]:
        configuration = await load_configuration(self._settings)
        try:
            context = RESTClientObject(configuration).ssl_context  # exactly what `KubeClient` trusts and shows
        except OSError as error:  # includes ssl.SSLError: a certificate or key that cannot be read
            raise ConfigError(
                f"cannot use the certificates that the Kubernetes configuration names: {error}; "
                "check certificate-authority, client-certificate and client-key in the file that KUBECONFIG names"
            ) from error
        try:
            headers = await _authorization(configuration)
        except (kube_config.ConfigException, OSError) as error:
            raise ConfigError(f"cannot read the token of the Kubernetes configuration: {error}") from error
        base = _parsed(configuration.host.rstrip("/"), where="server of the Kubernetes configuration")
        return configuration, Access(
            base=base,
            ssl=context if base.scheme == "https" else None,
            headers=headers,
            server_hostname=configuration.tls_server_name or None,
            proxy=_proxy(configuration, base=base),
            proxy_headers=configuration.proxy_headers or None,
        )


async def _authorization(configuration: Configuration) -> Mapping[str, str]:
    token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    return {"Authorization": token.strip()} if token else {}


def _proxy(configuration: Configuration, *, base: URL) -> URL | None:
    if configuration.proxy:
        return _parsed(configuration.proxy, where="proxy-url of the Kubernetes configuration")
    trusted = (configuration.client_session_kwargs or {}).get(_NEVER_PROXIED, True)
    if not trusted or base.host is None or urllib.request.proxy_bypass(base.host):
        return None
    found = urllib.request.getproxies().get(base.scheme)
    return _parsed(found, where=f"{base.scheme.upper()}_PROXY of the environment") if found else None


def _parsed(text: str, *, where: str) -> URL:
    """Return the URL in *text*; an error doesn't repeat it, as it may hold a password."""
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if not url.host or not url.port:
        raise ConfigError(f"the {where} is no URL with a host: expected http://HOST:PORT or https://HOST:PORT")
    return url
