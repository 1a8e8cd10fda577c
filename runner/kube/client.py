"""The client for the API server: verbs on `Resource`, JSON in and out, errors of our own tree.

Stands on the asyncio half of the official client (`kubernetes.aio`), which reads kubeconfigs, in-cluster
configuration and exec plugins, and holds the connection pool. A 401 makes it read the configuration, and with it a
rotated token, again, once per request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import yaml
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration

from runner.errors import Call, ConfigError, ConnectionFailed, Gone, Unauthorized
from runner.kube import credential_files
from runner.kube.connector import Connector
from runner.kube.discovery import Resource
from runner.kube.documents import read_json, reason_of
from runner.kube.errors import error_for
from runner.kube.objects import Object
from runner.kube.service_account import SERVICE_ACCOUNT
from runner.settings import KubeSettings

Query = Sequence[tuple[str, str]]
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_PAGE_SIZE = "500"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_IN_CLUSTER_TOKEN = SERVICE_ACCOUNT / "token"


NO_ANSWER = "<error>"
"""What `Observe` gets as the code of a request without an answer, as in client-go."""


class Observe(Protocol):
    """Counts requests (`runner.observe.metrics.Metrics.api_request`)."""

    def __call__(self, method: str, *, code: str, host: str) -> None:
        """Take one request: its method, the answer's status, and the host (with port) that was asked."""
        ...


