"""The emulator as a process and in this process: start, port file, end."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runner.errors import ConfigError, LocalPlaneError
from runner.localdev.ec2.config import SimConfig
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.server import Ec2Emulator
from tests.integration.ec2.conftest import IMAGE, clients_of, start_emulator


def test_start_and_end(tmp_path: Path) -> None:
    """The port file is there, for its owner only, once calls are answered; SIGTERM ends the process with 0."""
    port_file = tmp_path / "port"
    process, endpoint = start_emulator(port_file)
    try:
        assert Ec2Control(endpoint).health()
        assert stat.S_IMODE(port_file.stat().st_mode) == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["port"]
    finally:
        process.terminate()
        code = process.wait(timeout=120)
    assert code == 0
    assert not port_file.exists()
    assert not Ec2Control(endpoint).health()


def _fails(*arguments: str) -> str:
    command = [sys.executable, "-m", "runner.localdev.ec2", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def test_only_loopback() -> None:
    """An address that others could reach is refused."""
    assert "--host: 0.0.0.0 is no loopback address" in _fails("--host", "0.0.0.0")  # noqa: S104 - the refusal is tested


def test_a_port_that_is_taken() -> None:
    """A port in use is told with its number."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}" in _fails("--port", str(port))


def test_in_this_process() -> None:
    """The emulator runs on a thread of this process, one at a time, and again after it was stopped."""
    for _ in range(2):
        with Ec2Emulator(config=SimConfig(pending=0)) as emulator:
            with pytest.raises(LocalPlaneError, match="already"):
                Ec2Emulator().start()
            with clients_of(emulator.endpoint) as client:
                ec2 = client("ec2")
                assert ec2.describe_instances()["Reservations"] == []
                answer = ec2.run_instances(ImageId=IMAGE, InstanceType="t3.micro", MinCount=1, MaxCount=1)
                assert answer["Instances"][0]["State"]["Name"] == "running"
    with pytest.raises(LocalPlaneError, match="not running"):
        emulator.endpoint  # noqa: B018 - the property raises


def test_a_control_without_an_emulator() -> None:
    """A client whose emulator is gone says so; a URL that is none is refused."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    control = Ec2Control(f"http://127.0.0.1:{port}")
    assert not control.health()
    with pytest.raises(LocalPlaneError, match=f"127.0.0.1:{port} does not answer"):
        control.instances()
    with pytest.raises(ConfigError, match="endpoint"):
        Ec2Control("localhost")
