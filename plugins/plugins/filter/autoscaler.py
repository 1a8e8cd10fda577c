"""The filter of the `autoscaler` role: plain data in and out around `autoscaling.evaluate`.

Results are marked unsafe: whatever a user wrote into a spec is never read as a template, on any ansible-core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.aws_operator.core.plugins.module_utils.autoscaling import AutoscalerView, evaluate
from ansible_collections.aws_operator.core.plugins.module_utils.plain_data import plain
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import volumes_of
from ansible_collections.aws_operator.core.plugins.module_utils.pools import Facts
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse


def autoscaler_evaluation(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
    """Return targets, status and conditions; *seen* has what the role listed, by the API's plural names, and `now`."""
    read = plain(seen)
    try:
        facts = Facts(
            nodes=read.get("nodes") or [],
            now=parse(read.get("now")) or datetime.now(UTC),
            capacities=read.get("capacities") or {},
            zones=read.get("zones") or {},
            daemon_sets=read.get("daemonsets") or [],
        )
        view = AutoscalerView(
            obj=plain(obj),
            pools=read.get("nodepools") or [],
            pods=read.get("pods") or [],
            facts=facts,
            volumes=volumes_of(
                claims=read.get("persistentvolumeclaims") or [],
                volumes=read.get("persistentvolumes") or [],
                classes=read.get("storageclasses") or [],
            ),
        )
        return wrap_var(asdict(evaluate(view)))
    except ValueError as error:  # a duration or quantity that no schema has checked
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"autoscaler_evaluation": autoscaler_evaluation}
