"""The flags of `ansible-operator run`: the peer's, with its names, defaults and syntax, and a few of our own."""

from __future__ import annotations

from dataclasses import dataclass

from runner.cli.values import (
    ADDRESS,
    BOOLEAN,
    COUNT,
    DURATION,
    INTEGER,
    LOG_LEVEL,
    PATH,
    PORT,
    QUANTITY,
    STRING,
    Kind,
    one_of,
)
from runner.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One flag; *default* is written as on the command line."""

    name: str
    kind: Kind = STRING
    default: str = ""
    help: str
    deprecated: str = ""
    """The peer's advice; such a flag works, but is not in the help text."""
    shown_default: str = ""
    """What the help text says in the place of the default."""
    works: bool = True
    """Whether it has an effect in this version."""

    @property
    def parameter(self) -> str:
        """Return the name as a Python identifier."""
        return self.name.replace("-", "_")


def _zap(name: str, help: str, *, kind: Kind, default: str = "") -> Flag:  # noqa: A002
    return Flag(name=f"zap-{name}", kind=kind, default=default, help=help)


ANSIBLE_FLAGS = (
    Flag(name="watches-file", kind=PATH, default="./watches.yaml", help="The watches file."),
    Flag(
        name="inject-owner-ref",
        kind=BOOLEAN,
        default="true",
        help="Inject owner references into what Ansible creates, unless false.",
    ),
    Flag(
        name="ansible-verbosity",
        kind=INTEGER,
        default="2",
        help="Number of v's for ansible-playbook. ANSIBLE_VERBOSITY_<KIND>_<GROUP> goes first.",
    ),
    Flag(
        name="ansible-roles-path",
        kind=PATH,
        help="Where roles are; overwrites ANSIBLE_ROLES_PATH. ./roles is always searched.",
    ),
    Flag(
        name="ansible-collections-path",
        kind=PATH,
        help="Where collections are; overwrites ANSIBLE_COLLECTIONS_PATH.",
    ),
    Flag(name="ansible-args", help="More arguments for ansible-playbook."),
    Flag(
        name="ansible-log-events",
        kind=Kind(name="MODE", parse=str, choices=("nothing", "tasks", "everything")),
        default="tasks",
        help="Which Ansible events are logged: nothing, tasks or everything.",
    ),
    Flag(name="ansible-python", kind=PATH, help="Python interpreter that has Ansible, if not the operator's own."),
    Flag(
        name="executor",
        kind=one_of("NAME", "warm", "cold"),
        default="warm",
        help="How runs start: warm (forked from a process with Ansible loaded) or cold (a new process each). "
        "A watch's executor goes first.",
    ),
    Flag(name="cluster-id", help="Name of this cluster, for what operators create outside of it."),
)

CONTROLLER_FLAGS = (
    Flag(
        name="reconcile-period",
        kind=DURATION,
        default="10h",
        help="Default period of reconciles; 0s for none. A watch's reconcilePeriod goes first.",
    ),
    Flag(
        name="max-concurrent-reconciles",
        kind=INTEGER,
        default=str(Settings().max_concurrent_reconciles),
        shown_default="number of CPUs",
        help="Most reconciles at once per watch. MAX_CONCURRENT_RECONCILES_<KIND>_<GROUP> goes first.",
    ),
    Flag(
        name="max-running-plays",
        kind=COUNT,
        default="0",
        help="Most plays at once of all watches together; 0 for no limit but theirs.",
    ),
    Flag(
        name="min-free-memory",
        kind=QUANTITY,
        default="64Mi",
        help="No play starts while less memory is free, on the machine or within a cgroup's limit; 0 for no guard.",
    ),
    Flag(
        name="graceful-shutdown-timeout",
        kind=DURATION,
        default="30s",
        help="How long running reconciles may take at the end; negative for no limit.",
    ),
    Flag(name="config", help="Ignored; older manifests have it.", works=False),
)

