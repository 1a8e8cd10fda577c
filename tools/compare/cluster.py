"""The API server as the comparison sees it: objects are written, and every version of them is remembered.

Blocking, on the official client: nothing here is the runtime's. A `History` sees each version of each object of a kind,
so that a state which lasts for milliseconds is not missed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config, dynamic, watch

from runner.testing.cluster import crd

GROUP = "compare.example.com"
VERSION = "v1"
_POLL = 0.05


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of an object, as a watch told it."""

    event: str
    """ADDED, MODIFIED or DELETED."""
    obj: Mapping[str, Any]
    at: float
    """When it was told, in seconds since 1970."""


class History:
    """All versions of the objects of one kind, as a watch told them."""

    def __init__(self, resource: Any, *, namespace: str | None) -> None:
        """Start to watch *resource*, in *namespace* or everywhere."""
        self._resource, self._namespace = resource, namespace
        self._versions: list[Version] = []
        self._lock = threading.Lock()
        self._watch = watch.Watch()
        self._stopped = False
        self._thread = threading.Thread(target=self._follow, name="history", daemon=True)
        self._thread.start()

    def versions(self, name: str) -> list[Version]:
        """Return every version of the object *name*."""
        with self._lock:
            return [version for version in self._versions if version.obj["metadata"]["name"] == name]

    def stop(self) -> None:
        """Watch no more."""
        self._stopped = True
        self._watch.stop()

    def _follow(self) -> None:
        while not self._stopped:
            with contextlib.suppress(client.ApiException, urllib3.exceptions.HTTPError):  # it ends, and starts anew
                stream = self._resource.watch(namespace=self._namespace, watcher=self._watch, timeout=300)
                for event in stream:
                    self._add(Version(event=event["type"], obj=event["raw_object"], at=time.time()))

    def _add(self, version: Version) -> None:
        """Remember *version*; a new watch tells the newest ones again."""
        with self._lock:
            if all(_number(version) != _number(known) or version.event == "DELETED" for known in self._versions):
                self._versions.append(version)


class Cluster:
    """One API server, as its administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        """Connect with *kubeconfig*."""
        self.kubeconfig = kubeconfig
        self._client = config.new_client_from_config(str(kubeconfig))
        self._dynamic = dynamic.DynamicClient(self._client)

    def version(self) -> str:
        """Return the server's version."""
        return str(client.VersionApi(self._client).get_code().git_version)

    def install(self, kind: str, *, namespaced: bool) -> None:
        """Install a kind of the group `GROUP` that accepts any fields, and wait until it is served."""
        definitions = self.resource("CustomResourceDefinition", api_version="apiextensions.k8s.io/v1")
        with _accepting(409):
            definitions.create(body=crd(kind, group=GROUP, versions=(VERSION,), namespaced=namespaced))

        def served() -> bool:
            try:
                self.resource(kind).get()
            except (client.ApiException, dynamic.exceptions.ResourceNotFoundError):
                self._dynamic.resources.invalidate_cache()
                return False
            return True

        wait_for(served, what=f"the kind {kind} to be served")

    def remove_kinds(self) -> None:
        """Remove the kinds that `install` made."""
        definitions = self.resource("CustomResourceDefinition", api_version="apiextensions.k8s.io/v1")
        for entry in definitions.get().items:
            if entry.spec.group == GROUP:
                with _accepting(404):
                    definitions.delete(name=entry.metadata.name)

    def resource(self, kind: str, *, api_version: str = f"{GROUP}/{VERSION}") -> Any:
        """Return the client's view of *kind*."""
        return self._dynamic.resources.get(api_version=api_version, kind=kind)

    @contextlib.contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """Give a namespace for as long as it is needed."""
        namespaces = self.resource("Namespace", api_version="v1")
        namespaces.create(body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            yield name
        finally:
            with _accepting(404):
                namespaces.delete(name=name)

    def discard(self, resource: Any, *, name: str, namespace: str | None) -> None:
        """Delete an object, its finalizers too, and wait until it is gone; harmless where there is none."""
        body = {"metadata": {"finalizers": None}}

        def gone() -> bool:
            try:
                resource.delete(name=name, namespace=namespace)
                resource.patch(name=name, namespace=namespace, body=body, content_type="application/merge-patch+json")
            except client.ApiException as error:
                return bool(error.status == 404)
            return False

        wait_for(gone, what=f"{name} to be gone")


def wait_for(condition: Callable[[], bool], *, what: str, limit: float = 120.0) -> None:
    """Wait until *condition* is true; the *limit* in seconds only means 'hung'."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {limit:.0f} s in vain for {what}")
        time.sleep(_POLL)


def _number(version: Version) -> str:
    return str(version.obj["metadata"]["resourceVersion"])


@contextlib.contextmanager
def _accepting(status: int) -> Iterator[None]:
    """Take an answer of *status* for success."""
    try:
        yield
    except client.ApiException as error:
        if error.status != status:
            raise
