"""The machines of one emulator: which are switched on, what happens to errors, and how the simulator ends by one."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.records import InstanceRecord
from runner.localdev.machines.disks import Disk, Disks
from runner.localdev.machines.simulator import Cluster, Pace, Simulator, pause_after
from runner.logs import Logger, RecordingSink
from runner.settings import environment
from runner.testing.waiting import eventually

NOBODY = "https://127.0.0.1:1"
PACE = Pace(busy=0.01, idle=0.01, cloud=60.0, limit=60.0)
TROUBLE = "The kubelet of the machine has trouble, and tries again"

Run = Callable[[Ec2Control], RecordingSink]


def instance(ident: str) -> InstanceRecord:
    """Return an instance that runs."""
    return InstanceRecord(
        id=ident, region="us-east-1", state="running", type="m5.large", image="ami-1", zone="us-east-1a", subnet="s",
        private_ip="10.0.0.7", public_ip="", key_name="", lifecycle="", state_reason="", client_token="",
        launch_time="2026-01-01T00:00:00Z",
    )  # fmt: skip


class Instances(Ec2Control):
    """An emulator whose instances run, with user data of which nothing comes."""

    def __init__(self, count: int = 1) -> None:
        """Have *count* instances."""
        super().__init__("http://127.0.0.1:1")
        self.idents = [f"i-{number}" for number in range(count)]
        self.looks = 0

    def instances(self) -> list[InstanceRecord]:
        """Return all."""
        self.looks += 1
        return [instance(ident) for ident in self.idents]

    def user_data(self, instance_id: str) -> str:
        """Return nothing."""
        assert instance_id in self.idents
        return ""


class InstancesThatWait(Instances):
    """Instances whose user data nobody gets before all have asked for it."""

    def __init__(self, count: int) -> None:
        """Have *count* instances."""
        super().__init__(count)
        self.all_of_them = threading.Barrier(count)

    def user_data(self, instance_id: str) -> str:
        """Wait for all others."""
        self.all_of_them.wait(timeout=20)
        return super().user_data(instance_id)


class InstancesThatGo(Instances):
    """Instances that end between a look and the question for their user data."""

    def user_data(self, instance_id: str) -> str:
        """Know the instance no more."""
        raise LookupError(f"the emulator has no instance {instance_id}")


class Broken(Instances):
    """An emulator of another kind."""

    def instances(self) -> list[InstanceRecord]:
        """Be asked for something that it doesn't have."""
        raise LookupError("no such path")


@pytest.fixture
def cluster(certificate: Path) -> Cluster:
    """Give a cluster that nobody serves."""
    return Cluster(server=NOBODY, authority=certificate.with_name("ca.crt"), certificate=certificate)


@pytest.fixture
def run(cluster: Cluster, tmp_path: Path) -> Iterator[Run]:
    """Give a function that simulates the machines of an emulator until the test's end, and returns what is logged."""
    running: list[Simulator] = []

    def start(control: Ec2Control) -> RecordingSink:
        sink = RecordingSink()
        logger = Logger("machines", sink=sink)
        running.append(Simulator(control, cluster=cluster, disks=tmp_path / "disks", pace=PACE, logger=logger))
        running[-1].start()
        return sink

    yield start
    for simulator in running:
        simulator.stop()


def test_pauses_grow_to_half_a_minute_and_no_further() -> None:
    """However often a machine was refused, it tries again: after a second, two, four, and half a minute at most."""
    assert [pause_after(failures) for failures in (1, 2, 3, 6, 7, 1024, 10**6)] == [1, 2, 4, 30, 30, 30, 30]


async def test_machines_that_wait_do_not_hold_up_others(run: Run, tmp_path: Path) -> None:
    """Forty machines are in the middle of their boot at the same time."""
    control = InstancesThatWait(40)
    sink = run(control)
    disks = Disks(tmp_path / "disks")
    await eventually(lambda: len(disks.known()) == 40 or TROUBLE in sink.sentences())
    assert TROUBLE not in sink.sentences()


async def test_a_bug_in_a_boot_is_told(run: Run, tmp_path: Path) -> None:
    """A KeyError out of our own code isn't taken for an instance that is gone, but logged."""
    control = Instances()
    Disks(tmp_path / "disks").write("i-0", Disk(node={"metadata": {}}))
    sink = run(control)
    await eventually(lambda: TROUBLE in sink.sentences() or control.looks > 300)
    (told,) = [record for record in sink.records if record["msg"] == TROUBLE]
    assert (told["instance"], str(told["error"])) == ("i-0", "'name'")


async def test_an_instance_that_went_since_the_look_is_no_trouble(run: Run, tmp_path: Path) -> None:
    """User data that the emulator doesn't know any more says that the instance is gone, and nothing is logged."""
    control = InstancesThatGo()
    sink = run(control)
    await eventually(lambda: control.looks > 20)
    assert sink.records == []
    assert Disks(tmp_path / "disks").known() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_that_ends_a_thread_is_told(cluster: Cluster, tmp_path: Path) -> None:
    """Where the simulator can't go on, whoever started it learns that."""
    died = threading.Event()
    simulator = Simulator(Broken(), cluster=cluster, disks=tmp_path / "disks", pace=PACE)
    simulator.start(died=died.set)
    assert died.wait(timeout=60)
    simulator.stop()


def test_a_stop_is_no_death(cluster: Cluster, tmp_path: Path) -> None:
    """Threads that end because they are told to are no error."""
    died, looked = threading.Event(), threading.Event()
    simulator = Simulator(Instances(), cluster=cluster, disks=tmp_path / "disks", pace=PACE)
    simulator.start(looked=looked.set, died=died.set)
    assert looked.wait(timeout=60)
    simulator.stop()
    assert not died.is_set()


class _NotFound(http.server.BaseHTTPRequestHandler):
    """Answers everything with 404."""

    def do_GET(self) -> None:
        """Answer."""
        body = b'{"error": "no such path"}'
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


def test_the_process_ends_with_an_error_when_it_cannot_go_on(certificate: Path, tmp_path: Path) -> None:
    """A simulator that follows nothing any more doesn't stay as if it did: its process ends with 1."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _NotFound) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [sys.executable, "-m", "runner.localdev.machines", f"--ec2=http://127.0.0.1:{server.server_port}"]
        more = [f"--server={NOBODY}", f"--pki={certificate.parent}", f"--disks={tmp_path / 'disks'}"]
        ended = subprocess.run(
            [*command, *more], env=environment(), capture_output=True, text=True, timeout=60, check=False
        )
        server.shutdown()
    assert ended.returncode == 1
    assert "LookupError: no such path" in ended.stderr
    assert ended.stderr.rstrip().endswith("can't go on")