LEADER_FLAGS = (
    Flag(
        name="leader-elect",
        kind=BOOLEAN,
        default="false",
        help="Elect a leader, so that only one instance works at a time.",
    ),
    Flag(
        name="enable-leader-election",
        kind=BOOLEAN,
        default="false",
        help="Elect a leader.",
        deprecated="use --leader-elect instead",
    ),
    Flag(name="leader-election-id", help="Name of the Lease that the leader holds."),
    Flag(name="leader-election-namespace", help="Namespace of the Lease, if not the pod's own."),
    Flag(
        name="leader-elect-resource-lock",
        default="configmapsleases",
        help="Ignored.",
        deprecated="This flag is now hardcoded to 'leases', which is the only supported option by client-go",
        works=False,
    ),
    Flag(
        name="leader-elect-lease-duration",
        kind=DURATION,
        default="15s",
        help="How long a Lease that is not renewed holds others off.",
    ),
    Flag(
        name="leader-elect-renew-deadline",
        kind=DURATION,
        default="10s",
        help="How long the leader tries to renew before it gives up.",
    ),
)

SERVING_FLAGS = (
    Flag(
        name="proxy-port",
        kind=PORT,
        default="8888",
        help="Port on localhost of the proxy for Ansible's modules; 0 takes a free one.",
    ),
    Flag(
        name="health-probe-bind-address",
        kind=ADDRESS,
        default=":6789",
        help="Address of /healthz and /readyz; 0 switches them off.",
    ),
    Flag(
        name="metrics-bind-address",
        kind=ADDRESS,
        default=":8443",
        help="Address of /metrics; 0 switches it off.",
    ),
    Flag(
        name="user-metrics-bind-address",
        kind=ADDRESS,
        default="localhost:5050",
        help="Address where roles send metrics with operator_sdk.util.osdk_metric; 0 switches it off.",
    ),
    Flag(
        name="metrics-addr",
        kind=ADDRESS,
        default=":8443",
        help="Address of /metrics.",
        deprecated="use --metrics-bind-address instead",
    ),
    Flag(name="metrics-secure", kind=BOOLEAN, default="false", help="Serve /metrics with TLS."),
    Flag(
        name="metrics-require-rbac",
        kind=BOOLEAN,
        default="false",
        help="Let only those read /metrics whom RBAC allows it; needs --metrics-secure.",
    ),
    Flag(name="enable-http2", kind=BOOLEAN, default="false", help="No effect: the servers speak HTTP/1.1."),
    Flag(
        name="webhook-bind-address",
        kind=ADDRESS,
        default=":9443",
        help="Address of the admission webhooks of Python handlers, if there are any.",
    ),
    Flag(
        name="webhook-service",
        help="NAMESPACE/NAME of the Service that leads to the webhooks, if the API server can't call their address.",
    ),
    Flag(
        name="webhook-configuration",
        help="Name of the webhook configurations that the operator writes, if nobody else deploys them.",
    ),
)

ZAP_FLAGS = (
    _zap(
        "devel",
        "Development defaults: console format, level debug, stack traces from warn.",
        kind=BOOLEAN,
        default="false",
    ),
    _zap("encoder", "Log format: json (the default) or console.", kind=one_of("FORMAT", "json", "console")),
    _zap(
        "log-level",
        "Log level: debug, info (the default), error, or a number above 0, which is debug, too.",
        kind=LOG_LEVEL,
    ),
    _zap(
        "stacktrace-level",
        "Level from which records have a stack trace: info, error or panic (none); without it bugs only.",
        kind=one_of("LEVEL", "info", "error", "panic"),
    ),
    _zap(
        "time-encoding",
        "Format of times in the log: epoch, millis, nano, iso8601, rfc3339 (the default) or rfc3339nano.",
        kind=one_of("FORMAT", "epoch", "millis", "nano", "nanos", "iso8601", "rfc3339", "rfc3339nano"),
    ),
)

GROUPS = {
    "Ansible": ANSIBLE_FLAGS,
    "Controllers": CONTROLLER_FLAGS,
    "Leader election": LEADER_FLAGS,
    "Serving": SERVING_FLAGS,
    "Logging": ZAP_FLAGS,
}
"""By the heading that they have in the help text."""
FLAGS = tuple(flag for group in GROUPS.values() for flag in group)
