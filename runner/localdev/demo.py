"""`make demo`: the product's main job on real parts, told while it happens.

A control plane and an EC2 emulator start, the operator of this working tree runs against them, an EC2Instance comes
to life, is stopped behind the operator's back, is repaired, and goes again.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from runner.errors import LocalPlaneError
from runner.localdev import assets as programs
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.credentials import client_environment
from runner.localdev.ec2.server import Ec2Emulator
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.state import PlaneOptions
from runner.localdev.story import LIMIT, Story, is_true

_SAMPLE = Path("config/samples/aws_v1alpha1_ec2instance.yaml")
_CHECK_INTERVAL = "5s"


class Demo(Story):
    """The story of one EC2Instance."""

    def tell(self, stack: contextlib.ExitStack, *, folder: Path) -> None:
        """Tell it all."""
        control = Ec2Control(self._start_parts(stack, folder=folder))
        operator = self._start_operator(stack, folder=folder)
        name = self._launch(operator)
        instance = self._show(name)
        self._repair(control, name=name, instance=instance)
        self._delete(control, name=name, instance=instance)

    def what_next(self) -> None:
        """Say what a person may try next."""
        say = self.narrator.say
        say("")
        say("What to try next:")
        say("  make demo KEEP=1     stay up, with the KUBECONFIG line to play with it")
        say("  README.md            the five-minute tour: the same by hand, on a plane of your own (make dev-up)")
        say("  make test            everything that this project promises, on real parts")
        say("  edit roles/ec2_instance/tasks/*.yml and run the demo again")

    def _start_parts(self, stack: contextlib.ExitStack, *, folder: Path) -> str:
        """Start the control plane and the emulator; return the emulator's URL."""
        endpoint = self._join_cluster(stack) if self.options.kubeconfig else self._start_plane(stack, folder=folder)
        self.environ |= {
            "KUBECONFIG": self.kubeconfig,
            **client_environment(endpoint),
            "ANSIBLE_GATHERING": "explicit",  # as the manager in config/ runs
        }
        return endpoint

    def _start_plane(self, stack: contextlib.ExitStack, *, folder: Path) -> str:
        with self.narrator.chapter("A real Kubernetes and an EC2 emulator, on this machine"):
            plane = self.start_plane(stack, folder=folder, options=PlaneOptions(ec2=True))
            if plane.ec2_endpoint is None:
                raise LocalPlaneError("the EC2 emulator has no address; see the control plane's logs")
        return plane.ec2_endpoint

    def _join_cluster(self, stack: contextlib.ExitStack) -> str:
        """Use the current cluster, in a namespace of the demo's own, so that nothing else there is touched."""
        narrator = self.narrator
        with narrator.chapter("Your cluster, and an EC2 emulator on this machine"):
            if shutil.which("kubectl", path=self.environ.get("PATH")) is None:
                self.program = str(programs.find(self.environ, report=narrator.say).kubectl)
            emulator = stack.enter_context(Ec2Emulator())
            self.environ |= {"KUBECONFIG": self.kubeconfig}
            namespace = f"ansible-operator-demo-{secrets.token_hex(3)}"
            self.kubectl("create", "namespace", namespace)
            stack.callback(self.quiet, "delete", "namespace", namespace, "--wait=false")
            self.namespace = ("--namespace", namespace)
            stack.callback(self._release)
            self.environ |= {"WATCH_NAMESPACE": namespace}
            narrator.say("The CRD ec2instances.aws.ansible-operator.io stays in the cluster afterwards.")
        return emulator.endpoint

    def _release(self) -> None:
        """Take the finalizer off what a story that broke off left: its operator and its cloud are gone by now."""
        with contextlib.suppress(LocalPlaneError):
            for name in self.quiet("get", "ec2instances", "-o", "name").split():
                self.quiet("patch", name, "--type=merge", "--patch", '{"metadata": {"finalizers": null}}')

    def _start_operator(self, stack: contextlib.ExitStack, *, folder: Path) -> OperatorProcess:
        with self.narrator.chapter("The operator: watches.yaml maps EC2Instance to roles/ec2_instance"):
            self.kubectl("apply", "-k", "crds/")
            crd = "customresourcedefinition/ec2instances.aws.ansible-operator.io"
            self.quiet("wait", "--for=condition=Established", crd, "--timeout=60s")
            operator = self.start_operator(stack, folder=folder, project=self.options.project, follower=self._follow)
            self.narrator.say("It has listed the EC2Instances and is ready.")
        return operator

    def _launch(self, operator: OperatorProcess) -> str:
        sample: dict[str, Any] = yaml.safe_load((self.options.project / _SAMPLE).read_text())
        sample["spec"]["checkInterval"] = _CHECK_INTERVAL
        name = str(sample["metadata"]["name"])
        with self.narrator.chapter(f"An EC2Instance named {name} comes to life"):
            self.narrator.say(f"The sample is {_SAMPLE}, with checkInterval: {_CHECK_INTERVAL} for a quick story:")
            self.narrator.command(["cat", str(_SAMPLE)], yaml.safe_dump(sample, sort_keys=False))
            self.kubectl("apply", "-f", "-", stdin=json.dumps(sample))

            def running() -> bool:
                operator.ready()
                status = self._status(name)
                return status.get("state") == "running" and is_true(status, "Successful") and is_true(status, "Ready")

            self.wait(f"{name} to be running", running)
            self.narrator.event(f"{name} is running and Ready")
        return name

    def _show(self, name: str) -> str:
        """Show the table and return the instance's id."""
        self.kubectl("get", "ec2instances")
        return str(self._status(name)["instanceId"])

    def _repair(self, control: Ec2Control, *, name: str, instance: str) -> None:
        with self.narrator.chapter("Somebody stops the instance behind the operator's back"):
            control.stop(instance)
            self.narrator.event(f"{instance} was stopped in the EC2 emulator, not in Kubernetes")
            self.wait("the stop to show", lambda: _state(control, instance) != "running")
            self.wait("the repair", lambda: _state(control, instance) == "running")
            self.narrator.event(f"{instance} runs again: the periodic check found the drift and repaired it")
            self.wait("the status", lambda: self._status(name).get("state") == "running")
            self.wait("the Events", lambda: "Started" in self.quiet("get", "events"))
            self.kubectl("get", "ec2instances")
            self.kubectl("get", "events", "--field-selector=involvedObject.kind=EC2Instance")

    def _delete(self, control: Ec2Control, *, name: str, instance: str) -> None:
        with self.narrator.chapter("The object is deleted; its finalizer terminates the instance first"):
            self.kubectl("delete", "ec2instance", name, f"--timeout={LIMIT:.0f}s")
            state = _state(control, instance)
            self.narrator.event(f"{instance} is {state}, and the object is gone")
            if state not in {"shutting-down", "terminated"}:
                raise LocalPlaneError(f"{instance} is still {state} although its object is gone; please report this")

    def _follow(self, record: Mapping[str, Any]) -> None:
        """Tell each task of a run as it starts."""
        if record.get("msg") == "[playbook task start]":
            self.narrator.event(f"task {record.get('EventData.Name') or record.get('task')}")
        if record.get("msg") == "Ansible-runner exited successfully":
            self.narrator.event("the role ended well")
        if record.get("msg") == "[playbook task failed]":
            self.narrator.event(f"FAILED {record.get('EventData.Task') or record.get('task')}")

    def _status(self, name: str) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.get("ec2instance", name).get("status") or {}
        return status


def _state(control: Ec2Control, instance: str) -> str:
    """Return the real state of *instance* in the emulator."""
    return control.instance(instance).state
