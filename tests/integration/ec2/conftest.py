"""One emulator process for these tests, emptied before each, and real boto3 clients that don't retry."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from runner.localdev.ec2.control import Ec2Control

IMAGE = "ami-0c0ffee0000000001"
ARM_IMAGE = "ami-0c0ffee0000000002"
_LIMIT = 120.0

Client = Callable[..., Any]
Launch = Callable[..., Any]


def start_emulator(port_file: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start the command and return the process and its endpoint, once the port file is there."""
    command = [sys.executable, "-m", "runner.localdev.ec2", "--port", "0", "--port-file", str(port_file), *arguments]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + _LIMIT
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the emulator did not start: exit code {process.wait()}")
        time.sleep(0.02)
    return process, f"http://127.0.0.1:{int(port_file.read_text(encoding='ascii'))}"


@contextlib.contextmanager
def clients_of(endpoint: str) -> Iterator[Client]:
    """Make clients of *endpoint* that show each answer as it is, and close them at the end."""
    with contextlib.ExitStack() as stack:

        def make(service: str, region: str = "us-east-1") -> Any:
            made = boto3.client(
                service,
                region_name=region,
                endpoint_url=endpoint,
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=Config(retries={"total_max_attempts": 1}, max_pool_connections=16),
            )
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of the emulator of this session."""
    process, url = start_emulator(tmp_path_factory.mktemp("ec2") / "port")
    try:
        yield url
    finally:
        process.send_signal(signal.SIGINT)  # SIGTERM is tested elsewhere; both must end it cleanly
        assert process.wait(timeout=_LIMIT) == 0


@pytest.fixture(scope="session")
def client(endpoint: str) -> Iterator[Client]:
    """Return a maker of boto3 clients."""
    with clients_of(endpoint) as make:
        yield make


@pytest.fixture(scope="session")
def _ec2(client: Client) -> Any:
    """Keep one EC2 client: making one costs more than a test."""
    return client("ec2")


@pytest.fixture
def control(endpoint: str) -> Ec2Control:
    """Return the control of an empty emulator in which states pass at once."""
    made = Ec2Control(endpoint)
    made.reset()
    made.configure(pending=0, stopping=0, shutting_down=0)
    return made


@pytest.fixture
def ec2(_ec2: Any, control: Ec2Control) -> Any:
    """Return an EC2 client of the empty emulator."""
    return _ec2


@pytest.fixture
def launch(ec2: Any) -> Launch:
    """Return a function that launches one instance and returns it; keywords are RunInstances' own."""

    def run(**parameters: Any) -> Any:
        request = {"ImageId": IMAGE, "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1, **parameters}
        return ec2.run_instances(**request)["Instances"][0]

    return run


@pytest.fixture
def describe(ec2: Any) -> Callable[[str], Any]:
    """Return a function that describes one instance."""

    def one(instance_id: str) -> Any:
        return ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]

    return one


@contextlib.contextmanager
def refused(code: str, *, status: int = 400, match: str | None = None) -> Iterator[None]:
    """Expect an AWS error with this code, status and part of its message."""
    with pytest.raises(ClientError, match=match) as caught:
        yield
    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
