"""Filters of the `node_pool` role: plain data in and out around the pure functions of module_utils.

Results are marked unsafe: whatever a user wrote into a spec is never read as a template, on any ansible-core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.aws_operator.core.plugins.module_utils.offerings import FIRST_PAUSE
from ansible_collections.aws_operator.core.plugins.module_utils.plain_data import plain
from ansible_collections.aws_operator.core.plugins.module_utils.pool_plan import PoolPlan, make_pool_plan
from ansible_collections.aws_operator.core.plugins.module_utils.pool_status import pool_update_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import PoolView
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse


def _view(given: Mapping[str, Any], given_seen: Mapping[str, Any]) -> PoolView:
    pool, seen = plain(given), plain(given_seen)
    if not (pool.get("metadata") or {}).get("uid"):
        raise AnsibleFilterError("the NodePool has no metadata.uid: without it no machine is known to be its own")
    return PoolView(
        pool=pool,
        instances=seen.get("instances") or [],
        nodes=seen.get("nodes") or [],
        pods=seen.get("pods") or [],
        now=parse(seen.get("now")) or datetime.now(UTC),
        finalizing=bool(seen.get("finalizing")),
        user_data_secret=str(seen.get("user_data_secret") or ""),
        capacity_pause=float(seen.get("capacity_pause") or FIRST_PAUSE),
    )


def _plan(view: PoolView) -> PoolPlan:
    try:
        plan: PoolPlan = make_pool_plan(view)
    except ValueError as error:  # a duration or quantity that no schema has checked
        raise AnsibleFilterError(str(error)) from error
    return plan


def pool_plan(pool: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return the actions of this run; *seen* has `instances`, `nodes`, `pods`, `now`, `finalizing` and others."""
    plan = _plan(_view(pool, seen))
    return wrap_var({"actions": [asdict(action) for action in plan.actions], "missing": plan.missing})


def pool_status(pool: Mapping[str, Any], seen: Mapping[str, Any], *, blocked: Sequence[Mapping[str, str]] = ()) -> Any:
    """Return the status to write at the end of a run; *blocked* are refused evictions: `pod` and `message`."""
    view = _view(pool, seen)
    return wrap_var(asdict(pool_update_of(view, _plan(view), blocked=plain(blocked))))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"pool_plan": pool_plan, "pool_status": pool_status}
