"""Runs a role of an AWS kind as the runtime does, one run at a time, against the plane's API server and EC2.

A run is the product's own, on a fork server with the environment of the runs; a test sees exactly what one run did:
its recap, its output, the object and the calls that reached AWS. Where the output must be what Ansible prints, before
the runtime takes known secrets out of it, `ansible-playbook` is run with the runtime's variables (`parameters_for`).
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.clock import SystemClock
from runner.errors import NotFound
from runner.execution.executor import RunRequest
from runner.execution.launcher import Launcher
from runner.execution.parameters import parameters_for
from runner.execution.play import PlayExecutor
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.records import CallRecord, InstanceRecord
from runner.logs import Logger, RecordingSink
from runner.settings import ExecutionSettings, environment
from runner.testing.executor import run_request
from runner.testing.kubeconfig import GivenKubeconfig
from runner.testing.warm import environ_of_tests
from runner.watches.model import Content, Finalizer, Watch

ROOT = Path(__file__).resolve().parents[3]
EC2_INSTANCES = Resource(gvk=GVK("aws.ansible-operator.io", "v1alpha1", "EC2Instance"), plural="ec2instances")
EVENTS = Resource(gvk=GVK("", "v1", "Event"), plural="events")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
IMAGE = "ami-0c0ffee0000000001"
SECRET_KEY = "CANARYsecretkey"
UID_TAG = "ansible-operator.io/uid"
_RECAP = re.compile(r"^localhost\s*: ok=(\d+)\s+changed=(\d+).*failed=(\d+)", re.MULTILINE)


def environ_of_runs(endpoint: str) -> dict[str, str]:
    """Return the environment of runs for the emulator at *endpoint*; their fork server has it too, so they are warm."""
    return {**environ_of_tests("AWS_", "PYTEST_"), **_aws(endpoint)}


def _aws(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "CANARYaccesskey",
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The kind and the role under test."""

    resource: Resource
    role: str
    """Its folder's name; the finalizer's run has `<role>_finalizing: true`."""
    spec: Mapping[str, Any]
    """The least spec that is good."""

    @property
    def watch(self) -> Watch:
        """Return the kind's watch as `watches.yaml` has it."""
        name = f"aws.ansible-operator.io/{self.resource.gvk.kind.lower()}"
        return Watch(
            gvk=self.resource.gvk,
            content=Content(role=ROOT / "roles" / self.role),
            mark_unsafe=True,
            finalizer=Finalizer(name=name, vars={f"{self.role}_finalizing": True}),
        )


