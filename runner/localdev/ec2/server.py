"""Starts and stops the emulator: `Ec2Emulator` in this process; `__main__` is the command around it."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from werkzeug.serving import BaseWSGIServer, make_server

from runner.clock import Clock, SystemClock
from runner.errors import ConfigError, LocalPlaneError
from runner.localdev.ec2.config import SimConfig
from runner.localdev.ec2.control_api import ControlApi
from runner.localdev.ec2.middleware import Middleware
from runner.localdev.ec2.simulation import Simulation

_one_at_a_time = threading.Lock()


class Ec2Emulator:
    """The emulator on a thread of its own, as a context manager; one at a time, as moto's state is the process's."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        config: SimConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Listen on *host* (loopback only) and *port* (0: a free one) once started."""
        self._host = _loopback(host)
        self._port = port
        self.simulation = Simulation(clock or SystemClock(), config)
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        if self._server is None:
            raise LocalPlaneError("the EC2 emulator is not running; start it first")
        return int(self._server.port)

    @property
    def endpoint(self) -> str:
        """The URL for `AWS_ENDPOINT_URL` and for `Ec2Control`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """Listen and answer; the first call is as quick as the others."""
        if not _one_at_a_time.acquire(blocking=False):
            raise LocalPlaneError("an EC2 emulator runs in this process already; stop it, or start another process")
        try:
            self._server = self._listen()
        except OSError as error:
            _one_at_a_time.release()
            raise LocalPlaneError(f"the EC2 emulator cannot listen on {self._host}:{self._port}: {error}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="ec2-emulator", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; calls that a fault holds up go on."""
        if self._server is None or self._thread is None:
            return
        self.simulation.faults.clear()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server = self._thread = None
        _one_at_a_time.release()

    def __enter__(self) -> Ec2Emulator:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _listen(self) -> BaseWSGIServer:
        # The port is taken first: a wrong one must not cost the two seconds of importing moto.
        with contextlib.ExitStack() as undo:
            listener = undo.enter_context(_bound_socket(self._host, self._port))
            handler, application = _application(self.simulation)
            logging.getLogger("werkzeug").setLevel(logging.ERROR)  # no line per request: `/sim/calls` tells them
            return make_server(
                self._host,
                listener.getsockname()[1],
                application,
                threaded=True,
                request_handler=handler,
                fd=listener.fileno(),
            )


def _application(simulation: Simulation) -> tuple[Any, Middleware]:
    # Imported here: moto costs two seconds and 100 MiB, and only the process that serves it shall pay.
    from runner.localdev.ec2.moto_patches import application, cloud, launches  # noqa: PLC0415 - see above

    aws = application.install(simulation)
    application.warm_up(aws)
    middleware = Middleware(
        simulation, aws=aws, control=ControlApi(simulation, cloud.MotoCloud(aws)), token_key=launches.token_key
    )
    return application.REQUEST_HANDLER, middleware


@contextlib.contextmanager
def _bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
        yield listener


def _loopback(host: str) -> str:
    address = "127.0.0.1" if host == "localhost" else host
    try:
        if ipaddress.ip_address(address).is_loopback:
            return address
    except ValueError:
        pass
    raise ConfigError(f"--host: {host} is no loopback address; the emulator knows no passwords, use 127.0.0.1")


def write_port_file(path: Path, port: int) -> None:
    """Write *port* into *path*, readable by the owner only; a reader never sees half of it."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # created with mode 0600
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{port}\n")
        Path(name).replace(path)
    except OSError as error:
        raise ConfigError(
            f"--port-file: {path} cannot be written: {error.strerror}; name a file in a folder of yours"
        ) from error
