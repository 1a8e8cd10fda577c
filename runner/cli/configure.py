"""Parsed flags and the environment to `Settings`: a pure function, with notes for the log."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from runner.cli.flags import FLAGS
from runner.cli.values import parse_boolean
from runner.cli.version import facts
from runner.errors import ConfigError
from runner.kube.names import is_label, is_subdomain
from runner.logs import Logger
from runner.settings import (
    MOST_VERBOSE,
    MOST_WORKERS,
    ExecutionSettings,
    HandlersSettings,
    KubeSettings,
    LeaderElectionSettings,
    LogSettings,
    ProxySettings,
    ServingSettings,
    Settings,
)

_RETRY_PERIOD = timedelta(seconds=2)
_LONGEST_LEASE = timedelta(seconds=2**31 - 1)
"""leaseDurationSeconds is an int32."""
_JITTER = 1.2
"""client-go's: a leader must be able to retry once before its deadline."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A line for the log, written once the logger is there."""

    sentence: str
    level: str = "info"
    keys: Mapping[str, Any] = field(default_factory=dict)

    def log(self, logger: Logger) -> None:
        """Write it to *logger*."""
        write = logger.error if self.level == "error" else logger.info
        write(self.sentence, **self.keys)


@dataclass(frozen=True, kw_only=True)
class Configured:
    """What `configure` makes."""

    settings: Settings
    notes: tuple[Note, ...]


def configure(values: Mapping[str, Any], *, given: Collection[str], environ: Mapping[str, str]) -> Configured:
    """Return the settings for *values* (by flag name; *given*: those on the command line) and *environ*.

    Raises:
        ConfigError: flags that exclude or need each other, or a wrong variable; the text names them.
    """
    notes: list[Note] = []
    settings = Settings(
        watches_file=Path(values["watches-file"]),
        namespaces=_namespaces(environ, notes=notes),
        reconcile_period=max(values["reconcile-period"], timedelta()),
        max_concurrent_reconciles=_workers(values["max-concurrent-reconciles"], notes=notes),
        ansible_verbosity=_verbosity(values["ansible-verbosity"], notes=notes),
        graceful_shutdown_timeout=_limit(values["graceful-shutdown-timeout"]),
        log_level=_log_level(values),
        log_format=_log_format(values),
        given_flags=frozenset(given),
        ansible_log_events=_log_events(values["ansible-log-events"], notes=notes),
        commit=facts()["commit"],
        kube=KubeSettings(kubeconfig=environ.get("KUBECONFIG", "")),
        execution=_execution(values, environ=environ, notes=notes),
        serving=_serving(values, given=given, environ=environ, notes=notes),
        proxy=ProxySettings(port=values["proxy-port"], inject_owner_references=values["inject-owner-ref"]),
        handlers=_handlers(values, environ=environ),
        leader_election=_leader_election(values, given=given, environ=environ, notes=notes),
    )
    idle = [f"--{flag.name}" for flag in FLAGS if flag.name in given and not flag.works]
    if idle:
        notes.append(Note(sentence="These flags have no effect in this version", keys={"flags": idle}))
    return Configured(settings=settings, notes=tuple(notes))


def _namespaces(environ: Mapping[str, str], *, notes: list[Note]) -> tuple[str, ...]:
    names = dict.fromkeys(name.strip() for name in environ.get("WATCH_NAMESPACE", "").split(",") if name.strip())
    for name in names:
        if not is_label(name):
            raise ConfigError(
                f'WATCH_NAMESPACE: "{name}" is no namespace name; write names of lower-case letters, digits and -, '
                "separated by commas, or leave it empty for all namespaces"
            )
    if names:
        notes.append(Note(sentence="Watching namespaces", keys={"namespaces": list(names)}))
    else:
        notes.append(Note(sentence="Watching all namespaces"))
    return tuple(names)


def _workers(number: int, *, notes: list[Note]) -> int:
    if number < 1:
        keys = {"flag": "--max-concurrent-reconciles", "value": number, "using": 1}
        notes.append(Note(sentence="A watch needs at least one worker", keys=keys))
    if number > MOST_WORKERS:
        keys = {"flag": "--max-concurrent-reconciles", "value": number, "using": MOST_WORKERS}
        notes.append(Note(sentence="A watch has no more workers than this", keys=keys))
    return min(max(number, 1), MOST_WORKERS)


def _verbosity(number: int, *, notes: list[Note]) -> int:
    if number > MOST_VERBOSE:
        keys = {"flag": "--ansible-verbosity", "value": number, "using": MOST_VERBOSE}
        notes.append(Note(sentence="More verbosity than Ansible knows", keys=keys))
    return min(max(number, 0), MOST_VERBOSE)


def _limit(timeout: timedelta) -> float:
    """Return seconds; negative means without limit, as in controller-runtime."""
    return math.inf if timeout < timedelta() else timeout.total_seconds()


def _log_level(values: Mapping[str, Any]) -> str:
    return str(values["zap-log-level"] or ("debug" if values["zap-devel"] else "info"))


def _log_format(values: Mapping[str, Any]) -> LogSettings:
    """Return the flags' choices, else zap's defaults for production or development."""
    developing = values["zap-devel"]
    return LogSettings(
        encoder=values["zap-encoder"] or ("console" if developing else "json"),
        time_encoding=values["zap-time-encoding"] or "rfc3339",
        stacktrace_level=values["zap-stacktrace-level"] or ("warn" if developing else "bugs"),
    )


def _log_events(value: str, *, notes: list[Note]) -> str:
    mode = value.lower()
    if mode in {"nothing", "tasks", "everything"}:
        return mode
    if mode:
        error = f"--ansible-log-events flag value '{value}' not recognized. Must be one of: Tasks, Everything, Nothing"
        notes.append(Note(level="error", sentence="unrecognized log level", keys={"using": "tasks", "error": error}))
    return "tasks"