EC2_INSTANCE = Subject(
    resource=EC2_INSTANCES,
    role="ec2_instance",
    spec={"region": "us-east-1", "imageId": IMAGE, "instanceType": "t3.micro"},
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run of the role did."""

    ok: bool
    changed: int
    output: str
    calls: Sequence[CallRecord]
    obj: Object
    """The object after the run."""

    @property
    def status(self) -> Mapping[str, Any]:
        """Return the object's status."""
        status: Mapping[str, Any] = self.obj.get("status") or {}
        return status

    @property
    def ready(self) -> Mapping[str, Any]:
        """Return the `Ready` condition, empty where there is none."""
        found = [item for item in self.status.get("conditions") or [] if item["type"] == "Ready"]
        return found[0] if found else {}

    @property
    def writes(self) -> list[str]:
        """Return the actions that changed something in AWS, or tried to."""
        return [call.action for call in self.calls if call.write]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One namespace with objects, and the emulator behind them."""

    kube: KubeClient
    kubeconfig: Path
    namespace: str
    aws: Ec2Control
    endpoint: str
    folder: Path
    variables: Mapping[str, Any] = field(default_factory=dict)
    """On top of the runtime's variables."""
    verbosity: str = "-vv"
    subject: Subject = EC2_INSTANCE
    warm: Launcher | None = None
    """Starts the runs; None: `ansible-playbook` is run without the runtime around it."""

    def with_variables(self, **variables: Any) -> Bench:
        """Return a bench whose runs have these variables too."""
        return replace(self, variables={**self.variables, **variables})

    def with_verbosity(self, verbosity: str) -> Bench:
        """Return a bench whose runs print as much as *verbosity* (`-v` to `-vvvv`) asks for, and nothing is hidden."""
        return replace(self, verbosity=verbosity, warm=None)

    async def create(self, *, name: str = "web", **spec: Any) -> Object:
        """Create an object."""
        body = {
            "apiVersion": self.subject.resource.gvk.api_version,
            "kind": self.subject.resource.gvk.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {**self.subject.spec, **spec},
        }
        return await self.kube.create(self.subject.resource, body=body, namespace=self.namespace)

    async def get(self, name: str = "web") -> Object:
        """Read the object."""
        return await self.kube.get(self.subject.resource, namespace=self.namespace, name=name)

    async def patch(self, name: str = "web", **spec: Any) -> None:
        """Change the object's spec."""
        await self.kube.patch(self.subject.resource, namespace=self.namespace, name=name, body={"spec": spec})

    async def patch_status(self, name: str = "web", **status: Any) -> None:
        """Change the object's status."""
        await self.kube.patch(
            self.subject.resource, namespace=self.namespace, name=name, body={"status": status}, subresource="status"
        )

    async def release_all(self) -> None:
        """Take every finalizer off, so that the namespace can go."""
        for obj in await self.kube.list(self.subject.resource, namespace=self.namespace):
            name = obj["metadata"]["name"]
            body = {"metadata": {"finalizers": None}}
            await self.kube.patch(self.subject.resource, namespace=self.namespace, name=name, body=body)

    async def events(self) -> list[str]:
        """Return the reasons of the Events on objects of this namespace."""
        return [str(event.get("reason")) for event in await self.kube.list(EVENTS, namespace=self.namespace)]

    def mine(self, obj: Object, *states: str) -> list[InstanceRecord]:
        """Return the instances with the object's UID tag, by default the live ones."""
        wanted = states or ("pending", "running", "stopping", "stopped")
        uid = obj["metadata"]["uid"]
        return [one for one in self.aws.instances() if one.tags.get(UID_TAG) == uid and one.state in wanted]

    async def run(self, *, name: str = "web", finalizing: bool = False, obj: Object | None = None) -> Run:
        """Run the role once for the object as it is now, or for *obj* as somebody saw it before."""
        seen = obj or await self.get(name)
        request = run_request(watch=self.subject.watch, obj=seen, finalizing=finalizing)
        before = self.aws.last_call()
        if self.warm is None:
            code, output = await self._play({**parameters_for(request).variables, **self.variables})
        else:
            code, output = await self._run_warm(request, launcher=self.warm)
        recap = _RECAP.search(output)
        return Run(
            ok=code == 0,
            changed=int(recap.group(2)) if recap else -1,
            output=output,
            calls=self.aws.calls(since=before),
            obj=await self._after(name, seen=seen),
        )

    async def _after(self, name: str, *, seen: Object) -> Object:
        """Return the object as it is now, as it was *seen* where it is gone."""
        try:
            return await self.get(name)
        except NotFound:
            return seen

    async def settle(self, *, name: str = "web", limit: int = 15) -> Run:
        """Run until the object is Ready; *limit* runs only mean 'hung'."""
        for _ in range(limit):
            run = await self.run(name=name)
            if run.ok and run.ready.get("status") == "True":
                return run
        raise AssertionError(f"not Ready after {limit} runs: {run.ready}\n{run.output[-3000:]}")

    async def _run_warm(self, request: RunRequest, *, launcher: Launcher) -> tuple[int, str]:
        """Run *request* as a playbook, so that no facts are gathered; runs of one object may be at once here."""
        playbook = self._write_play()
        ident = str(secrets.randbits(63))
        # above the finalizer's variables, which the runtime has above the watch's
        watched = self.subject.watch
        assert watched.finalizer is not None
        finalizer = replace(watched.finalizer, vars={**watched.finalizer.vars, **self.variables})
        watch = replace(watched, content=Content(playbook=playbook), vars=self.variables, finalizer=finalizer)
        settings = ExecutionSettings(runner_dir=self.folder / "runner" / ident, environ=environ_of_runs(self.endpoint))
        executor = PlayExecutor(
            settings=settings,
            launcher=launcher,
            kubeconfigs=GivenKubeconfig(self.kubeconfig),
            clock=SystemClock(),
            logger=Logger(sink=RecordingSink()),
        )
        outcome = await executor.run(replace(request, watch=watch, ident=ident, verbosity=self.verbosity.count("v")))
        printed = "" if outcome.artifacts is None else (outcome.artifacts / "stdout").read_text(errors="replace")
        return (0 if outcome.success else 1), _COLOUR.sub("", printed).replace("\r\n", "\n")

    def _write_play(self) -> Path:
        path = self.folder / "play.json"
        play = [{"hosts": "localhost", "gather_facts": False, "roles": [str(ROOT / "roles" / self.subject.role)]}]
        path.write_text(json.dumps(play))
        roles = self.folder / "roles"  # beside the playbook, where Ansible looks for the roles that a role includes
        if not roles.exists():
            roles.symlink_to(ROOT / "roles")
        return path

    async def _play(self, variables: Mapping[str, Any]) -> tuple[int, str]:
        (self.folder / "extravars.json").write_text(json.dumps(variables))
        playbook = self._write_play()
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).parent / "ansible-playbook"),
            *(
                self.verbosity,
                "-c",
                "local",
                "-i",
                "localhost,",
                "-e",
                f"@{self.folder}/extravars.json",
                str(playbook),
            ),
            env=self._environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        raw, _ = await process.communicate()
        return process.returncode or 0, raw.decode(errors="replace")

    def _environment(self) -> dict[str, str]:
        collections = ROOT / "runner" / "collections"
        inherited = {key: value for key, value in environment().items() if not key.startswith("AWS_")}
        return {
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            **inherited,
            "K8S_AUTH_KUBECONFIG": str(self.kubeconfig),
            **_aws(self.endpoint),
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_NOCOLOR": "True",
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
        }
