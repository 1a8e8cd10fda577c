"""The janitor as a service: run folders of deleted objects go within the hour, those of an earlier operator's time too.

It works with what the informers know, so it does nothing before they are synced, nor while one is in trouble.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from runner.assembly.parts import Controller, Shared
from runner.errors import OperatorError
from runner.execution.janitor import INTERVAL, Janitor, KnownObjects
from runner.sources.informer import State
from runner.workqueue.request import Request


class JanitorService:
    """Sweeps now and then, from the first moment to the last; trouble is one line in the log and nothing else."""

    def __init__(self, *, controllers: Sequence[Controller], shared: Shared) -> None:
        """Look after the run folders of *controllers*' objects."""
        self._controllers = tuple(controllers)
        self._shared = shared
        self._log = shared.logger.named("janitor")
        self._janitor = Janitor(root=shared.settings.execution.runner_dir, clock=shared.clock)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._sweep_for_ever(), name="janitor")

    async def stop(self) -> None:
        """End; a removal that is under way is finished by its thread."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _sweep_for_ever(self) -> None:
        while True:
            await self._shared.clock.sleep(INTERVAL)
            try:
                known = [await self._known(controller) for controller in self._controllers]
            except OperatorError as error:
                self._log.error("Run folders of deleted objects are not removed for now", error=str(error))
                continue
            swept = await self._janitor.sweep([objects for objects in known if objects is not None])
            if swept.failed:
                self._log.error("Run folders of deleted objects could not be removed", errors=list(swept.failed))
            if swept.removed:
                self._log.info("Removed run folders of deleted objects", folders=[str(path) for path in swept.removed])

    async def _known(self, controller: Controller) -> KnownObjects | None:
        """Return the objects of *controller*, None where they are not known completely."""
        source, gvk = controller.source, controller.watch.gvk
        if not source.synced or set(source.states().values()) != {State.SYNCED}:
            return None
        resource = await self._shared.discovery.resource(gvk)
        return KnownObjects(
            gvk=gvk,
            namespaced=resource.namespaced,
            namespaces=self._shared.settings.namespaces if resource.namespaced else (),
            lives=lambda namespace, name: source.knows(Request(gvk, namespace, name)),
        )
