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
    log_notes(loaded.notes, logger=logger)
    if not loaded.watches:
        log.warning("The watches file names no kind: nothing will be reconciled", file=str(settings.watches_file))
    for watch in loaded.watches:
        log.info("Watch", **fields_of(watch, origins=loaded.origins.get(watch.gvk), settings=settings))
    for watch in loaded.watches:
        if watch.reconciles and not watch.mark_unsafe:
            log.warning(
                "Specs of this kind are templates: who may write such an object can run code in the operator's pod. "
                "markUnsafe: true makes them plain text",
                gvk=str(watch.gvk),
            )
    asking = any(watch.watch_dependent_resources or watch.watch_dependent_status for watch in loaded.watches)
    if not settings.proxy.inject_owner_references and asking:
        log.warning(
            "--inject-owner-ref=false: nothing puts owner references on what a role makes, and its dependents are not "
            "watched, nor are the fields of watchDependentStatus"
        )


def log_notes(notes: Sequence[str], *, logger: Logger) -> None:
    """Log a warning for each of *notes*; a file that is refused has them, too."""
    for note in notes:
        logger.named("watches").warning("A note on the watches file", note=note)


def fields_of(watch: Watch, *, origins: Origins | None, settings: Settings) -> dict[str, Any]:
    """Return what the line of *watch* tells; every line has every field, but for the rare ones at the end."""
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
        "executor": watch.executor or settings.execution.executor,
        "executorFrom": _executor_from(watch, settings=settings),
        **_dependents(watch),
        **({"runTimeout": format_duration(watch.run_timeout)} if watch.run_timeout else {}),
        **({"handlers": str(watch.handlers)} if watch.handlers else {}),
    }


def _dependents(watch: Watch) -> dict[str, Any]:
    """Return the keys of *watch* about dependents, where they are not the default."""
    fields: dict[str, Any] = {}
    if not watch.watch_dependent_resources:
        fields["watchDependentResources"] = False
    if watch.watch_cluster_scoped_resources:
        fields["watchClusterScopedResources"] = True
    if watch.watch_dependent_status:
        entries = watch.watch_dependent_status
        fields["watchDependentStatus"] = [f"{entry.gvk}: {', '.join(entry.fields)}" for entry in entries]
    if watch.blacklist:
        fields["blacklist"] = [str(gvk) for gvk in watch.blacklist]
    return fields


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


def _executor_from(watch: Watch, *, settings: Settings) -> str:
    if watch.executor:
        return "watches.yaml"
    return "--executor" if "executor" in settings.given_flags else "default"


def _period(watch: Watch, *, settings: Settings) -> tuple[timedelta, str]:
    if watch.reconcile_period is not None:
        return watch.reconcile_period, "watches.yaml"
    given = "reconcile-period" in settings.given_flags
    return settings.reconcile_period, "--reconcile-period" if given else "default"
