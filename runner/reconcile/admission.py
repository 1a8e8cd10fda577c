"""The first step: a place among the plays of the whole operator, taken before the object is read.

Whoever waits here has read nothing yet and said nothing: what runs in the end is what is there then, and its status
says `Running` when something runs. The place is given back as soon as the play has ended.
"""

from __future__ import annotations

from runner.reconcile.context import Context, Parts
from runner.reconcile.schedule import Decision, Forget


async def admit(ctx: Context, parts: Parts) -> Decision | None:
    """Wait for a place; where the operator ends meanwhile, leave the object to the next one."""
    ctx.place = await parts.gate.enter()
    if ctx.place is None:
        ctx.log.debug("The operator ends before the run's turn came")
        return Forget()
    return None
