"""The steps of a reconcile, in the order of `STEPS`; each does one thing and has the signature `Step`.

The order follows the peer's (contract section 5.2), with its weak points mended: the finalizer is decided once, from
the object as the run saw it; a broken period annotation holds up no deletion; every end of a run reaches the status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from runner.errors import ExecutionError, Invalid, NotFound
from runner.execution.executor import Outcome, RunRequest
from runner.execution.overrides import max_artifacts_of, run_timeout_of, verbosity_of
from runner.execution.parameters import left_out
from runner.kube.discovery import Resource
from runner.kube.objects import Object, generation_of, is_deleting, is_small, uid_of
from runner.reconcile.admission import admit
from runner.reconcile.claim import claim
from runner.reconcile.context import Context, Parts, Step
from runner.reconcile.finalizer import Finalizers
from runner.reconcile.schedule import Backoff, Decision, Ended, Forget, RequeueAfter, after_run
from runner.status.conditions import conditions_found
from runner.status.transition import Kind, Transition, done, error, paused, running
from runner.status.writer import Unless, WriteState
from runner.watches.durations import format_duration
from runner.watches.matching import holds, serves
from runner.watches.pausing import PAUSED_ANNOTATION, is_paused


async def load(ctx: Context, parts: Parts) -> Decision | None:
    """Read the object live; one that is gone needs nothing more."""
    ctx.resource = await parts.discovery.resource(parts.watch.gvk)
    try:
        ctx.obj = await parts.client.get(ctx.resource, namespace=ctx.request.namespace, name=ctx.request.name)
    except NotFound as error:
        if not error.names_object:
            raise  # the whole kind went, has another plural now, or the API server is only starting: see `gone`
        ctx.log.debug("The object is gone")
        return _let_go(ctx, parts)
    ctx.generation = generation_of(ctx.obj)
    ctx.finalizing = is_deleting(ctx.obj) and holds(parts.watch, ctx.obj)
    return None


async def select(ctx: Context, parts: Parts) -> Decision | None:
    """Leave alone what the selector doesn't match any more, unless our finalizer still holds it."""
    return None if serves(parts.watch, ctx.obj) else _let_go(ctx, parts)


def gone(ctx: Context, parts: Parts) -> Decision:
    """Decide for what was not found, for certain or not: perhaps the API server only starts, or its CRD changed.

    Where the source holds the object no event would bring its key back, so it is tried again later; where it doesn't,
    the object's next sight is an event.
    """
    return Backoff(wish=ctx.wish) if parts.seen(ctx.request) is not None else _let_go(ctx, parts)


async def rewrite_pending_status(ctx: Context, parts: Parts) -> Decision | None:
    """Write the status of an earlier run that could not be written then, without running the role again."""
    transition = parts.pending.of(ctx.request, uid=uid_of(ctx.obj))
    if transition is None or transition.kind is Kind.RUNNING:
        return None
    if await _report(ctx, parts, transition=transition) is None:
        return gone(ctx, parts)
    outcome = transition.outcome
    if ctx.finalizing or transition.generation != ctx.generation or outcome is None:
        return None  # there is newer work than what that status tells
    ctx.log.info("The status of the last run was written late")
    ctx.period = _period_or_default(ctx, parts)
    return _after(outcome, ctx)


async def pause(ctx: Context, parts: Parts) -> Decision | None:
    """Start nothing for an object that a person paused, its deletion included; taking the brake off brings its key."""
    if not is_paused(ctx.obj) or _terminated(ctx.obj, parts=parts):
        return None
    waits = " Its deletion waits, too." if is_deleting(ctx.obj) else ""
    message = (
        f"No run starts for this object while it has the annotation {PAUSED_ANNOTATION}; remove it to go on.{waits}"
    )
    stands = paused(message, at=parts.clock.now())
    before = conditions_found(ctx.obj)
    if stands.apply(before) != before:
        ctx.log.info("The object is paused by its annotation: nothing is run for it")
        await parts.events.record(ctx.obj, type="Normal", reason="Paused", message=message)
    if parts.watch.manage_status and await _report(ctx, parts, transition=stands) is None:
        return gone(ctx, parts)
    return Forget()


async def check_period(ctx: Context, parts: Parts) -> Decision | None:
    """Refuse a period annotation that is no duration, but never hold up a deletion for it."""
    try:
        ctx.period = parts.periods.of(ctx.obj)
    except ValueError as error:
        ctx.period = _period_or_default(ctx, parts)
        if is_deleting(ctx.obj):
            ctx.log.info("The reconcile period annotation is ignored: the object is being deleted", error=str(error))
            return None
        ctx.log.error("The reconcile period annotation is invalid", error=str(error))
        await report_error(ctx, parts, message=str(error))
        return Backoff(wish=ctx.wish)
    return None


