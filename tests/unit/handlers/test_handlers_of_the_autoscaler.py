"""The file of handlers that ships for Autoscalers: what it keeps of pods, and whom it refuses."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import kopf
import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.autoscaler_view import claims

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def handlers() -> Any:
    """Give the file as a module, with a registry of its own."""
    spec = importlib.util.spec_from_file_location("autoscaler_handlers", ROOT / "handlers" / "autoscaler.py")
    assert spec is not None
    assert spec.loader is not None
    module, before = importlib.util.module_from_spec(spec), kopf.get_default_registry()
    kopf.set_default_registry(kopf.OperatorRegistry())
    try:
        spec.loader.exec_module(module)
    finally:
        kopf.set_default_registry(before)
    return module


class Admission:
    """One namespace with pools and Autoscalers, and what is said about another one."""

    def __init__(self, handlers: Any, **others: dict[str, Any]) -> None:
        """Start with the pools `general` (tier=a) and `gpu` (tier=b)."""
        self._check = handlers.check_claims
        self._claims = [{"name": name, "spec": spec, "leaves": False} for name, spec in others.items()]
        self._pools = [{"name": "general", "labels": {"tier": "a"}}, {"name": "gpu", "labels": {"tier": "b"}}]

    async def warnings(self, *, name: str = "new", old: dict[str, Any] | None = None, **spec: Any) -> list[str]:
        """Return the warnings about an Autoscaler with *spec*; raise where it is refused."""
        warnings: list[str] = []
        await self._check(
            name=name,
            namespace="prod",
            body={"metadata": {"name": name}, "spec": spec},
            old=None if old is None else {"spec": old},
            autoscaler_claims={"prod": self._claims},
            autoscaler_pools={"prod": self._pools},
            warnings=warnings,
        )
        return warnings


def selecting(tier: str) -> dict[str, Any]:
    """Return a spec that selects the pools of a tier."""
    return {"nodePoolSelector": {"matchLabels": {"tier": tier}}}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"nodePools": ["general"]}, {"nodePools": ["general"]}),
        ({"nodePools": ["later"]}, {"nodePools": ["later"]}),
        ({"nodePools": ["general"]}, selecting("a")),
        (selecting("a"), {"nodePools": ["gpu", "general"]}),
        (selecting("a"), {"nodePoolSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}}),
        (
            {"nodePools": ["gpu"]},
            {"nodePoolSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}},
        ),
    ],
)
async def test_a_claimed_pool_is_refused(handlers: Any, first: dict[str, Any], second: dict[str, Any]) -> None:
    """A second Autoscaler for a pool is refused with the pool and the first one's name, however both name it."""
    with pytest.raises(
        kopf.AdmissionError, match=r"claimed by another Autoscaler already: \w+ \(by first\)"
    ) as refused:
        await Admission(handlers, first=first).warnings(**second)
    assert refused.value.code == 422


async def test_others_get_in(handlers: Any) -> None:
    """Other pools, dry runs on either side, the object itself, and an edit that leaves the spec as it was get in."""
    admission = Admission(handlers, first={"nodePools": ["general"]}, dry={"nodePools": ["gpu"], "dryRun": True})
    assert await admission.warnings(nodePools=["gpu"]) == []
    assert await admission.warnings(nodePools=["general"], dryRun=True) == []
    assert await admission.warnings(name="first", nodePools=["general"]) == []
    assert await admission.warnings(old={"nodePools": ["general"]}, nodePools=["general"]) == []
    assert await admission.warnings(**selecting("b")) == []


async def test_what_is_missing_is_a_warning(handlers: Any) -> None:
    """A name that no pool has and a selector that selects none get in with a warning."""
    admission = Admission(handlers)
    assert await admission.warnings(nodePools=["general", "tpu"]) == [
        "there is no NodePool tpu in namespace prod (yet)"
    ]
    assert await admission.warnings(**selecting("c")) == [
        "spec.nodePoolSelector selects no NodePool of namespace prod (yet)"
    ]


def test_environment_of_pods_stays_out(handlers: Any) -> None:
    """What a pod's environment says reaches no run; what decides where it can be does."""
    container = {
        "name": "main",
        "image": "x",
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": {"cpu": "1"}},
        "ports": [{"hostPort": 80}],
    }
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "prod",
            "uid": "u",
            "managedFields": [{}],
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "note": "hunter2"},
        },
        "spec": {"containers": [container], "volumes": [claim], "nodeSelector": {"disk": "ssd"}},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}],
        },
    }
    assert handlers.slim(pod) == {
        "metadata": {
            "name": "p",
            "namespace": "prod",
            "uid": "u",
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        },
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "main", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [],
            "volumes": [claim],
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }


def test_runs_get_the_pods_of_their_namespaces(handlers: Any) -> None:
    """A run has the pending pods of the namespaces that its Autoscaler names, and no others."""
    index = {"prod": [{"a": 1}], "dev": [{"b": 1}]}
    assert handlers.pending_pods(autoscaler_pods=index, spec={"namespaces": ["prod", "none"]}) == [{"a": 1}]


SPECS = [
    {"nodePools": ["general"]},
    {"nodePools": []},
    {},
    {"nodePoolSelector": {}},
    {"nodePoolSelector": {"matchLabels": {"tier": "a"}}},
    {"nodePoolSelector": {"matchLabels": {"tier": "a", "size": "l"}}},
    *(
        {"nodePoolSelector": {"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}}
        for operator, values in (("In", ["a", "b"]), ("In", []), ("NotIn", ["a"]), ("Exists", []), ("DoesNotExist", []))
    ),
    {"nodePoolSelector": {"matchLabels": {"tier": "a"}, "matchExpressions": [{"key": "size", "operator": "Exists"}]}},
]


@pytest.mark.parametrize("labels", [{}, {"tier": "a"}, {"tier": "a", "size": "l"}, {"tier": "c"}, {"tier": ""}])
@pytest.mark.parametrize("spec", SPECS)
def test_webhook_and_role_agree_on_who_claims_a_pool(
    handlers: Any, spec: dict[str, Any], labels: dict[str, str]
) -> None:
    """The webhook has no Ansible to import the role's rules from, so each selector means the same to both."""
    for name in ("general", "gpu"):
        pool = {"metadata": {"name": name, "labels": labels}}
        assert handlers.claims(spec, {"name": name, "labels": labels}) is claims(spec, pool)
