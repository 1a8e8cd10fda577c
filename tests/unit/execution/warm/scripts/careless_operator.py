"""Starts the server of its first argument with a `Start` for the scratch folder of its second, tells its id, waits."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

from runner.execution.warm.far.protocol import Start, encode

if __name__ == "__main__":
    near, far = socket.socketpair()
    near.sendall(encode(Start(scratch=sys.argv[2])))
    server = subprocess.Popen([sys.executable, sys.argv[1], str(far.fileno())], pass_fds=[far.fileno()])
    print(server.pid, flush=True)
    signal.pause()