async def skip_terminated(ctx: Context, parts: Parts) -> Decision | None:
    """Do nothing for an object in deletion that our finalizer doesn't hold."""
    if _terminated(ctx.obj, parts=parts):
        ctx.log.info("Resource is terminated, skipping reconciliation")
        return Forget()
    return None


async def hold(ctx: Context, parts: Parts) -> Decision | None:
    """Put our finalizer on the object before anything runs for it."""
    finalizers = _finalizers(ctx, parts)
    if finalizers is None or ctx.finalizing or finalizers.on(ctx.obj):
        return None
    held = await finalizers.add(ctx.obj)
    if held is None:
        return gone(ctx, parts)
    ctx.obj = held
    return None


async def announce(ctx: Context, parts: Parts) -> Decision | None:
    """Say in the status that a run is under way; never of an object whose deletion came before, as nothing runs."""
    if not parts.watch.manage_status:
        return None
    starting = running(at=parts.clock.now(), generation=ctx.generation)
    ctx.announced = True
    unless, just_read = partial(_terminated, parts=parts), ctx.obj
    if await _report(ctx, parts, transition=starting, unless=unless, newest=just_read) is None:
        return gone(ctx, parts)
    ctx.generation = generation_of(ctx.obj)  # the write returned a newer spec, and that is what runs
    ctx.finalizing = is_deleting(ctx.obj) and holds(parts.watch, ctx.obj)
    return await skip_terminated(ctx, parts)


async def run(ctx: Context, parts: Parts) -> Decision | None:
    """Run the role or playbook; a run that cannot start is a failure like any other."""
    new = parts.notices.is_new(ctx.request, uid=uid_of(ctx.obj), wish=ctx.wish)
    request = RunRequest(
        watch=parts.watch,
        obj=ctx.obj,
        ident=parts.ident(),
        notes_told=not new,
        finalizing=ctx.finalizing,
        verbosity=verbosity_of(ctx.obj, default=parts.watch.ansible_verbosity, log=ctx.log),
        time_limit=run_timeout_of(ctx.obj, default=parts.watch.run_timeout, log=ctx.log),
        max_artifacts=max_artifacts_of(ctx.obj, default=parts.watch.max_runner_artifacts, log=ctx.log),
    )
    ctx.log = ctx.log.bind(job=request.ident)
    started = parts.clock.now()
    if new:
        await _tell_dropped(ctx, parts)
    if ctx.finalizing:
        ctx.log.info("The object is being deleted: the finalizer's run starts")
    if not isinstance(ctx.obj.get("spec"), Mapping):
        ctx.log.info("Spec was not found for CR")
    ctx.log.debug("Starting a run", finalizing=ctx.finalizing, generation=ctx.generation)
    try:
        ctx.outcome = await parts.executor.run(request)
    except ExecutionError as error:
        ctx.outcome = _not_run(error, started=started, parts=parts)
    except Exception as error:  # noqa: BLE001 - a bug in an executor must not leave the object at Running for ever
        sentence = "Observed a panic: the executor broke; please report this"
        ctx.log.error(sentence, panic=type(error).__name__, error=error)
        ctx.outcome = _not_run(error, started=started, parts=parts)
    finally:
        ctx.leave()
    if ctx.outcome.timed_out:
        await parts.events.record(ctx.obj, type="Warning", reason="RunTimeout", message=ctx.outcome.failures[0])
    return None


async def release(ctx: Context, parts: Parts) -> Decision | None:
    """Take our finalizer off after a finalizer run that succeeded and doesn't ask to be repeated."""
    finalizers = _finalizers(ctx, parts)
    if finalizers is None or not ctx.finalizing or not _finished(_outcome(ctx)):
        return None
    released = await finalizers.remove(ctx.obj)
    if released is None:
        return gone(ctx, parts)
    ctx.log.info("The finalizer is removed: the object may go", finalizer=finalizers.name)
    ctx.obj = released
    return None


async def report(ctx: Context, parts: Parts) -> Decision | None:
    """Write the outcome into the status; what cannot be written now is kept for `rewrite_pending_status`."""
    if not parts.watch.manage_status:
        return None
    transition = replace(
        done(_outcome(ctx), at=parts.clock.now(), generation=ctx.generation),
        message_limit=parts.message_limit,
        tell_generation=not ctx.counts_status,
    )
    parts.pending.keep(ctx.request, uid=uid_of(ctx.obj), transition=transition)
    # a role may have written the object meanwhile, and where it did, the source has mostly seen that
    newest = None if ctx.finalizing else parts.seen(ctx.request)
    if await _report(ctx, parts, transition=transition, newest=newest) is not None:
        return None
    released = ctx.finalizing and _finished(_outcome(ctx))
    return _let_go(ctx, parts) if released else gone(ctx, parts)


