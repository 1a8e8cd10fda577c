"""The filters of the `autoscaler` role: plain data in and out around `autoscaling.evaluate`.

Results are marked unsafe: whatever a user wrote into a spec is never read as a template, on any ansible-core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.aws_operator.core.plugins.module_utils.autoscaling import (
    AutoscalerView,
    Evaluation,
    evaluate,
)
from ansible_collections.aws_operator.core.plugins.module_utils.budgets import budget_of
from ansible_collections.aws_operator.core.plugins.module_utils.catalogue import catalogue_of, questions
from ansible_collections.aws_operator.core.plugins.module_utils.failures import failure_of
from ansible_collections.aws_operator.core.plugins.module_utils.plain_data import plain
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import volumes_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_facts import Facts
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse

_PLURALS = {
    "Autoscaler": "autoscalers",
    "DaemonSet": "daemonsets",
    "EC2Instance": "ec2instances",
    "Node": "nodes",
    "NodePool": "nodepools",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "StorageClass": "storageclasses",
}
_READ_AGAIN = ("Conflict", "NotFound")
"""What the API server answers where the pool isn't as it was read."""


def autoscaler_listed(results: Sequence[Mapping[str, Any]], indexed: Sequence[Mapping[str, Any]] | None = None) -> Any:
    """Return what a loop of `kube_list` over kinds gave, by the API's plural names.

    *indexed* are the pending pods of the handlers' index, which was asked before: a pod that is in both is the list's.
    """
    found: dict[str, list[Any]] = {plural: [] for plural in _PLURALS.values()}
    for result in plain(results):
        found[_PLURALS[result["item"]["kind"]]] += result["resources"]
    known = {pod["metadata"].get("uid") for pod in found["pods"]}
    found["pods"] += [pod for pod in plain(indexed or []) if pod["metadata"].get("uid") not in known]
    return wrap_var(found)


def autoscaler_questions(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return what has to be asked of AWS: a list of `pool` (the object), `types` and `subnets`."""
    view = _view(plain(obj), plain(seen))
    return wrap_var([asdict(item) for item in questions(view.claimed(), view.catalogue)])


def autoscaler_failure(result: Mapping[str, Any]) -> Any:
    """Return `reason` and `message` of a question that failed."""
    failure = failure_of(plain(result))
    return wrap_var({"reason": failure.reason, "message": failure.message})


def autoscaler_evaluation(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return targets, status and conditions.

    *seen* has what `autoscaler_listed` gave, `now`, AWS's `answers` so far, and what this run has `made` before.
    """
    return wrap_var(asdict(_evaluated(plain(obj), plain(seen))))


def autoscaler_update(obj: Mapping[str, Any], seen: Mapping[str, Any], *, writes: Iterable[Mapping[str, Any]]) -> Any:
    """Return what the evaluation gives, after *writes*, the results of scaling one pool each.

    `again` says that a pool had changed, so that all has to be read again, and `failure` what else was refused.
    """
    given = plain(list(writes))
    refused = {item["item"]["pool"]: item["refusal"] for item in given if item.get("refusal")}
    told = {pool: refusal["message"] for pool, refusal in refused.items()}
    evaluation = _evaluated(plain(obj), {**plain(seen), "refused": told})
    hopeless = [f"{pool}: {item['message']}" for pool, item in refused.items() if item["reason"] not in _READ_AGAIN]
    again = any(item["reason"] in _READ_AGAIN for item in refused.values())
    return wrap_var({**asdict(evaluation), "again": again, "failure": "; ".join(hopeless)})


def _evaluated(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Evaluation:
    try:
        evaluation: Evaluation = evaluate(_view(obj, seen))
    except ValueError as error:  # a duration or quantity that no schema has checked
        raise AnsibleFilterError(str(error)) from error
    return evaluation


def _view(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> AutoscalerView:
    pools = seen.get("nodepools") or []
    catalogue = catalogue_of(obj.get("status") or {}, seen.get("answers") or [])
    facts = Facts(
        nodes=seen.get("nodes") or [],
        instances=seen.get("ec2instances") or [],
        now=parse(seen.get("now")) or datetime.now(UTC),
        capacities=catalogue.capacities(),
        zones=catalogue.zones(pools),
        daemon_sets=seen.get("daemonsets") or [],
        unclear=catalogue.unclear(pools),
        architectures=catalogue.architectures(),
    )
    return AutoscalerView(
        obj=obj,
        pools=pools,
        pods=seen.get("pods") or [],
        facts=facts,
        volumes=volumes_of(
            claims=seen.get("persistentvolumeclaims") or [],
            volumes=seen.get("persistentvolumes") or [],
            classes=seen.get("storageclasses") or [],
        ),
        budgets=[budget_of(item) for item in seen.get("poddisruptionbudgets") or []],
        catalogue=catalogue,
        rivals=seen.get("autoscalers") or [],
        made=seen.get("made") or [],
        refused=seen.get("refused") or {},
    )


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "autoscaler_evaluation": autoscaler_evaluation,
            "autoscaler_failure": autoscaler_failure,
            "autoscaler_listed": autoscaler_listed,
            "autoscaler_questions": autoscaler_questions,
            "autoscaler_update": autoscaler_update,
        }
