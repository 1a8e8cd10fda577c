"""Frozen settings by topic, and the only place that reads the process environment.

`cli` turns flags into these; `assembly` hands each part its topic. Durations are seconds unless a name says
otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

MOST_VERBOSE = 7
"""More `v`s change nothing of what Ansible prints."""
MOST_WORKERS = 1000
"""Of one watch: each is a task from the start, and each run a few processes."""


def environment() -> Mapping[str, str]:
    """Return a copy of the process environment; everything else gets it (or a value of it) passed in."""
    return dict(os.environ)


def cpus() -> int:
    """Return how many CPUs this process may use, as Go counts them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class KubeSettings:
    """How the API server is reached."""

    kubeconfig: str = ""
    """A `:`-separated list as in $KUBECONFIG; empty: in-cluster if there, else ~/.kube/config."""
    request_timeout: float = 30.0
    connect_timeout: float = 10.0


@dataclass(frozen=True, kw_only=True)
class InformerSettings:
    """List and watch."""

    page_size: int = 500
    stall_timeout: float = 90.0
    """Silence on a watch that means a dead peer; bookmarks come about once a minute."""
    watch_timeout: float = 300.0
    """The least that the server is asked to keep a watch open; up to twice that."""
    backoff_base: float = 0.4
    backoff_cap: float = 30.0
    missing_cap: float = 5.0
    """The longest wait between tries while a kind is missing or forbidden."""
    search_limit: float = 10.0
    """Seconds that the first runs wait for the search for dependents of earlier ones."""


@dataclass(frozen=True, kw_only=True)
class BackoffSettings:
    """Retries of a failing key."""

    base: float = 1.0
    factor: float = 2.0
    cap: float = 1000.0
    jitter: float = 0.1
    """The share by which a delay is varied either way."""


@dataclass(frozen=True, kw_only=True)
class StatusSettings:
    """Writing status."""

    attempts: int = 10
    """Tries of one write before the computed status goes back to the queue."""
    total_time: float = 30.0
    """Longest time that one write may take, all tries together."""
    backoff: BackoffSettings = BackoffSettings(base=0.05, cap=2.0)
    message_limit: int = 8192
    """Bytes of a condition's message; the rest is cut with a mark."""


@dataclass(frozen=True, kw_only=True)
class ExecutionSettings:
    """Running Ansible."""

    ansible_python: str = ""
    """The interpreter that has Ansible; empty: the operator's own."""
    executor: str = "warm"
    """`warm` (forked from a process that has Ansible loaded) or `cold` (started anew for each run)."""
    max_running_plays: int = 0
    """Of all watches together; 0: as many as they have workers."""
    min_free_memory: int = 64 * 1024 * 1024
    """Bytes; while fewer are free no run starts. 0: no guard."""
    runner_dir: Path = Path("/tmp/ansible-operator/runner")  # noqa: S108 - the peer's path, part of the contract
    ansible_args: str = ""
    roles_path: str = ""
    """Overwrites ANSIBLE_ROLES_PATH where not empty."""
    collections_path: str = ""
    """Overwrites ANSIBLE_COLLECTIONS_PATH where not empty."""
    cluster_id: str = ""
    """Where not empty, the variable `ansible_operator_cluster_id` of each run."""
    debug_logs: bool = False
    """ANSIBLE_DEBUG_LOGS: print the whole output after each run."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment that a run inherits."""
    kill_grace: float = 5.0
    """Seconds between SIGTERM and SIGKILL to a run's process group."""


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """Listening sockets; an empty string or `0` switches one off."""

    health_probe_bind_address: str = ":6789"
    metrics_bind_address: str = ":8443"
    metrics_secure: bool = False
    metrics_require_rbac: bool = False
    enable_http2: bool = False
    """Has no effect: the HTTP library speaks HTTP/1.1."""
    metrics_cert_dir: Path = Path("/tmp/k8s-metrics-server/serving-certs")  # noqa: S108 - the peer's path
    """Where `tls.crt` and `tls.key` for `metrics_secure` may be."""
    user_metrics_bind_address: str = "localhost:5050"


