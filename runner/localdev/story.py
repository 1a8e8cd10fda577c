"""What the stories of `make demo` have in common: a folder, a control plane, an operator, kubectl, and waiting.

Everything that a story started is stopped at its end, whatever happens.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.errors import LocalPlaneError
from runner.localdev import assets as programs
from runner.localdev.narrator import Narrator
from runner.localdev.operator_process import Follower, OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.localdev.state import PlaneOptions

LIMIT = 900.0
"""Seconds after which a wait means that something is broken."""


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What `make demo` was asked for."""

    project: Path
    """The clone: where watches.yaml, roles/, crds/ and config/ are."""
    keep: bool = False
    """Stay up at the end until Ctrl-C."""
    kubeconfig: str = ""
    """Use this cluster (USE_CLUSTER=1) instead of a local control plane."""
    environ: Mapping[str, str] = field(default_factory=dict)


class Story:
    """One telling; a story's own chapters are in its `tell`."""

    def __init__(self, *, options: DemoOptions, narrator: Narrator) -> None:
        """Tell through *narrator*."""
        self.options = options
        self.narrator = narrator
        self.kubeconfig = options.kubeconfig
        self.environ = dict(options.environ)
        self.program = "kubectl"
        """The kubectl that is used."""
        self.namespace: tuple[str, ...] = ()
        """Arguments for kubectl that name the namespace."""
        self._interrupted = False
        self._operators: list[OperatorProcess] = []

    def run(self) -> None:
        """Tell it all; raise `LocalPlaneError` with a reason where a chapter cannot end well."""
        with contextlib.ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="ansible-operator-demo-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.push(self._tell_interrupt)
            self.tell(stack, folder=folder)
            self.narrator.summary()
            self.what_next()
            if self.options.keep:
                self._stay()

    def tell(self, stack: contextlib.ExitStack, *, folder: Path) -> None:
        """Tell the chapters; what is started is put on *stack*, what is written into *folder*."""
        raise NotImplementedError

    def what_next(self) -> None:
        """Say what a person may try after this story."""

    def start_plane(self, stack: contextlib.ExitStack, *, folder: Path, options: PlaneOptions) -> ControlPlane:
        """Start a control plane that kubectl and the operator use from now on."""
        assets = programs.find(self.environ, report=self.narrator.say)
        plane = ControlPlane.start(folder=folder / "plane", assets=assets, options=options, report=self.narrator.say)
        stack.callback(plane.stop)
        if assets.kubectl is not None:
            self.program = str(assets.kubectl)
        self.kubeconfig = str(plane.kubeconfig)
        self.environ |= {"KUBECONFIG": self.kubeconfig}
        return plane

    def start_operator(
        self,
        stack: contextlib.ExitStack,
        *,
        folder: Path,
        project: Path,
        follower: Follower,
        arguments: Sequence[str] = (),
    ) -> OperatorProcess:
        """Start the operator of *project*, and return when it is ready; its log is `folder/operator.log`."""
        temporary = folder / "tmp"
        temporary.mkdir()
        operator = OperatorProcess(
            project=project,
            environ={**self.environ, "TMPDIR": str(temporary)},
            log=folder / "operator.log",
            port=free_ports(1)[0],
            follower=follower,
        )
        operator.start(arguments=["--graceful-shutdown-timeout=5s", *arguments])
        self._operators.append(operator)
        stack.callback(operator.stop)
        stack.push(self._tell_interrupt)
        self.wait("the operator to be ready", operator.ready)
        return operator

    def kubectl(self, *arguments: str, stdin: str | None = None) -> None:
        """Run kubectl and show the command with its output."""
        self.narrator.command(["kubectl", *self.namespace, *arguments], self.quiet(*arguments, stdin=stdin))

    def quiet(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it printed.

        Raises:
            LocalPlaneError: it failed.
        """
        done = subprocess.run(
            [self.program, *self.namespace, *arguments],
            cwd=self.options.project,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LocalPlaneError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def get(self, kind: str, name: str) -> Mapping[str, Any]:
        """Return an object."""
        found: Mapping[str, Any] = json.loads(self.quiet("get", kind, name, "-o", "json"))
        return found

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Poll *condition*; a person watches, so ten looks a second are enough.

        Raises:
            LocalPlaneError: it stays false, or an operator has ended meanwhile.
        """
        end = time.monotonic() + LIMIT
        while not condition():
            for operator in self._operators:
                operator.ready()
            if time.monotonic() > end:
                raise LocalPlaneError(f"waited {LIMIT:.0f} s in vain for {what}")
            time.sleep(0.1)

    def _stay(self) -> None:
        """Print how to use what runs, and wait for Ctrl-C or SIGTERM."""
        self.narrator.say("")
        self.narrator.say("Still running. In another terminal:")
        named = {name: self.environ[name] for name in ("KUBECONFIG", "AWS_ENDPOINT_URL") if name in self.environ}
        print("export", *(f"{name}={value}" for name, value in named.items()), flush=True)
        self.narrator.say("Ctrl-C ends the operator, the control plane and the emulator.")
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        ended.wait()

    def _tell_interrupt(self, kind: type[BaseException] | None, *_: object) -> None:
        """Say at once that a Ctrl-C was heard: stopping takes seconds."""
        if kind is not None and issubclass(kind, KeyboardInterrupt) and not self._interrupted:
            self._interrupted = True
            self.narrator.say("Interrupted: stopping what was started; the run under way gets 5 seconds.")


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM into the exception that Ctrl-C raises, so that everything started is stopped."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def is_true(status: Mapping[str, Any], condition: str) -> bool:
    """Return whether a *condition* of a status is true."""
    entries = status.get("conditions") or []
    return any(entry.get("type") == condition and entry.get("status") == "True" for entry in entries)
