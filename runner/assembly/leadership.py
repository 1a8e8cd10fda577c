"""Leader election put together: settings become an elector, or none.

On loss the plays are killed without a grace period, before anything else: another instance may begin at any moment,
and a play that is asked politely goes on writing. The rest of the process follows within `_EXIT_LIMIT` seconds.
"""

from __future__ import annotations

import random
import socket
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from runner.assembly.operator import AlwaysLeading, Leadership
from runner.clock import Clock
from runner.errors import ConfigError, LeaderElectionLost
from runner.execution.leftovers import kill_all_runs
from runner.kube.client import KubeClient
from runner.kube.events import EventRecorder
from runner.kube.lease import Candidate, Elector, Hooks
from runner.kube.names import is_label, is_subdomain
from runner.kube.objects import Object
from runner.kube.service_account import SERVICE_ACCOUNT
from runner.logs import Logger
from runner.observe.vitals import Waiting
from runner.settings import LeaderElectionSettings, Settings

POD_NAMESPACE = SERVICE_ACCOUNT / "namespace"
_EVENT_LIMIT = 2.0
_EXIT_LIMIT = 5.0
"""Seconds from the loss of the lease to the end of the process, whatever still hangs."""


@dataclass(frozen=True, kw_only=True)
class Election:
    """What an election needs from the composition root."""

    client: KubeClient
    """Of its own: renewals wait behind nobody, and go on while the controllers' client is fenced."""
    clock: Clock
    logger: Logger
    end_now: Callable[[], None]
    """Ends the process with exit code 1, from any thread."""
    on_change: Callable[[bool], None] = lambda _leading: None
    """Gets whether this instance leads: for the metric."""
    on_loss: Callable[[], object] = lambda: None
    """Takes away from runs what they write by, before they are killed."""


class LeaseLeadership:
    """`Leadership` by a Lease."""

    def __init__(
        self,
        *,
        elector: Elector,
        end_now: Callable[[], None],
        logger: Logger,
        on_loss: Callable[[], object] = lambda: None,
        exit_limit: float = _EXIT_LIMIT,
    ) -> None:
        """Lead as *elector* says.

        Args:
            elector: holds the Lease.
            end_now: for a process that still hangs *exit_limit* seconds after the loss.
            logger: told why.
            on_loss: the first thing that happens at the loss.
            exit_limit: see above.
        """
        self._elector = elector
        self._on_loss = on_loss
        self._end_now = end_now
        self._logger = logger
        self._exit_limit = exit_limit

    @property
    def leading(self) -> bool:
        """Return whether this process leads."""
        return self._elector.leading

    def fenced(self) -> bool:
        """Return whether this process led and may not write any more."""
        return self._elector.fenced

    def waiting(self) -> Waiting:
        """Return what the elector saw of the Lease."""
        return Waiting(another_leads=self._elector.another_leads, trouble=self._elector.trouble)

    async def acquire(self) -> None:
        """Return as soon as this process leads."""
        await self._elector.acquire()

    async def hold(self) -> None:
        """Keep the Lease until cancelled; on loss shut out and kill the plays, then raise `LeaderElectionLost`."""
        try:
            await self._elector.hold()
        except LeaderElectionLost:
            self._on_loss()
            kill_all_runs()
            deadline = threading.Timer(self._exit_limit, self._end)
            deadline.daemon = True
            deadline.start()
            raise

    async def release(self) -> None:
        """Give the Lease back if it is held; never raises."""
        await self._elector.release()

    def _end(self) -> None:
        self._logger.error("Something still hangs: the process ends at once", error=LeaderElectionLost())
        self._end_now()


def build_leadership(settings: Settings, *, election: Election, pod_namespace: Path = POD_NAMESPACE) -> Leadership:
    """Return the leadership that *settings* ask for.

    Raises:
        ConfigError: the Lease's name or namespace is missing or impossible; the text names the flag.
    """
    if not settings.leader_election.enabled:
        return AlwaysLeading()
    resolved = resolve(settings.leader_election, pod_namespace=pod_namespace)
    candidate = Candidate(identity=f"{socket.gethostname()}_{uuid.uuid4()}", settings=resolved)
    recorder = EventRecorder(
        client=election.client,
        logger=election.logger,
        component=candidate.identity,
        clock=election.clock,
        limit=_EVENT_LIMIT,
    )

    async def announce(lease: Object, message: str) -> None:
        await recorder.record(lease, reason="LeaderElection", message=message)

    elector = Elector(
        client=election.client,
        candidate=candidate,
        clock=election.clock,
        random=random.SystemRandom().random,
        logger=election.logger,
        hooks=Hooks(on_change=election.on_change, announce=announce),
    )
    return LeaseLeadership(elector=elector, end_now=election.end_now, logger=election.logger, on_loss=election.on_loss)


def resolve(settings: LeaderElectionSettings, *, pod_namespace: Path = POD_NAMESPACE) -> LeaderElectionSettings:
    """Return *settings* with a name and a namespace that a Lease can have; raise `ConfigError`."""
    if not is_subdomain(settings.id):
        raise ConfigError(
            f'--leader-election-id (or OPERATOR_NAME): "{settings.id}" cannot be the name of a Lease; '
            "use lower-case letters, digits, - and ., and a letter or digit at the start, at the end and beside each ."
        )
    namespace = settings.namespace or _read(pod_namespace)
    if not namespace:
        raise ConfigError(
            "unable to find leader election namespace: not running in-cluster, please specify it: "
            f"add --leader-election-namespace=NAME (there is no {pod_namespace})"
        )
    if not is_label(namespace):
        where = "--leader-election-namespace" if settings.namespace else str(pod_namespace)
        raise ConfigError(
            f'{where}: "{namespace}" is no namespace name; '
            "use up to 63 lower-case letters, digits and -, and begin and end with a letter or digit"
        )
    return replace(settings, namespace=namespace)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
