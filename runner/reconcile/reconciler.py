"""Stage 3: one key in, one decision out. Runs the list of steps and turns errors into what happens next."""

from __future__ import annotations

from collections.abc import Sequence

from runner.errors import Forbidden, KubeError, NotFound, OperatorError
from runner.logs import Logger
from runner.reconcile.context import Context, Parts, Step
from runner.reconcile.schedule import Decision, Forget, Scheduler, after_error, describe, result_of
from runner.reconcile.steps import STEPS, report_error
from runner.status.explain import explain
from runner.workqueue.request import Request


class Reconciler:
    """Reconciles the objects of one watch; `handle` is what the queue's workers call."""

    def __init__(self, *, parts: Parts, scheduler: Scheduler, logger: Logger, steps: Sequence[Step] = STEPS) -> None:
        """Run *steps* with *parts*, and hand each decision to *scheduler*."""
        self._parts = parts
        self._scheduler = scheduler
        self._logger = logger.named("reconciler")
        self._steps = tuple(steps)

    async def handle(self, request: Request) -> None:
        """Reconcile *request* and schedule its next turn."""
        log = self._logger.bind(name=request.name, namespace=request.namespace, gvk=str(request.gvk))
        try:
            decision = await self.reconcile(request, log=log)
        finally:
            if self._parts.claims is not None:
                self._parts.claims.end(request)
        delay = self._scheduler.apply(request, decision)
        log.debug("Reconciled", decision=type(decision).__name__, **describe(delay))

    async def reconcile(self, request: Request, *, log: Logger) -> Decision:
        """Run the steps until one decides.

        An error of ours becomes a decision by its verdict; anything else is a bug, and goes to the worker's boundary.
        """
        ctx = Context(request=request, log=log)
        with self._parts.measure() as measured:
            decision = await self._decide(ctx)
            measured.result = result_of(decision, failed=ctx.failed)
        return decision

    async def _decide(self, ctx: Context) -> Decision:
        try:
            for step in self._steps:
                decision = await step(ctx, ctx.narrowed or self._parts)
                if decision is not None:
                    return decision
        except NotFound as error:
            return self._missing(ctx, error)
        except OperatorError as error:
            ctx.failed = True
            ctx.log.error("Reconciler error", error=str(error), verdict=error.verdict.value)
            if isinstance(error, Forbidden):
                await self._tell_forbidden(ctx, error)
            return after_error(error, generation=ctx.wish)
        return Forget()

    def _missing(self, ctx: Context, error: NotFound) -> Decision:
        """Decide for a 404 in the middle: the object went (its deletion is an event too), or its kind did."""
        self._parts.discovery.forget(self._parts.watch.gvk)
        ctx.log.info("The object or its kind is gone", error=str(error))
        return Forget()

    async def _tell_forbidden(self, ctx: Context, error: Forbidden) -> None:
        """Name the missing right in the condition, where the status itself may be written."""
        if ctx.resource is None or not ctx.obj or error.call.resource.endswith("/status"):
            return
        try:
            await report_error(ctx, ctx.narrowed or self._parts, message=explain(error))
        except KubeError as second:
            ctx.log.error("The missing right could not be written into the status", error=str(second))
