"""The families of the operator's own metrics: names, types and labels are the peer's, and a few are ours.

The peer's come from ansible-operator (`ansible_operator_*`), operator-lib (`resource_created_at_seconds`),
controller-runtime and client-go. Ours stand beside them under `ansible_operator_*`.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_GO_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
RUN_BUCKETS = (*_GO_BUCKETS, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""The peer's, and longer ones: now that the run itself is measured, most are longer than 10 s."""
USER_BUCKETS = _GO_BUCKETS
_RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0),
    *(40.0, 50.0, 60.0),
)
_QUEUE_BUCKETS = tuple(float(f"1e{power}") for power in range(-8, 4))
_CONTROLLER = ("controller",)
_QUEUE = ("name", "controller")


class Families:
    """Every family with its labels, in one registry; series appear by use."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them all."""

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        def histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, labels, registry=registry, buckets=buckets)

        own, runtime = "ansible_operator", "controller_runtime"
        self.build_info = gauge(f"{own}_build_info", "Version and commit of the operator.", "commit", "version")
        self.result_gauge = gauge(f"{own}_reconcile_result", "Finished runs by their result.", "GVK", "result")
        self.results = counter(f"{own}_reconcile_results", "Finished runs by their result.", "GVK", "result")
        self.runs = histogram(f"{own}_reconciles", "Seconds that a run took.", "GVK", buckets=RUN_BUCKETS)

        self.reconciles = counter(f"{runtime}_reconcile", "Reconciles by how they ended.", "controller", "result")
        self.errors = counter(f"{runtime}_reconcile_errors", "Reconciles that failed.", *_CONTROLLER)
        self.terminal_errors = counter(
            f"{runtime}_terminal_reconcile_errors", "Reconciles that failed and are not tried again.", *_CONTROLLER
        )
        self.panics = counter(f"{runtime}_reconcile_panics", "Reconciles ended by a bug.", *_CONTROLLER)
        self.seconds = histogram(
            f"{runtime}_reconcile_time_seconds", "Seconds of a reconcile.", *_CONTROLLER, buckets=_RECONCILE_BUCKETS
        )
        self.workers = gauge(f"{runtime}_max_concurrent_reconciles", "Workers of a controller.", *_CONTROLLER)
        self.active = gauge(f"{runtime}_active_workers", "Workers that reconcile now.", *_CONTROLLER)

        self.depth = gauge("workqueue_depth", "Keys in line.", *_QUEUE, "priority")
        self.adds = counter("workqueue_adds", "Keys that were put in line.", *_QUEUE)
        self.waited = histogram(
            "workqueue_queue_duration_seconds", "Seconds a key was in line.", *_QUEUE, buckets=_QUEUE_BUCKETS
        )
        self.worked = histogram(
            "workqueue_work_duration_seconds", "Seconds a key was worked on.", *_QUEUE, buckets=_QUEUE_BUCKETS
        )
        self.unfinished = gauge(
            "workqueue_unfinished_work_seconds", "Seconds of the work under way, all workers together.", *_QUEUE
        )
        self.longest = gauge(
            "workqueue_longest_running_processor_seconds", "Seconds of the longest work under way.", *_QUEUE
        )
        self.retries = counter("workqueue_retries", "Keys that were added again after a failure.", *_QUEUE)

        self.requests = counter(
            "rest_client_requests", "Requests to the API server, by code, method and host.", "code", "method", "host"
        )
        self.leading = gauge(
            "leader_election_master_status", "Whether this process holds the Lease (1) or not.", "name"
        )
        self.proxied = counter(
            f"{own}_proxy_requests",
            "Requests through the proxy, by who sent them (run; none: without credentials; refused) and code.",
            "caller",
            "code",
        )
        self.certificates = counter("certwatcher_read_certificate", "Readings of the serving certificate.")
        self.certificate_errors = counter("certwatcher_read_certificate_errors", "Readings that failed.")


class PlayFamilies:
    """What the gate tells of the plays of all watches together; without a gate both are zero."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        self.running = Gauge(
            "ansible_operator_running_plays", "Plays under way, of all watches together.", registry=registry
        )
        self.waiting = Gauge(
            "ansible_operator_waiting_plays",
            "Reconciles that wait for --max-running-plays or --min-free-memory.",
            registry=registry,
        )
