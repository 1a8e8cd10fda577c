"""`python -m runner.localdev.ec2`: the emulator as a process of its own, ended by SIGTERM or SIGINT."""

from __future__ import annotations

import contextlib
import signal
import threading
from pathlib import Path

import click

from runner.errors import OperatorError
from runner.localdev.ec2.server import Ec2Emulator, write_port_file
from runner.logs import Logger


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The loopback address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0: a free port.")
@click.option(
    "--port-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the port, once calls are answered.",
)
def main(*, host: str, port: int, port_file: Path | None) -> None:
    """Answer the AWS API on this machine, and tests' wishes under /sim/."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    try:
        with contextlib.ExitStack() as stack:
            emulator = stack.enter_context(Ec2Emulator(host=host, port=port))
            if port_file is not None:
                write_port_file(port_file, emulator.port)
                stack.callback(port_file.unlink, missing_ok=True)
            Logger("ec2").info("the EC2 emulator is listening", endpoint=emulator.endpoint)
            ended.wait()
    except OperatorError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