@dataclass(frozen=True, kw_only=True)
class HealthSettings:
    """When the probes say that something is wrong."""

    loop_limit: float = 30.0
    """The event loop has not turned for so long."""
    informer_grace: float = 60.0
    """An informer is past its own stall limit for so long, and did not try again."""
    worker_grace: float = 120.0
    """A worker holds a key, and for so long neither an API call nor a child process of it exists."""
    executor_interval: float = 10.0
    """Between two questions whether the executor can run something."""


@dataclass(frozen=True, kw_only=True)
class ProxySettings:
    """The proxy between Ansible's modules and the API server."""

    port: int = 8888
    """On loopback; 0: a free one."""
    inject_owner_references: bool = True


@dataclass(frozen=True, kw_only=True)
class HandlersSettings:
    """Python handlers, and the admission webhooks among them."""

    backoff: BackoffSettings = BackoffSettings(cap=60.0)
    """Between two lives of the embedded operator."""
    patience: float = 30.0
    """Seconds that a run waits for what handlers publish."""
    ending_limit: float = 15.0
    """Seconds that kopf may take to end by itself; it is given up then."""
    rescan_interval: float = 30.0
    """Seconds to the first look for kinds that handlers are for and that aren't served; doubled for each next one."""
    away_limit: float = 30.0
    """Seconds that an aggregated API may answer 503 before it counts as missing."""
    admission_patience: float = 5.0
    """Seconds that an admission review waits for indexes; the API server gives up after ten by itself."""
    webhook_bind_address: str = ":9443"
    webhook_cert_dir: Path = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - controller-runtime's path
    """Where `tls.crt`, `tls.key` and `ca.crt` may be; a self-signed certificate is made without them."""
    webhook_service: str = ""
    """`NAMESPACE/NAME` of the Service that leads to the webhooks; empty: the API server calls the address."""
    webhook_configuration: str = ""
    """Name of the objects that tell the API server of the webhooks; empty: none is written."""


@dataclass(frozen=True, kw_only=True)
class LeaderElectionSettings:
    """The Lease that only one instance of an operator holds."""

    enabled: bool = False
    id: str = ""
    """Name of the Lease."""
    namespace: str = ""
    """Empty: the namespace that the pod runs in."""
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    """Between two tries; the peer has no flag for it either."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """The shape of the operator's own log; its level is `Settings.log_level`."""

    encoder: str = "json"
    """`json` or `console`."""
    time_encoding: str = "rfc3339"
    """One of zap's names: epoch, millis, nano, nanos, iso8601, rfc3339, rfc3339nano."""
    stacktrace_level: str = "bugs"
    """Records of this level and above tell where they come from; `bugs`: only errors that nobody expected."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of it."""

    watches_file: Path = Path("./watches.yaml")
    namespaces: tuple[str, ...] = ()
    """WATCH_NAMESPACE; empty: all."""
    reconcile_period: timedelta = timedelta(hours=10)
    max_concurrent_reconciles: int = field(default_factory=cpus)
    ansible_verbosity: int = 2
    graceful_shutdown_timeout: float = 30.0
    log_level: str = "info"
    """`error`, `info`, `debug`, or a verbosity such as `2`."""
    log_format: LogSettings = LogSettings()
    given_flags: frozenset[str] = frozenset()
    """Names of the flags on the command line, so that the start-up log can tell where a value comes from."""
    ansible_log_events: str = "tasks"
    """`nothing`, `tasks` or `everything`."""
    commit: str = "unknown"
    """What the operator was built from, for its build info metric."""
    kube: KubeSettings = KubeSettings()
    informer: InformerSettings = InformerSettings()
    backoff: BackoffSettings = BackoffSettings()
    status: StatusSettings = StatusSettings()
    execution: ExecutionSettings = ExecutionSettings()
    serving: ServingSettings = ServingSettings()
    health: HealthSettings = HealthSettings()
    proxy: ProxySettings = ProxySettings()
    handlers: HandlersSettings = HandlersSettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
