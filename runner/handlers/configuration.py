"""kopf's settings for being embedded: it keeps trying, and writes nothing to objects by itself.

Handler files can change them in `@kopf.on.startup`, as with kopf alone: `settings.posting.enabled = True` for Events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kopf

from runner.handlers.threads import DaemonThreads
from runner.settings import KubeSettings

FINALIZER = "ansible-operator.io/handlers"
"""kopf holds objects with it for which a timer or daemon of a handler file runs."""
TOUCHED = "ansible-operator.io/handlers-touched"
"""An annotation that kopf changes to look again at an object whose timer or daemon takes long to stop."""
_DELAYS = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)
_LONGEST_DELAY = 30.0
_THREADS = 32


class Endless:
    """Delays between tries of a request, without an end: kopf gives up after the last one, and ends the operator."""

    def __iter__(self) -> Iterator[float]:
        """Return delays that grow."""
        yield from _DELAYS
        while True:
            yield _LONGEST_DELAY


class NoDiffBase(kopf.DiffBaseStorage):
    """Remembers nothing of what objects were; only handlers that are refused would need it."""

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> Any:
        """Return nothing, which costs nothing: kopf's own copies each object for each event."""
        return {}

    def fetch(self, *, body: kopf.Body) -> None:
        """Return nothing."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: object) -> None:
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """Remembers nothing of which handlers ran; only handlers that are refused would need it."""

    def fetch(self, *, key: object, body: kopf.Body) -> None:
        """Return nothing."""

    def store(self, *, key: object, record: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Keep nothing."""

    def purge(self, *, key: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Forget nothing."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Change the annotation `TOUCHED`: the one way by which kopf comes back to an object.

        It does so only for objects that it holds, while a timer or daemon of theirs doesn't stop.
        """
        if body.metadata.annotations.get(TOUCHED) != value:
            patch.metadata.annotations[TOUCHED] = value

    def clear(self, *, essence: Any) -> Any:
        """Return *essence*: nothing of ours is in it."""
        return essence


def settings_for(kube: KubeSettings) -> kopf.OperatorSettings:
    """Return the settings of one life of the embedded operator."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.process.ultimate_exiting_timeout = None  # it would kill the process
    settings.scanning.disabled = True  # needs rights on CRDs and namespaces; `embedded` looks for kinds by itself
    settings.networking.error_backoffs = Endless()
    settings.networking.request_timeout = kube.request_timeout
    settings.networking.connect_timeout = kube.connect_timeout
    settings.execution.executor = DaemonThreads(most=_THREADS)
    settings.persistence.finalizer = FINALIZER
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    return settings
