"""What a person sees of each kind, and when something is wrong: `python -m tools.what_people_see`.

Starts a control plane, the EC2 emulator and the operator of this working tree, applies the samples, then makes what
people meet happen one after the other, and prints what `kubectl` shows: the record in `docs/evidence`.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from runner.errors import LocalPlaneError
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.credentials import CREDENTIALS, client_environment
from runner.localdev.ec2.faults import Fault
from runner.localdev.narrator import Narrator
from runner.localdev.state import PlaneOptions
from runner.localdev.story import DemoOptions, Story, interruptible
from runner.settings import environment

_PROJECT = Path(__file__).resolve().parents[1]
_SAMPLES = ("ec2instance", "ebsvolume", "s3bucket", "nodepool", "autoscaler")
_GROUP = "aws.ansible-operator.io"
_MACHINE = {"region": "us-east-1", "imageId": "ami-0c0ffee0000000001", "instanceType": "t3.micro"}
_BUCKET = "a-bucket-with-something-in-it"
_NEVER = {"checkInterval": "1h"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Something that goes wrong with a new object."""

    title: str
    spec: Mapping[str, Any]
    kind: str = "EC2Instance"
    code: str = ""
    """What AWS answers to `action`; empty: what the emulator itself does."""
    action: str = "RunInstances"
    secret: Mapping[str, str] = field(default_factory=dict)
    """The content of the secret `wrong`."""

    @property
    def name(self) -> str:
        """Return the object's name."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


CASES = (
    Case(
        title="Wrong credentials",
        spec={**_MACHINE, "credentialsSecretRef": {"name": "wrong"}},
        secret={
            "AWS_ACCESS_KEY_ID": "AKIA0000000000000000",
            "AWS_SECRET_ACCESS_KEY": "nobody/has/a/key/such/as/this/one/0000000",
        },
        action="DescribeInstances",
        code="AuthFailure",
    ),
    Case(title="No such secret", spec={**_MACHINE, "credentialsSecretRef": {"name": "nowhere"}}),
    Case(title="No such image", spec={**_MACHINE, "imageId": "ami-00000000000000000"}),
    Case(title="The quota is reached", spec=_MACHINE, code="VcpuLimitExceeded"),
    Case(title="There is no capacity", spec=_MACHINE, code="InsufficientInstanceCapacity"),
)


class Seen(Story):
    """The story that shows all of it."""

    def tell(self, stack: contextlib.ExitStack, *, folder: Path) -> None:
        """Tell it all."""
        endpoint = self._begin(stack, folder=folder)
        control = Ec2Control(endpoint)
        for case in CASES:
            with self.narrator.chapter(case.title):
                self._go_wrong(case, control=control)
        with self.narrator.chapter("A bucket that isn't empty is deleted"):
            self._full_bucket(endpoint)
        with self.narrator.chapter("A volume is shrunk"):
            self._refused("patch", "ebsv/ebsvolume-sample", "--type=merge", "--patch", '{"spec": {"sizeGiB": 10}}')

    def _begin(self, stack: contextlib.ExitStack, *, folder: Path) -> str:
        with self.narrator.chapter("The samples"):
            plane = self.start_plane(stack, folder=folder, options=PlaneOptions(ec2=True))
            if plane.ec2_endpoint is None:
                raise LocalPlaneError("the EC2 emulator has no address; see the control plane's logs")
            self.environ |= {
                **client_environment(plane.ec2_endpoint),
                "ANSIBLE_GATHERING": "explicit",
            }
            self.quiet("apply", "-k", "crds/")
            crds = [f"customresourcedefinition/{name}s.{_GROUP}" for name in _SAMPLES]
            self.quiet("wait", "--for=condition=Established", *crds, "--timeout=60s")
            self.start_operator(stack, folder=folder, project=self.options.project, follower=lambda _record: None)
            self.quiet("create", "secret", "generic", "join", "--from-literal=token=abcdef.0123456789abcdef")
            self.quiet("apply", "-k", "config/samples/")
            names = {kind: f"{kind}-sample" for kind in _SAMPLES}
            self.wait("the samples to be Ready", lambda: all(map(self._is_told, names, names.values())))
            for kind, name in names.items():
                self.kubectl("get", kind)
                self._describe(kind, name)
        return plane.ec2_endpoint

    def _go_wrong(self, case: Case, *, control: Ec2Control) -> None:
        if case.secret:
            literals = [f"--from-literal={key}={value}" for key, value in case.secret.items()]
            self.quiet("create", "secret", "generic", "wrong", *literals)
        if case.code:
            control.add_fault(Fault(action=case.action, code=case.code, times=None))
        self._create(case.kind, case.name, spec={**case.spec, **_NEVER})
        self.wait(f"{case.name} to be told", lambda: self._is_told(case.kind, case.name, status="False"))
        self.kubectl("get", case.kind.lower(), case.name)
        self._describe(case.kind.lower(), case.name)
        control.clear_faults()
        self.quiet("delete", case.kind.lower(), case.name, "--wait=true", "--timeout=300s")

    def _full_bucket(self, endpoint: str) -> None:
        spec = {"bucketName": _BUCKET, "region": "us-east-1", "deletionPolicy": "Delete", **_NEVER}
        self._create("S3Bucket", "full", spec=spec)
        self.wait("the bucket", lambda: self._is_told("s3bucket", "full"))
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        client.put_object(Bucket=_BUCKET, Key="something", Body=b"")
        self.kubectl("delete", "s3bucket", "full", "--wait=false")
        self.wait("the refusal", lambda: self._is_told("s3bucket", "full", status="False"))
        self.kubectl("get", "s3bucket", "full")
        self._describe("s3bucket", "full")
        self.kubectl("patch", "s3bucket/full", "--type=merge", "--patch", '{"spec": {"forceDelete": true}}')
        self.kubectl("wait", "--for=delete", "s3bucket/full", "--timeout=300s")

    def _create(self, kind: str, name: str, *, spec: Mapping[str, Any]) -> None:
        body = {"apiVersion": f"{_GROUP}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.quiet("create", "-f", "-", stdin=json.dumps(body))

    def _is_told(self, kind: str, name: str, *, status: str = "True") -> bool:
        conditions = (self.get(kind, name).get("status") or {}).get("conditions") or []
        return any(entry["type"] == "Ready" and entry["status"] == status for entry in conditions)

    def _describe(self, kind: str, name: str) -> None:
        self.kubectl("describe", kind, name)

    def _refused(self, *arguments: str) -> None:
        try:
            self.quiet(*arguments)
        except LocalPlaneError as error:
            self.narrator.command(["kubectl", *arguments], str(error).partition("failed: ")[2])
        else:
            raise LocalPlaneError(f"kubectl {' '.join(arguments)} was to be refused")


def main() -> None:
    """Print it."""
    options = DemoOptions(project=_PROJECT, environ=environment())
    with interruptible():
        Seen(options=options, narrator=Narrator(stream=sys.stdout)).run()


if __name__ == "__main__":
    main()
