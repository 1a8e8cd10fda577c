"""Filters of the `node_pool` role: plain data in and out around the pure functions of module_utils.

Results are marked unsafe: whatever a user wrote into a spec is never read as a template, on any ansible-core.
"""

from __future__ import annotations

import base64
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
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import (
    CORDON,
    CREATE,
    DELETE,
    DELETE_NODE,
    EVICT,
    SET_NODE,
    SET_POLICY,
    UNCORDON,
    PoolView,
)
from ansible_collections.aws_operator.core.plugins.module_utils.removals import looks_at_pods
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse
from ansible_collections.aws_operator.core.plugins.module_utils.user_data import (
    Joining,
    UserDataError,
    check_place,
    user_data_of,
)

_FEW = 5
"""Nodes whose pods are asked for one by one; of more, all pods are."""


def _view(given: Mapping[str, Any], given_seen: Mapping[str, Any]) -> PoolView:
    pool, seen = plain(given), plain(given_seen)
    if not (pool.get("metadata") or {}).get("uid"):
        raise AnsibleFilterError("the NodePool has no metadata.uid: without it no machine is known to be its own")
    obstacle = seen.get("obstacle") or {}
    return PoolView(
        pool=pool,
        instances=seen.get("instances") or [],
        nodes=seen.get("nodes") or [],
        pods=seen.get("pods") or [],
        pods_read="pods" in seen,
        now=parse(seen.get("now")) or datetime.now(UTC),
        finalizing=bool(seen.get("finalizing")),
        user_data_secret=str(seen.get("user_data_secret") or ""),
        obstacle=(str(obstacle["reason"]), str(obstacle["message"])) if obstacle.get("reason") else None,
        capacity_pause=float(seen.get("capacity_pause") or FIRST_PAUSE),
    )


def _plan(view: PoolView) -> PoolPlan:
    try:
        plan: PoolPlan = make_pool_plan(view)
    except ValueError as error:  # a duration or quantity that no schema has checked
        raise AnsibleFilterError(str(error)) from error
    return plan


def pool_user_data(
    pool: Mapping[str, Any],
    *,
    secrets: Sequence[Any] = (),
    authorities: Sequence[Any] = (),
    there: Sequence[Any] = (),
) -> Any:
    """Return the `user_data` of the pool's machines, or the `obstacle` (`reason`, `message`) to it.

    *secrets* is what was found of the token's Secret, *authorities* of the ConfigMap with the cluster's CA, *there* of
    the Secret that the user data goes to.
    """
    given = plain(pool)
    try:
        check_place(given, plain(there))
        token = _token(given, plain(secrets))
        found = plain(authorities)
        authority = str((found[0].get("data") or {}).get("ca.crt") or "") if found else ""
        text = user_data_of(Joining(pool=given, token=token, cluster_ca=authority))
    except UserDataError as error:
        return wrap_var({"user_data": "", "obstacle": {"reason": error.reason, "message": str(error)}})
    return wrap_var({"user_data": text, "obstacle": {}})


def _token(pool: Mapping[str, Any], secrets: Sequence[Mapping[str, Any]]) -> str:
    reference = ((pool.get("spec") or {}).get("bootstrap") or {}).get("tokenSecretRef")
    if not reference:
        return ""
    key = reference.get("key") or "token"
    value = (secrets[0].get("data") or {}).get(key) if secrets else None
    if value is None:
        where = f"secret {reference['name']} in namespace {pool['metadata'].get('namespace')}"
        lacking = f"there is no key {key} in {where}" if secrets else f"there is no {where}"
        raise UserDataError("SecretNotFound", f"{lacking}; create it, or correct spec.bootstrap.tokenSecretRef")
    return base64.b64decode(value).decode(errors="replace").strip()


def pool_pods(pool: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return the field selectors of the pods to read, none where no node goes."""
    names = looks_at_pods(_view(pool, seen))
    return wrap_var([f"spec.nodeName={name}" for name in names] if len(names) <= _FEW else ["spec.nodeName!="])


def pool_plan(pool: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return the actions of this run by what carries them out.

    *seen* has `nodes`, `instances`, `pods`, `now`, `user_data_secret`, `obstacle` and `finalizing`.
    """
    plan = _plan(_view(pool, seen))

    def of(*kinds: str) -> list[dict[str, Any]]:
        return [asdict(action) for action in plan.actions if action.kind in kinds]

    return wrap_var({
        "actions": of(*{action.kind for action in plan.actions}),
        "missing": plan.missing,
        "create": of(CREATE),
        "cordon": of(CORDON, UNCORDON),
        "evict": of(EVICT),
        "delete": of(DELETE),
        "set_policy": of(SET_POLICY),
        "set_node": of(SET_NODE),
        "delete_node": of(DELETE_NODE),
    })


def pool_still(pool: Mapping[str, Any], seen: Mapping[str, Any], *, deletions: Sequence[Mapping[str, Any]]) -> Any:
    """Return those of *deletions* that a second look, *seen*, asks for as well."""
    again = {action.name for action in _plan(_view(pool, seen)).actions if action.kind == DELETE}
    return wrap_var([action for action in plain(deletions) if action["name"] in again])


def pool_status(
    pool: Mapping[str, Any],
    seen: Mapping[str, Any],
    *,
    blocked: Sequence[Mapping[str, str]] = (),
    refused: Sequence[Mapping[str, str]] = (),
    live: Sequence[Mapping[str, Any]] = (),
) -> Any:
    """Return the status to write at the end of a run.

    *blocked* are evictions that budgets refused (`pod`, `message`), *refused* those that are refused for good; *live*
    is the pool as it was read again, if it's still there.
    """
    view, now_there = _view(pool, seen), plain(live)
    update = pool_update_of(
        view,
        _plan(view),
        blocked=plain(blocked),
        refused=plain(refused),
        live=now_there[0] if now_there else None,
    )
    return wrap_var(asdict(update))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "pool_plan": pool_plan,
            "pool_pods": pool_pods,
            "pool_status": pool_status,
            "pool_still": pool_still,
            "pool_user_data": pool_user_data,
        }
