"""`python -m runner.localdev.machines`: the simulated machines as a process of its own, ended by SIGTERM or SIGINT."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from runner.errors import OperatorError
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.machines.simulator import Cluster, Simulator
from runner.logs import Logger

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--ec2", required=True, metavar="URL", help="The EC2 emulator.")
@click.option("--server", required=True, metavar="URL", help="The API server that the cloud controller cleans.")
@click.option("--pki", required=True, type=_FOLDER, help="The folder with ca.crt, cloud.crt and cloud.key.")
@click.option("--disks", required=True, type=_FOLDER, help="Where the machines' disks are.")
@click.option(
    "--ready-file", type=click.Path(dir_okay=False, path_type=Path), help="What to create after the first look."
)
def main(*, ec2: str, server: str, pki: Path, disks: Path, ready_file: Path | None) -> None:
    """Boot the instances of an EC2 emulator by their user data."""
    ended, broken = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    try:
        cluster = Cluster(server=server, authority=pki / "ca.crt", certificate=pki / "cloud.crt")
        simulator = Simulator(Ec2Control(ec2), cluster=cluster, disks=disks)
    except OperatorError as error:
        raise click.ClickException(str(error)) from error

    def looked() -> None:
        Logger("machines").info("Following the instances of the EC2 emulator", endpoint=ec2)
        if ready_file is not None:
            ready_file.touch(mode=0o600)

    def died() -> None:
        broken.set()
        ended.set()

    simulator.start(looked=looked, died=died)
    ended.wait()
    simulator.stop()
    if broken.is_set():  # its traceback is above
        raise click.ClickException("the simulator of machines can't go on")


if __name__ == "__main__":
    main()
