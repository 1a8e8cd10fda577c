"""Follows the emulator's instances with a machine for each; the loop of the process, or of a thread in tests.

It asks the emulator's control API, not EC2's: what plays the hardware is no client of AWS, and its looks must not stand
in the call log, use up a rate limit or meet a fault that a test has set for the operator.
"""

from __future__ import annotations

import functools
import http.client
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from runner.errors import LocalPlaneError, OperatorError
from runner.localdev import bootstrap
from runner.localdev.api import Api
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.records import InstanceRecord
from runner.localdev.machines.cloud import CloudController
from runner.localdev.machines.disks import Disks
from runner.localdev.machines.join import Join
from runner.localdev.machines.machine import InstanceGone, Machine, PowerLost, Surroundings, completed_by_eks
from runner.localdev.machines.metadata import Metadata
from runner.logs import Logger

_WORKERS = 64
"""They mostly wait: one whose token nobody signed does so for a whole minute, and mustn't hold up others."""
_LONGEST_PAUSE = 30.0
_ROLE_TOKEN_LIFETIME = timedelta(minutes=15)
_ALIVE = {"pending", "running", "stopping", "stopped", "shutting-down"}


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds."""

    busy: float = 0.2
    """Between two looks while an instance changes."""
    idle: float = 1.0
    """Between two looks while none does."""
    cloud: float = 2.0
    """Between two looks of the cloud controller."""
    limit: float = 60.0
    """For each step of a join."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The cluster beside the machines: for the cloud controller, and for EKS's part in a join."""

    server: str
    authority: Path
    certificate: Path
    """Of the cloud controller; its key lies beside it as `.key`."""

    def api(self) -> Api:
        """Return a client."""
        return Api(self.server, authority=self.authority, certificate=self.certificate)


@dataclass(kw_only=True)
class _Seat:
    """A machine and what is going on with it."""

    machine: Machine
    is_on: bool | None = None
    """None: nobody knows, as this simulator wasn't there, or as switching it on was broken off."""
    work: Future[None] | None = None
    goes_on: bool = False
    """The work is to switch it on."""
    not_before: float = 0.0
    failures: int = 0
    complaint: str = ""


def pause_after(failures: int) -> float:
    """Return the seconds before the next try: twice as many after each failure, up to half a minute."""
    return min(_LONGEST_PAUSE, 0.5 * 2.0 ** min(failures, 10))


class Simulator:
    """All machines of one emulator."""

    def __init__(
        self,
        control: Ec2Control,
        *,
        cluster: Cluster,
        disks: Path,
        pace: Pace | None = None,
        logger: Logger | None = None,
    ) -> None:
        """Follow the emulator behind *control*; nothing happens until `start`."""
        self._control = control
        self._pace = pace or Pace()
        self._logger = logger or Logger("machines")
        self._cluster = cluster
        self._cloud = CloudController(cluster.api(), logger=self._logger.named("cloud"))
        self._seats: dict[str, _Seat] = {}
        self._disks = Disks(disks)
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="machine")
        self._threads: list[threading.Thread] = []
        self._states: Mapping[str, str] | None = None
        self._surroundings = Surroundings(
            disks=self._disks,
            user_data=control.user_data,
            eks=self._ask_eks,
            limit=self._pace.limit,
            ended=self._ended,
            logger=self._logger,
        )

    def start(self, *, looked: Callable[[], None] = lambda: None, died: Callable[[], None] = lambda: None) -> None:
        """Begin.

        Args:
            looked: called after the first look that the emulator answers.
            died: called where one of the two threads ends by an error, which is a bug.
        """
        targets: Mapping[str, Callable[[], None]] = {
            "machines": functools.partial(self._follow, looked),
            "cloud": self._clean,
        }
        for name, target in targets.items():
            thread = threading.Thread(target=self._live, args=(target, died), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End all threads; machines and Nodes stay as they are."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _live(self, target: Callable[[], None], died: Callable[[], None], /) -> None:
        try:
            target()
        finally:
            if not self._ended.is_set():
                died()

    def _follow(self, looked: Callable[[], None]) -> None:
        known, is_first = self._disks.known(), True
        while not self._ended.is_set():
            busy = False
            try:
                records = {record.id: record for record in self._control.instances()}
            except OperatorError as error:
                self._logger.debug("The emulator does not answer", error=error)
            else:
                busy = self._look(records, before=known if is_first else ())
                if is_first:
                    is_first = False
                    looked()
            self._ended.wait(self._pace.busy if busy else self._pace.idle)

    def _look(self, records: Mapping[str, InstanceRecord], *, before: Sequence[str]) -> bool:
        """Give each machine what has to happen; return whether something goes on."""
        self._states = {ident: record.state for ident, record in records.items()}
        for ident in {*before, *records}:
            record = records.get(ident)
            if ident not in self._seats and (ident in before or (record is not None and record.state == "running")):
                metadata = Metadata.of(record) if record is not None else Metadata(instance_id=ident)
                machine = Machine(metadata, surroundings=self._surroundings)
                self._seats[ident] = _Seat(machine=machine, is_on=None if ident in before else False)
        for ident in list(self._seats):
            self._attend(ident, records.get(ident))
        moving = any(record.state in {"pending", "stopping", "shutting-down"} for record in records.values())
        return moving or any(seat.work is not None for seat in self._seats.values())

    def _attend(self, ident: str, record: InstanceRecord | None) -> None:
        seat = self._seats[ident]
        is_wanted = record is not None and record.state == "running"
        if seat.work is not None and not seat.work.done():
            if seat.goes_on and not is_wanted:
                seat.machine.cut_power()
            return
        if seat.work is not None and (bug := seat.work.exception()) is not None:
            self._postpone(seat, error=bug)
        seat.work = None
        if seat.is_on is is_wanted:
            if record is None or record.state not in _ALIVE:
                seat.machine.forget()
                del self._seats[ident]
        elif time.monotonic() >= seat.not_before:
            seat.goes_on = is_wanted
            seat.work = self._pool.submit(self._switch, seat, on=is_wanted)

    def _switch(self, seat: _Seat, *, on: bool) -> None:
        """Switch a machine in a worker thread, and note how that went."""
        try:
            if on:
                seat.machine.switch_on()
            else:
                seat.machine.switch_off()
        except PowerLost:
            seat.is_on = None
        except InstanceGone:
            seat.is_on = False
        except (LocalPlaneError, OSError, http.client.HTTPException) as error:
            self._postpone(seat, error=error)
        else:
            seat.is_on, seat.failures, seat.complaint = on, 0, ""

    @staticmethod
    def _postpone(seat: _Seat, *, error: BaseException) -> None:
        """Let it be tried again later, and say why once."""
        seat.is_on = None  # an answer may have been lost, and the Node be there
        seat.failures += 1
        seat.not_before = time.monotonic() + pause_after(seat.failures)
        if str(error) != seat.complaint:
            seat.complaint = str(error)
            seat.machine.complain(error)

    def _clean(self) -> None:
        """Be the cloud controller."""
        while not self._ended.wait(self._pace.cloud):
            if self._states is not None:
                self._cloud.step(lambda: self._states or {})

    def _ask_eks(self, join: Join) -> Join:
        token = bootstrap.new_token(self._cluster.api(), lifetime=_ROLE_TOKEN_LIFETIME)
        return completed_by_eks(
            join, server=self._cluster.server, authority=self._cluster.authority.read_text(), token=token.text
        )