async def schedule(ctx: Context, parts: Parts) -> Decision | None:
    """Decide when the object's next turn is."""
    outcome = _outcome(ctx)
    finalizers = _finalizers(ctx, parts)
    if ctx.finalizing and _finished(outcome):
        return Forget()
    if not ctx.finalizing and is_deleting(ctx.obj) and finalizers is not None and finalizers.on(ctx.obj):
        return RequeueAfter(seconds=0.0, fresh=True)  # deleted while the run was going on: the finalizer's run is next
    return _after(outcome, ctx)


async def report_error(ctx: Context, parts: Parts, *, message: str) -> None:
    """Say in the status why nothing can run, or why a run has no end of its own."""
    ctx.refused = ctx.outcome is None  # a run that ended is counted as such
    if parts.watch.manage_status:
        transition = error(message, at=parts.clock.now(), generation=ctx.generation)
        await _report(ctx, parts, transition=replace(transition, message_limit=parts.message_limit))


STEPS: tuple[Step, ...] = (
    admit,
    load,
    select,
    claim,
    rewrite_pending_status,
    pause,
    check_period,
    skip_terminated,
    hold,
    announce,
    run,
    release,
    report,
    schedule,
)


def _let_go(ctx: Context, parts: Parts) -> Forget:
    """Keep nothing of an object that is gone or not ours any more."""
    parts.pending.drop(ctx.request)
    parts.notices.forget(ctx.request)
    return Forget()


def _after(outcome: Ended, ctx: Context) -> Decision:
    """Decide after a run, and tell the period that it asked for."""
    asked = outcome.requeue_after
    if outcome.success and asked is not None and asked > timedelta(0):
        ctx.log.info(f"Set the reconciliation to occur after {format_duration(asked)}")
    return after_run(outcome, period=ctx.period, wish=ctx.wish)


async def _tell_dropped(ctx: Context, parts: Parts) -> None:
    """Tell in an Event which keys of the spec no run gets; their values are nobody's business."""
    work = partial(left_out, ctx.obj.get("spec"), snake_case=parts.watch.snake_case_parameters)
    # beside the event loop: a spec may hold tens of thousands of names
    keys = work() if is_small(ctx.obj) else await asyncio.to_thread(work)
    if keys:
        rule = "a spec may neither set Ansible's connection variables nor hold names that start with __ansible_"
        message = f"Left out, as {rule}: {', '.join(keys)}"
        await parts.events.record(ctx.obj, type="Warning", reason="SpecKeysDropped", message=message)


async def _report(
    ctx: Context,
    parts: Parts,
    *,
    transition: Transition,
    unless: Unless = lambda _live: False,
    newest: Object | None = None,
) -> Object | None:
    """Write *transition* and keep the newest object; None where the object is gone or another has its name."""
    try:
        result = await parts.status.write(
            _resource(ctx), ctx.obj, compute=transition.apply, unless=unless, newest=newest
        )
    except Invalid as refusal:  # in every form: the role does its work all the same, and no retry would help
        parts.pending.drop(ctx.request)
        ctx.log.error("The API server refuses the status, so it is not written", error=str(refusal))
        return ctx.obj
    parts.pending.drop(ctx.request)
    if result.obj is None or result.state is WriteState.SUPERSEDED:
        expected = ctx.finalizing and ctx.outcome is not None and _finished(ctx.outcome)
        tell = ctx.log.debug if expected else ctx.log.info
        tell("The object is gone or was created anew: its status is not written", state=result.state.value)
        return None
    ctx.obj = result.obj
    return ctx.obj


def _terminated(obj: Object, *, parts: Parts) -> bool:
    """Tell whether *obj* is in deletion and our finalizer doesn't hold it: there is nothing to do for it."""
    return is_deleting(obj) and not holds(parts.watch, obj)


def _finalizers(ctx: Context, parts: Parts) -> Finalizers | None:
    if parts.watch.finalizer is None:
        return None
    return Finalizers(client=parts.client, resource=_resource(ctx), name=parts.watch.finalizer.name)


def _finished(outcome: Outcome) -> bool:
    """Tell whether a finalizer run has nothing left to do: a requeue after zero is no wish to be repeated."""
    return outcome.success and (outcome.requeue_after is None or outcome.requeue_after <= timedelta(0))


def _not_run(error: Exception, *, started: datetime, parts: Parts) -> Outcome:
    """Return the outcome of a run that broke outside of Ansible."""
    text = f"Unable to run reconciliation: {error or type(error).__name__}"
    return Outcome(success=False, failures=(text,), started=started, finished=parts.clock.now())


def _period_or_default(ctx: Context, parts: Parts) -> timedelta:
    """Return the object's period, and that of its watch where the annotation is broken."""
    try:
        return parts.periods.of(ctx.obj)
    except ValueError:
        return parts.periods.of({})


def _resource(ctx: Context) -> Resource:
    if ctx.resource is None:
        raise AssertionError("the step load comes first")
    return ctx.resource


def _outcome(ctx: Context) -> Outcome:
    if ctx.outcome is None:
        raise AssertionError("the step run comes first")
    return ctx.outcome