def _execution(values: Mapping[str, Any], *, environ: Mapping[str, str], notes: list[Note]) -> ExecutionSettings:
    for flag, variable in (
        ("ansible-roles-path", "ANSIBLE_ROLES_PATH"),
        ("ansible-collections-path", "ANSIBLE_COLLECTIONS_PATH"),
    ):
        if values[flag]:
            keys = {"envVar": variable, "value": values[flag]}
            notes.append(Note(sentence="Set the environment variable", keys=keys))
    # Two operators on one machine (a demo beside a development plane) keep apart by their TMPDIR.
    temporary = environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the peer's path, part of the contract
    return ExecutionSettings(
        runner_dir=Path(temporary) / "ansible-operator" / "runner",
        ansible_python=values["ansible-python"],
        executor=values["executor"],
        max_running_plays=values["max-running-plays"],
        min_free_memory=values["min-free-memory"],
        ansible_args=values["ansible-args"],
        roles_path=values["ansible-roles-path"],
        collections_path=values["ansible-collections-path"],
        cluster_id=values["cluster-id"],
        debug_logs=_debug_logs(environ, notes=notes),
        environ=environ,
    )


def _debug_logs(environ: Mapping[str, str], *, notes: list[Note]) -> bool:
    variable = "ANSIBLE_DEBUG_LOGS"
    try:
        return parse_boolean(environ.get(variable, "false"))
    except ValueError:
        sentence = "Could not parse environment variable as an boolean; using default value"  # the peer's words
        notes.append(Note(sentence=sentence, keys={"envVar": variable, "default": False}))
        return False


def _serving(
    values: Mapping[str, Any], *, given: Collection[str], environ: Mapping[str, str], notes: list[Note]
) -> ServingSettings:
    _refuse_both("metrics-addr", "metrics-bind-address", given=given)
    if values["metrics-require-rbac"] and not values["metrics-secure"]:
        raise ConfigError("--metrics-require-rbac needs --metrics-secure; give both or none")
    if values["enable-http2"]:
        notes.append(Note(sentence="--enable-http2 has no effect: the servers speak HTTP/1.1, which every client does"))
    return ServingSettings(
        health_probe_bind_address=values["health-probe-bind-address"],
        metrics_bind_address=values["metrics-addr" if "metrics-addr" in given else "metrics-bind-address"],
        metrics_secure=values["metrics-secure"],
        metrics_require_rbac=values["metrics-require-rbac"],
        enable_http2=values["enable-http2"],
        metrics_cert_dir=Path(environ.get("TMPDIR") or "/tmp", "k8s-metrics-server", "serving-certs"),  # noqa: S108
        user_metrics_bind_address=values["user-metrics-bind-address"],
    )


def _handlers(values: Mapping[str, Any], *, environ: Mapping[str, str]) -> HandlersSettings:
    service, configuration = values["webhook-service"], values["webhook-configuration"]
    if service and not (service.count("/") == 1 and all(is_label(part) for part in service.split("/"))):
        raise ConfigError(f'--webhook-service: "{service}" names no Service; write NAMESPACE/NAME')
    if configuration and not is_subdomain(configuration):
        raise ConfigError(
            f'--webhook-configuration: "{configuration}" cannot be the name of an object; use lower-case letters, '
            "digits, - and ."
        )
    return HandlersSettings(
        webhook_bind_address=values["webhook-bind-address"],
        webhook_cert_dir=Path(environ.get("TMPDIR") or "/tmp", "k8s-webhook-server", "serving-certs"),  # noqa: S108
        webhook_service=service,
        webhook_configuration=configuration,
    )


def _leader_election(
    values: Mapping[str, Any], *, given: Collection[str], environ: Mapping[str, str], notes: list[Note]
) -> LeaderElectionSettings:
    _refuse_both("leader-elect", "enable-leader-election", given=given)
    enabled: bool = values["enable-leader-election" if "enable-leader-election" in given else "leader-elect"]
    name = _leader_election_id(values, given=given, environ=environ, notes=notes)
    lease, deadline = values["leader-elect-lease-duration"], values["leader-elect-renew-deadline"]
    if enabled and not name:
        raise ConfigError("LeaderElectionID must be configured; add --leader-election-id=NAME")
    if enabled and lease <= deadline:
        raise ConfigError("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline")
    if enabled and lease > _LONGEST_LEASE:
        raise ConfigError(
            f"--leader-elect-lease-duration must not be longer than {_LONGEST_LEASE.total_seconds():.0f}s, "
            "the most that a Lease can hold"
        )
    if enabled and deadline <= _RETRY_PERIOD * _JITTER:
        raise ConfigError("--leader-elect-renew-deadline must be longer than 2.4s")
    return LeaderElectionSettings(
        enabled=enabled,
        id=name,
        namespace=values["leader-election-namespace"],
        lease_duration=lease.total_seconds(),
        renew_deadline=deadline.total_seconds(),
    )


def _leader_election_id(
    values: Mapping[str, Any], *, given: Collection[str], environ: Mapping[str, str], notes: list[Note]
) -> str:
    name: str = values["leader-election-id"]
    if "OPERATOR_NAME" not in environ:
        return name
    notes.append(
        Note(sentence="Environment variable OPERATOR_NAME has been deprecated, use --leader-election-id instead.")
    )
    if "leader-election-id" not in given:
        return environ["OPERATOR_NAME"]
    notes.append(Note(sentence="Ignoring OPERATOR_NAME environment variable since --leader-election-id is set"))
    return name


def _refuse_both(first: str, second: str, *, given: Collection[str]) -> None:
    if first in given and second in given:
        raise ConfigError(f"only one of --{first} and --{second} may be set")
