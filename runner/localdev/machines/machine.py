"""One machine: its first boot by the user data, and its kubelet going on and off with the instance.

`simulator` tells it what EC2 says, in worker threads; one call at a time for each machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from runner.errors import LocalPlaneError
from runner.localdev.machines import kubelet, styles
from runner.localdev.machines.cloud_init import boot
from runner.localdev.machines.discovery import Patience, find_authority
from runner.localdev.machines.disks import Disk, Disks
from runner.localdev.machines.join import EKS, Join
from runner.localdev.machines.metadata import Metadata
from runner.logs import Logger

_PAUSE = 0.1
_LONGEST_PAUSE = 2.0


class PowerLost(Exception):
    """The instance, or the whole simulation, stopped in the middle of something."""


class InstanceGone(Exception):
    """The emulator doesn't know the instance any more."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What all machines share."""

    disks: Disks
    user_data: Callable[[str], str]
    """Returns the user data of an instance; LookupError: there is no such instance."""
    eks: Callable[[Join], Join]
    """Completes a join to EKS: the token in the place of the machine's IAM role, the cluster's address and CA."""
    limit: float
    """Seconds for each step of a join, as kubeadm has its time-outs."""
    ended: threading.Event
    """The simulation stops."""
    logger: Logger


class Machine:
    """What boots when the instance runs."""

    def __init__(self, metadata: Metadata, *, surroundings: Surroundings) -> None:
        """Be the machine that *metadata* describes; nothing happens yet."""
        self._metadata = metadata
        self._shared = surroundings
        self._cut = threading.Event()
        self._logger = surroundings.logger.bind(instance=metadata.instance_id)

    def cut_power(self) -> None:
        """Break off what `switch_on` does in another thread."""
        self._cut.set()

    def switch_on(self) -> None:
        """Boot: the user data at the first time, the kubelet every time.

        Raises:
            LocalPlaneError: the kubelet couldn't register its Node, or EKS doesn't answer; it is tried again.
            PowerLost: the instance stopped meanwhile.
            InstanceGone: there is no such instance any more.
        """
        self._cut.clear()
        ident = self._metadata.instance_id
        disk = self._shared.disks.read(ident)
        if disk is None:
            disk = self._first_boot(self._user_data())
        if disk.node is None:
            return
        name = disk.node["metadata"]["name"]
        api = kubelet.node_api(disk.server, authority=disk.authority, credentials=self._shared.disks.credentials(ident))
        if kubelet.start(api, node=disk.node, patience=self._patience()):
            self._logger.info("The machine joined the cluster", node=name, server=disk.server)
        else:
            self._logger.info("The kubelet of the machine runs again", node=name)

    def switch_off(self) -> None:
        """Let the heartbeat end.

        Raises:
            LocalPlaneError: the API server refused, or doesn't answer.
            PowerLost: the simulation stopped meanwhile.
        """
        self._cut.clear()
        ident = self._metadata.instance_id
        disk = self._shared.disks.read(ident)
        if disk is None or disk.node is None:
            return
        name = disk.node["metadata"]["name"]
        credentials = self._shared.disks.credentials(ident)
        api = kubelet.node_api(disk.server, authority=disk.authority, credentials=credentials)
        kubelet.stop(api, name=name, patience=self._patience())
        self._logger.info("The machine is off, its kubelet says nothing any more", node=name)

    def complain(self, error: BaseException) -> None:
        """Log that switching on or off went wrong, and is tried again."""
        self._logger.error("The kubelet of the machine has trouble, and tries again", error=error)

    def forget(self) -> None:
        """Throw the disk away."""
        self._shared.disks.remove(self._metadata.instance_id)

    def _user_data(self) -> str:
        try:
            return self._shared.user_data(self._metadata.instance_id)
        except LookupError as error:
            raise InstanceGone from error

    def _first_boot(self, user_data: str) -> Disk:
        """Do what cloud-init does once in the life of an instance, whether it goes well or not."""
        join: Join | None = None
        credentials = b""
        try:
            with _understanding():
                join = self._join_in(user_data)
            disk = Disk(reason="the user data joins no cluster")
        except LocalPlaneError as error:
            disk = self._not_joined(error)
        if join is not None:
            if join.style == EKS:
                join = self._shared.eks(join)  # ours, not the machine's: where it fails, the whole boot is tried again
            try:
                with _understanding():
                    disk, credentials = self._join(join)
            except LocalPlaneError as error:
                disk = self._not_joined(error)
        self._shared.disks.write(self._metadata.instance_id, disk, credentials=credentials)
        return disk

    def _join_in(self, user_data: str) -> Join | None:
        booted = boot(user_data, metadata=self._metadata)
        join = styles.find(booted)
        if join is None and (named := styles.named(user_data, boot=booted)):
            self._logger.warning("The machine runs; its user data names a program that joins, but no join", found=named)
        elif join is None:
            self._logger.info("The machine runs; its user data joins no cluster")
        return join

    def _not_joined(self, error: LocalPlaneError) -> Disk:
        self._logger.error("The machine did not join; cloud-init does not try again", error=error)
        return Disk(reason=str(error))

    def _join(self, join: Join) -> tuple[Disk, bytes]:
        """Return the disk of a machine that has a certificate."""
        authority = join.authority or find_authority(join, patience=self._patience())
        if join.unsafe and not join.pins:
            self._logger.warning("The machine trusts the cluster's CA without a hash of it", server=join.server)
        node = kubelet.node_of(join, metadata=self._metadata)
        credentials = kubelet.certificate(
            kubelet.bootstrap_api(join, authority=authority),
            name=node["metadata"]["name"],
            patience=self._patience(),
        )
        return Disk(server=join.server, authority=authority, node=node), credentials

    def _patience(self) -> Patience:
        """Return patience for one step."""
        deadline = time.monotonic() + self._shared.limit
        pause = _PAUSE

        def wait(reason: str) -> None:
            nonlocal pause
            if time.monotonic() > deadline:
                raise LocalPlaneError(f"{reason}; no more tries after {self._shared.limit:g} s")
            if self._cut.wait(pause) or self._shared.ended.is_set():
                raise PowerLost
            pause = min(pause * 1.5, _LONGEST_PAUSE)

        return wait


@contextlib.contextmanager
def _understanding() -> Iterator[None]:
    """Say so where something of the user data has another shape than its kind has."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise LocalPlaneError(f"the user data can't be understood: {error!r}") from error


def completed_by_eks(join: Join, *, server: str, authority: str, token: str) -> Join:
    """Return *join* with what EKS and IAM would add: DescribeCluster's answer, and a credential for the role."""
    return dataclasses.replace(join, server=join.server or server, authority=join.authority or authority, token=token)
