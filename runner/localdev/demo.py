"""`make demo`: the product's main job on real parts, told while it happens.

A control plane and an EC2 emulator start, the operator of this working tree runs against them, an EC2Instance comes
to life, is stopped behind the operator's back, is repaired, and goes again.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from runner.errors import LocalPlaneError
from runner.localdev import assets as programs
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.server import Ec2Emulator
from runner.localdev.narrator import Narrator
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.localdev.state import PlaneOptions

_SAMPLE = Path("config/samples/aws_v1alpha1_ec2instance.yaml")
_CHECK_INTERVAL = "5s"
_LIMIT = 900.0
"""Seconds after which a wait of the demo means that something is broken."""


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


class Demo:
    """One telling of the story; everything it started is stopped at the end, whatever happens."""

    def __init__(self, *, options: DemoOptions, narrator: Narrator) -> None:
        """Tell through *narrator*."""
        self._options = options
        self._narrator = narrator
        self._kubeconfig = options.kubeconfig
        self._environ = dict(options.environ)
        self._kubectl = "kubectl"
        self._namespace: tuple[str, ...] = ()
        self._told = False

    def run(self) -> None:
        """Tell it all; raise `LocalPlaneError` with a reason where a chapter cannot end well."""
        with contextlib.ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="ansible-operator-demo-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.push(self._tell_interrupt)
            control = Ec2Control(self._start_parts(stack, folder=folder))
            operator = self._start_operator(stack, folder=folder)
            stack.push(self._tell_interrupt)
            name = self._launch(operator)
            instance = self._show(name)
            self._repair(control, name=name, instance=instance)
            self._delete(control, name=name, instance=instance)
            self._narrator.summary()
            self._what_next()
            if self._options.keep:
                self._stay()

    def _start_parts(self, stack: contextlib.ExitStack, *, folder: Path) -> str:
        """Start the control plane and the emulator; return the emulator's URL."""
        endpoint = self._join_cluster(stack) if self._options.kubeconfig else self._start_plane(stack, folder=folder)
        self._environ |= {
            "KUBECONFIG": self._kubeconfig,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "demo",
            "AWS_SECRET_ACCESS_KEY": "demo",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "ANSIBLE_GATHERING": "explicit",  # as the manager in config/ runs
        }
        return endpoint

    def _start_plane(self, stack: contextlib.ExitStack, *, folder: Path) -> str:
        narrator = self._narrator
        with narrator.chapter("A real Kubernetes and an EC2 emulator, on this machine"):
            assets = programs.find(self._environ, report=narrator.say)
            options = PlaneOptions(ec2=True)
            plane = ControlPlane.start(folder=folder / "plane", assets=assets, options=options, report=narrator.say)
            stack.callback(plane.stop)
            if plane.ec2_endpoint is None:
                raise LocalPlaneError("the EC2 emulator has no address; see the control plane's logs")
            if assets.kubectl is not None:
                self._kubectl = str(assets.kubectl)
            self._kubeconfig = str(plane.kubeconfig)
        return plane.ec2_endpoint

    def _join_cluster(self, stack: contextlib.ExitStack) -> str:
        """Use the current cluster, in a namespace of the demo's own, so that nothing else there is touched."""
        narrator = self._narrator
        with narrator.chapter("Your cluster, and an EC2 emulator on this machine"):
            if shutil.which("kubectl", path=self._environ.get("PATH")) is None:
                self._kubectl = str(programs.find(self._environ, report=narrator.say).kubectl)
            emulator = stack.enter_context(Ec2Emulator())
            self._environ |= {"KUBECONFIG": self._kubeconfig}
            namespace = f"ansible-operator-demo-{secrets.token_hex(3)}"
            self._run_kubectl("create", "namespace", namespace)
            stack.callback(self._quiet, "delete", "namespace", namespace, "--wait=false")
            self._namespace = ("--namespace", namespace)
            stack.callback(self._release)
            self._environ |= {"WATCH_NAMESPACE": namespace}
            narrator.say("The CRD ec2instances.aws.ansible-operator.io stays in the cluster afterwards.")
        return emulator.endpoint

    def _release(self) -> None:
        """Take the finalizer off what a story that broke off left: its operator and its cloud are gone by now."""
        with contextlib.suppress(LocalPlaneError):
            for name in self._quiet("get", "ec2instances", "-o", "name").split():
                self._quiet("patch", name, "--type=merge", "--patch", '{"metadata": {"finalizers": null}}')

    def _start_operator(self, stack: contextlib.ExitStack, *, folder: Path) -> OperatorProcess:
        with self._narrator.chapter("The operator: watches.yaml maps EC2Instance to roles/ec2_instance"):
            self._run_kubectl("apply", "-k", "crds/")
            crd = "customresourcedefinition/ec2instances.aws.ansible-operator.io"
            self._quiet("wait", "--for=condition=Established", crd, "--timeout=60s")
            temporary = folder / "tmp"
            temporary.mkdir()
            operator = OperatorProcess(
                project=self._options.project,
                environ={**self._environ, "TMPDIR": str(temporary)},
                log=folder / "operator.log",
                port=free_ports(1)[0],
                follower=self._follow,
            )
            operator.start(arguments=["--graceful-shutdown-timeout=5s"])
            stack.callback(operator.stop)
            self._wait("the operator to be ready", operator.ready)
            self._narrator.say("It has listed the EC2Instances and is ready.")
        return operator

    def _launch(self, operator: OperatorProcess) -> str:
        sample: dict[str, Any] = yaml.safe_load((self._options.project / _SAMPLE).read_text())
        sample["spec"]["checkInterval"] = _CHECK_INTERVAL
        name = str(sample["metadata"]["name"])
        with self._narrator.chapter(f"An EC2Instance named {name} comes to life"):
            self._narrator.say(f"The sample is {_SAMPLE}, with checkInterval: {_CHECK_INTERVAL} for a quick story:")
            self._narrator.command(["cat", str(_SAMPLE)], yaml.safe_dump(sample, sort_keys=False))
            self._run_kubectl("apply", "-f", "-", stdin=json.dumps(sample))

            def running() -> bool:
                operator.ready()
                status = self._status(name)
                return status.get("state") == "running" and _is_true(status, "Successful") and _is_true(status, "Ready")

            self._wait(f"{name} to be running", running)
            self._narrator.event(f"{name} is running and Ready")
        return name

    def _show(self, name: str) -> str:
        """Show the table and return the instance's id."""
        self._run_kubectl("get", "ec2instances")
        return str(self._status(name)["instanceId"])

    def _repair(self, control: Ec2Control, *, name: str, instance: str) -> None:
        with self._narrator.chapter("Somebody stops the instance behind the operator's back"):
            control.stop(instance)
            self._narrator.event(f"{instance} was stopped in the EC2 emulator, not in Kubernetes")
            self._wait("the stop to show", lambda: _state(control, instance) != "running")
            self._wait("the repair", lambda: _state(control, instance) == "running")
            self._narrator.event(f"{instance} runs again: the periodic check found the drift and repaired it")
            self._wait("the status", lambda: self._status(name).get("state") == "running")
            self._wait("the Events", lambda: "Started" in self._quiet("get", "events"))
            self._run_kubectl("get", "ec2instances")
            self._run_kubectl("get", "events", "--field-selector=involvedObject.kind=EC2Instance")

    def _delete(self, control: Ec2Control, *, name: str, instance: str) -> None:
        with self._narrator.chapter("The object is deleted; its finalizer terminates the instance first"):
            self._run_kubectl("delete", "ec2instance", name, f"--timeout={_LIMIT:.0f}s")
            state = _state(control, instance)
            self._narrator.event(f"{instance} is {state}, and the object is gone")
            if state not in {"shutting-down", "terminated"}:
                raise LocalPlaneError(f"{instance} is still {state} although its object is gone; please report this")

    def _what_next(self) -> None:
        say = self._narrator.say
        say("")
        say("What to try next:")
        say("  make demo KEEP=1     stay up, with the KUBECONFIG line to play with it")
        say("  README.md            the five-minute tour: the same by hand, on a plane of your own (make dev-up)")
        say("  make test            everything that this project promises, on real parts")
        say("  edit roles/ec2_instance/tasks/*.yml and run the demo again")

    def _stay(self) -> None:
        """Print how to use what runs, and wait for Ctrl-C or SIGTERM."""
        self._narrator.say("")
        self._narrator.say("Still running. In another terminal:")
        endpoint = self._environ["AWS_ENDPOINT_URL"]
        print(f"export KUBECONFIG={self._kubeconfig} AWS_ENDPOINT_URL={endpoint}", flush=True)
        self._narrator.say("Ctrl-C ends the operator, the control plane and the emulator.")
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        ended.wait()

    def _tell_interrupt(self, kind: type[BaseException] | None, *_: object) -> None:
        """Say at once that a Ctrl-C was heard: stopping takes seconds."""
        if kind is not None and issubclass(kind, KeyboardInterrupt) and not self._told:
            self._told = True
            self._narrator.say("Interrupted: stopping what was started; the run under way gets 5 seconds.")

    def _follow(self, record: Mapping[str, Any]) -> None:
        """Tell each task of a run as it starts."""
        if record.get("msg") == "[playbook task start]":
            self._narrator.event(f"task {record.get('EventData.Name') or record.get('task')}")
        if record.get("msg") == "Ansible-runner exited successfully":
            self._narrator.event("the role ended well")
        if record.get("msg") == "[playbook task failed]":
            self._narrator.event(f"FAILED {record.get('EventData.Task') or record.get('task')}")

    def _status(self, name: str) -> Mapping[str, Any]:
        status: Mapping[str, Any] = (
            json.loads(self._quiet("get", "ec2instance", name, "-o", "json")).get("status") or {}
        )
        return status

    def _run_kubectl(self, *arguments: str, stdin: str | None = None) -> None:
        """Run kubectl and show the command with its output."""
        self._narrator.command(["kubectl", *self._namespace, *arguments], self._quiet(*arguments, stdin=stdin))

    def _quiet(self, *arguments: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            [self._kubectl, *self._namespace, *arguments],
            cwd=self._options.project,
            env=self._environ,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LocalPlaneError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Poll *condition*; a person watches, so ten looks a second are enough."""
        end = time.monotonic() + _LIMIT
        while not condition():
            if time.monotonic() > end:
                raise LocalPlaneError(f"waited {_LIMIT:.0f} s in vain for {what}")
            time.sleep(0.1)


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


def _is_true(status: Mapping[str, Any], condition: str) -> bool:
    entries = status.get("conditions") or []
    return any(entry.get("type") == condition and entry.get("status") == "True" for entry in entries)


def _state(control: Ec2Control, instance: str) -> str:
    """Return the real state of *instance* in the emulator."""
    return control.instance(instance).state
