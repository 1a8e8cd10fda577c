"""Stage 3: one key in, one decision out. Runs the list of steps and turns errors into what happens next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from runner.clock import within
from runner.errors import Forbidden, NotFound, OperatorError
from runner.logs import Logger
from runner.reconcile.context import Context, Parts, Step
from runner.reconcile.schedule import Decision, Forget, Scheduler, after_error, describe, result_of
from runner.reconcile.steps import STEPS, gone, report, report_error
from runner.status.explain import explain
from runner.workqueue.request import Request

ENDED = (
    "The operator was stopped and ended this run at the end of its grace period; it runs again when an operator is back"
)
_LAST_WORDS = 5.0
"""Seconds for the status of a run that the end of the grace period ended."""


class Reconciler:
    """Reconciles the objects of one watch; `handle` is what the queue's workers call."""

    def __init__(self, *, parts: Parts, scheduler: Scheduler, logger: Logger, steps: Sequence[Step] = STEPS) -> None:
        """Run *steps* with *parts*, and hand each decision to *scheduler*."""
        self._parts = parts
        self._scheduler = scheduler
        self._logger = logger.named("reconciler")
        self._steps = tuple(steps)
        self._ending = False

    def end_runs(self) -> None:
        """Say in the status of each object whose run is cancelled from now on why it has no end of its own.

        For the drain alone: where leadership is lost, nothing may be written.
        """
        self._ending = True

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
            try:
                decision = await self._decide(ctx)
            finally:
                ctx.leave()
            measured.result, measured.refused = result_of(decision, failed=ctx.failed), ctx.refused
        return decision

    async def _decide(self, ctx: Context) -> Decision:
        try:
            for step in self._steps:
                decision = await step(ctx, ctx.narrowed or self._parts)
                if decision is not None:
                    return decision
        except asyncio.CancelledError:
            if self._ending and ctx.announced:
                await self._tell_ended(ctx)
            raise
        except NotFound as error:
            return self._missing(ctx, error)
        except OperatorError as error:
            ctx.failed = True
            ctx.log.error("Reconciler error", error=str(error), verdict=error.verdict.value)
            if isinstance(error, Forbidden):
                await self._tell_forbidden(ctx, error)
            return after_error(error, wish=ctx.wish)
        return Forget()

    def _missing(self, ctx: Context, error: NotFound) -> Decision:
        """Ask anew where the kind is, as its CRD may have changed, and decide as for every object that is gone."""
        self._parts.discovery.forget(self._parts.watch.gvk)
        ctx.log.info("The object or its kind is gone", error=str(error))
        return gone(ctx, self._parts)

    async def _tell_forbidden(self, ctx: Context, error: Forbidden) -> None:
        """Name the missing right in the condition, where the status itself may be written."""
        if ctx.resource is None or not ctx.obj or error.call.resource.endswith("/status"):
            return
        try:
            await report_error(ctx, ctx.narrowed or self._parts, message=explain(error))
        except OperatorError as second:
            ctx.log.error("The missing right could not be written into the status", error=str(second))

    async def _tell_ended(self, ctx: Context) -> None:
        """Leave no object at Running: its run was ended by the drain, which waits for this and still leads."""
        parts = ctx.narrowed or self._parts
        last_words = report_error(ctx, parts, message=ENDED) if ctx.outcome is None else report(ctx, parts)
        try:
            await within(_LAST_WORDS, last_words, clock=parts.clock)
        except (OperatorError, TimeoutError) as error:
            ctx.log.error("The end of the run could not be written into the status", error=str(error))
