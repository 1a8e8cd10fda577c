"""One entry of watches.yaml as a frozen value: what the loader makes and every later stage reads.

Keys, defaults and meanings are the peer's (ansible-operator-plugins, internal/ansible/watches/watches.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from runner.kube.objects import GVK


@dataclass(frozen=True, kw_only=True)
class Content:
    """What runs: a playbook's absolute path or a role's directory.

    None of both for a finalizer with vars only, and for an entry with handlers only.
    """

    playbook: Path | None = None
    role: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Finalizer:
    """What runs before an object may go, and the name that holds it until then."""

    name: str
    content: Content = Content()
    vars: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LabelRequirement:
    """One entry of a label selector: `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DependentStatus:
    """Fields of a dependent whose change matters, though they are part of its status."""

    gvk: GVK
    fields: tuple[str, ...]
    """With dots: `status.readyReplicas`."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """One kind and what to run for its objects."""

    gvk: GVK
    content: Content
    vars: Mapping[str, Any] = field(default_factory=dict)
    reconcile_period: timedelta | None = None
    """None: the flag's period; zero: never."""
    manage_status: bool = True
    watch_dependent_resources: bool = True
    watch_cluster_scoped_resources: bool = False
    watch_annotations_changes: bool = False
    snake_case_parameters: bool = True
    mark_unsafe: bool = False
    max_runner_artifacts: int = 20
    blacklist: tuple[GVK, ...] = ()
    selector: tuple[LabelRequirement, ...] = ()
    finalizer: Finalizer | None = None
    max_concurrent_reconciles: int = 1
    """Workers of this watch (flag or MAX_CONCURRENT_RECONCILES_*)."""
    ansible_verbosity: int = 2
    """0 to 7 `v`s (flag or ANSIBLE_VERBOSITY_*)."""
    executor: str = ""
    """`cold` or `warm`; empty: the flag's."""
    run_timeout: timedelta = timedelta()
    """The longest that a run may take; zero: no limit."""
    watch_dependent_status: tuple[DependentStatus, ...] = ()
    handlers: Path | None = None
    """A file of Python handlers, beside the role or playbook or alone."""

    @property
    def reconciles(self) -> bool:
        """Tell whether anything runs for objects of the kind; handlers alone see the kinds that they name."""
        return self.handlers is None or self.content != Content()
