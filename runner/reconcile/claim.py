"""The step after `load`: the object is ours alone, and what another watch on it owns is out of reach.

It comes after the read because only the object tells its UID, and before anything is written. Nothing waits between
the claim and the end of the step, so two watches never both get it.
"""

from __future__ import annotations

from dataclasses import replace

from runner.kube.objects import uid_of
from runner.reconcile.context import Context, Parts
from runner.reconcile.schedule import Decision, Parked
from runner.watches.matching import holds
from runner.watches.ownership import narrowed


async def claim(ctx: Context, parts: Parts) -> Decision | None:
    """Take the object's UID for this reconcile, or park the key until another watch's reconcile of it has ended."""
    if parts.claims is not None and not parts.claims.claim(ctx.request, uid=uid_of(ctx.obj)):
        ctx.log.debug("Another watch reconciles the object; waiting for its end")
        return Parked()
    watch = narrowed(parts.watch, earlier=parts.earlier, obj=ctx.obj)
    if watch is not parts.watch:
        ctx.narrowed = replace(parts, watch=watch)
        ctx.finalizing = ctx.finalizing and holds(watch, ctx.obj)
    return None
