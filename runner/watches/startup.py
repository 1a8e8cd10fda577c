"""The start-up log of watches.yaml: what each kind runs, how often and how many at once, and who decided that.

Called once, after the file is loaded and before anything is watched. Names of fields and their order are a promise:
docs/evidence/04/start-up-log.md shows them, a test holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from runner.logs import Logger
from runner.settings import Settings
from runner.watches.durations import format_duration
from runner.watches.loader import Watches
from runner.watches.model import LabelRequirement, Watch
from runner.watches.overrides import Chosen, Origins

_WORKERS = "--max-concurrent-reconciles"


def log_watches(loaded: Watches, *, settings: Settings, logger: Logger) -> None:
    """Log the notes on the file, a line for each watch, and a warning for each whose specs are templates."""
    log = logger.named("watches")
    for note in loaded.notes:
        log.warning("A note on the watches file", note=note)
    if not loaded.watches:
        log.warning("The watches file names no kind: nothing will be reconciled", file=str(settings.watches_file))
    for watch in loaded.watches:
        log.info("Watch", **fields_of(watch, origins=loaded.origins.get(watch.gvk), settings=settings))
    for watch in loaded.watches:
        if not watch.mark_unsafe:
            log.warning(
                "Specs of this kind are templates: who may write such an object can run code in the operator's pod. "
                "markUnsafe: true makes them plain text",
                gvk=str(watch.gvk),
            )
    if not settings.proxy.inject_owner_references and any(watch.watch_dependent_resources for watch in loaded.watches):
        log.warning(
            "--inject-owner-ref=false: nothing puts owner references on what a role makes, and its dependents are not "
            "watched"
        )


def fields_of(watch: Watch, *, origins: Origins | None, settings: Settings) -> dict[str, Any]:
    """Return what the line of *watch* tells; every line has every field."""
    period, period_from = _period(watch, settings=settings)
    workers = origins.workers if origins else Chosen(value=watch.max_concurrent_reconciles, source=_WORKERS)
    verbosity = origins.verbosity if origins else Chosen(value=watch.ansible_verbosity, source="--ansible-verbosity")
    finalizer = watch.finalizer
    return {
        "gvk": str(watch.gvk),
        "playbook": str(watch.content.playbook or ""),
        "role": str(watch.content.role or ""),
        "workers": workers.value,
        "workersFrom": workers.source,
        "verbosity": verbosity.value,
        "verbosityFrom": verbosity.source,
        "reconcilePeriod": format_duration(period),
        "reconcilePeriodFrom": period_from,
        "finalizer": finalizer.name if finalizer else "",
        "manageStatus": watch.manage_status,
        "selector": selector_text(watch.selector),
        "namespaces": list(settings.namespaces) or ["*"],
        "markUnsafe": watch.mark_unsafe,
    }


def selector_text(selector: Sequence[LabelRequirement]) -> str:
    """Return *selector* as kubectl's `--selector` takes it; empty where everything is selected."""
    return ",".join(_requirement_text(requirement) for requirement in selector)


def _requirement_text(requirement: LabelRequirement) -> str:
    key, values = requirement.key, ",".join(requirement.values)
    match requirement.operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "In" if len(requirement.values) == 1:
            return f"{key}={values}"
    return f"{key} {requirement.operator.lower()} ({values})"


def _period(watch: Watch, *, settings: Settings) -> tuple[timedelta, str]:
    if watch.reconcile_period is not None:
        return watch.reconcile_period, "watches.yaml"
    given = "reconcile-period" in settings.given_flags
    return settings.reconcile_period, "--reconcile-period" if given else "default"