class KubeClient:
    """Requests to one API server with one identity; use as an async context manager, or call `close`."""

    def __init__(
        self,
        *,
        settings: KubeSettings,
        around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        observe: Observe | None = None,
    ) -> None:
        """Read nothing yet: the configuration is loaded by the first request.

        Args:
            settings: where the API server is.
            around: each request runs within it.
            observe: told of each answer, for metrics.
        """
        self._settings = settings
        self._observe = observe
        self._around = around
        self._current: _Session | None = None
        self._sessions: set[_Session] = set()
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> KubeClient:
        """Return this client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

    async def connect(self) -> None:
        """Read the configuration now, without a request; raise `ConfigError` where there is none or it is broken."""
        async with self._lend():
            pass

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        sessions, self._sessions = self._sessions, set()
        self._current = None
        for session in sessions:
            await session.close()

    @property
    def connect_timeout(self) -> float:
        """Return how many seconds a connection may take to come up; for callers of `stream`."""
        return self._settings.connect_timeout

    async def get(self, resource: Resource, *, namespace: str = "", name: str) -> Object:
        """Read one object; raise `NotFound`."""
        call = Call(verb="get", resource=resource.label(), namespace=namespace, name=name)
        return await self.request("GET", resource.path(namespace=namespace, name=name), call=call)

    async def list(self, resource: Resource, *, namespace: str = "", query: Query = ()) -> list[Object]:
        """Read all objects of a kind (of *namespace* where given) in pages; each item gets its apiVersion and kind."""
        call = Call(verb="list", resource=resource.label(), namespace=namespace)
        path = resource.path(namespace=namespace)
        items: list[Object] = []
        paging: Query = (("limit", _PAGE_SIZE),)
        while True:
            try:
                answer = await self.request("GET", path, query=[*query, *paging], call=call)
            except Gone:
                if len(paging) < 2:
                    raise
                items, paging = [], ()  # the continue token expired: once more, all in one answer
                continue
            items += [
                {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind, **item}
                for item in answer.get("items") or []
            ]
            token = answer.get("metadata", {}).get("continue")
            if not token:
                return items
            paging = (("limit", _PAGE_SIZE), ("continue", token))

    async def create(self, resource: Resource, *, body: Object, namespace: str = "") -> Object:
        """Create *body*; raise `AlreadyExists`."""
        call = Call(
            verb="create", resource=resource.label(), namespace=namespace, name=body["metadata"].get("name", "")
        )
        return await self.request("POST", resource.path(namespace=namespace), body=body, call=call)

    async def replace(self, resource: Resource, *, body: Object, subresource: str = "") -> Object:
        """PUT *body* (with its resourceVersion: raise `Conflict` where that is not the newest)."""
        namespace, name = str(body["metadata"].get("namespace") or ""), body["metadata"]["name"]
        call = Call(verb="update", resource=resource.label(subresource), namespace=namespace, name=name)
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self.request("PUT", path, body=body, call=call)

    async def patch(
        self,
        resource: Resource,
        *,
        name: str,
        body: Object | Sequence[Object],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Patch: a mapping is sent as a merge patch, a list as a JSON patch."""
        call = Call(verb="patch", resource=resource.label(subresource), namespace=namespace, name=name)
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        content_type = MERGE_PATCH if isinstance(body, Mapping) else JSON_PATCH
        return await self.request("PATCH", path, body=body, content_type=content_type, call=call)

    async def delete(
        self, resource: Resource, *, name: str, namespace: str = "", options: Object | None = None
    ) -> Object:
        """Delete one object; *options* is a DeleteOptions body."""
        call = Call(verb="delete", resource=resource.label(), namespace=namespace, name=name)
        return await self.request("DELETE", resource.path(namespace=namespace, name=name), body=options, call=call)

    async def request(
        self,
        method: str,
        path: str,
        *,
        call: Call,
        query: Query = (),
        body: object = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        """Send one request and return the JSON answer, with the settings' time-out over all of it."""
        timeout = aiohttp.ClientTimeout(
            total=self._settings.request_timeout, sock_connect=self._settings.connect_timeout
        )
        headers = {"Content-Type": content_type, "Accept": accept}
        stream = self.stream(method, path, call=call, query=query, body=body, headers=headers, timeout=timeout)
        async with stream as response:
            answer = await read_json(response, call=call)
        return answer if isinstance(answer, dict) else {"items": answer}

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        call: Call,
        timeout: aiohttp.ClientTimeout,
        query: Query = (),
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open one request whose answer the caller reads piece by piece (watches); errors before the body are ours."""
        request = _Request(method, path, query, body, {"Accept": "application/json", **(headers or {})}, timeout)
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(self._around())
            session = await stack.enter_async_context(self._lend())
            try:
                response = await self._send(request, session=session, call=call)
            except Unauthorized as refusal:
                session = await stack.enter_async_context(self._lend(refused=session, refusal=refusal))
                response = await self._send(request, session=session, call=call)
            try:
                yield response
            finally:
                response.close() if not response.content.at_eof() else response.release()

    async def _send(self, request: _Request, *, session: _Session, call: Call) -> aiohttp.ClientResponse:
        code = NO_ANSWER
        try:
            response = await request.send(session.api)
            code = str(response.status)
            if response.status < 400:
                return response
            body = await response.read()
        except kube_config.ConfigException as error:  # the token file is empty or gone: rotated under our feet
            raise Unauthorized(reason_of(error), call=call) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionFailed(reason_of(error), call=call) from error
        finally:
            if self._observe is not None:
                self._observe(request.method, code=code, host=_host(session.api.configuration.host))
        response.release()
        raise error_for(status=response.status, body=body, headers=response.headers, call=call)

    @contextlib.asynccontextmanager
    async def _lend(
        self, *, refused: _Session | None = None, refusal: Unauthorized | None = None
    ) -> AsyncIterator[_Session]:
        """Lend the session; one that was *refused* is retired and closed when its last request ends."""
        async with self._lock:  # many requests may be refused at once: the first one reads the credentials again
            if self._current is None or self._current is refused:
                self._current = await self._replaced(self._current, refusal=refusal)
            session = self._current
            session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            if not session.users and session is not self._current:
                self._sessions.discard(session)
                await session.close()

    async def _replaced(self, old: _Session | None, *, refusal: Unauthorized | None) -> _Session:
        try:
            api = _api_client(await load_configuration(self._settings), settings=self._settings)
        except ConfigError as error:
            if refusal is None or old is None:
                raise
            # a file caught in the middle of its rotation must not look like a mistake of a person
            raise Unauthorized(f"{refusal.message}; and {error}", call=refusal.call, status=refusal.status) from error
        session = _Session(api)
        self._sessions.add(session)
        return session


class _Session:
    """A connection pool with the credentials that it was made with, and how many requests use it."""

    def __init__(self, api: ApiClient) -> None:
        self.api = api
        self.users = 0
        self._connector = Connector(tls=api.rest_client.ssl_context)
        given = api.configuration.client_session_kwargs or {}
        api.configuration.client_session_kwargs = {**given, "connector": self._connector}

    async def close(self) -> None:
        await self.api.close()
        await self._connector.close()  # the official client leaves a connector that it was given to its owner


class _Request:
    """One HTTP request, that can be sent again after the credentials were read again."""

    def __init__(  # noqa: PLR0917 - private value of exactly these parts
        self,
        method: str,
        path: str,
        query: Query,
        body: object,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> None:
        self.parts = (method, path, query, body, headers, timeout)

    @property
    def method(self) -> str:
        return self.parts[0]

    async def send(self, api: ApiClient) -> aiohttp.ClientResponse:
        method, path, query, body, headers, timeout = self.parts
        # without the client's serialization, which looks into each part of a body that is JSON already
        sent, parameters = {**headers, **api.default_headers}, list(query)
        await api.update_params_for_auth(sent, parameters, ["BearerToken"], path, method, body)
        url = f"{api.configuration.host}{path}"
        if parameters:
            url = f"{url}?{api.parameters_to_url_query(parameters, None)}"
        answer = await api.rest_client.request(method, url, headers=sent, body=body, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        return response


async def load_configuration(settings: KubeSettings) -> Configuration:
    """Return the official client's configuration: the named kubeconfig, else in-cluster, else ~/.kube/config.

    Raises:
        ConfigError: none of the three is there, or the file is broken.
    """
    configuration = Configuration()
    configuration.retries = None
    configuration.connection_pool_maxsize = 0  # no limit: each watch holds a connection for as long as it lives
    chosen = _kubeconfig(settings)
    if chosen and not any(Path(part).expanduser().exists() for part in chosen.split(":") if part):
        raise _config_error(FileNotFoundError("there is no such file"), settings=settings)
    try:
        if chosen:
            await kube_config.load_kube_config(
                config_file=chosen, client_configuration=configuration, temp_file_path=str(credential_files.folder())
            )
        else:
            kube_config.load_incluster_config(client_configuration=configuration)
    except _BROKEN as error:
        raise _config_error(error, settings=settings) from error
    if urlsplit(configuration.host).hostname in _LOOPBACK:
        configuration.client_session_kwargs = {"trust_env": False}  # as in Go, $HTTPS_PROXY is not for this machine
    if token := configuration.api_key.get("BearerToken"):
        configuration.api_key["BearerToken"] = token.strip()  # files end with a newline, headers must not
    return configuration


_BROKEN = (
    kube_config.ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
)
"""What the official client raises on kubeconfigs that are missing or are something else in disguise."""


def _host(server: str) -> str:
    """Return host and port of a URL, without the user and password that it may have."""
    return urlsplit(server).netloc.rpartition("@")[2]


def _api_client(configuration: Configuration, *, settings: KubeSettings) -> ApiClient:
    try:
        api = ApiClient(configuration)
    except OSError as error:  # includes ssl.SSLError: a certificate or key that cannot be read
        raise _config_error(error, settings=settings) from error
    api.user_agent = "ansible-operator-runner"
    return api


def _kubeconfig(settings: KubeSettings) -> str:
    """Return the files to read, empty for the in-cluster configuration."""
    default = str(Path("~/.kube/config").expanduser())
    return settings.kubeconfig or ("" if _IN_CLUSTER_TOKEN.exists() else default)


def _config_error(error: BaseException, *, settings: KubeSettings) -> ConfigError:
    where = _kubeconfig(settings) or "in-cluster configuration"
    return ConfigError(
        f"cannot use the Kubernetes configuration {where}: {reason_of(error)}; set KUBECONFIG to a kubeconfig file, "
        "or run inside a cluster with a service account"
    )
