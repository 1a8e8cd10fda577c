"""Machines behind the EC2 emulator's instances, for tests: they boot by their user data and join the test's cluster.

The fixture `joining_instances` (in `fixtures`) gives a `ClusterToJoin`; its `user_data` is what an instance needs that
joins without any role of ours.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.localdev import bootstrap
from runner.localdev.api import Api
from runner.localdev.bootstrap import CLOUD_USER
from runner.localdev.components import CLOUD
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.machines.kubelet import MACHINE_ANNOTATION
from runner.localdev.machines.simulator import Cluster, Pace, Simulator
from runner.localdev.nodes import COLLECTION
from runner.localdev.pki import Authority
from runner.localdev.plane import ControlPlane

_USER_DATA = """\
#!/bin/sh
mkdir -p /etc/kubernetes
base64 -d > /etc/kubernetes/ca.crt <<EOF
{authority}
EOF
cat > /etc/kubernetes/discovery.conf <<EOF
apiVersion: v1
kind: Config
clusters:
- name: ""
  cluster:
    server: {server}
    certificate-authority: /etc/kubernetes/ca.crt
EOF
echo 'KUBELET_EXTRA_ARGS="--node-labels={labels} --register-with-taints={taints}"' > /etc/default/kubelet
kubeadm join --discovery-file /etc/kubernetes/discovery.conf --tls-bootstrap-token {token}
"""
_PACE = Pace(busy=0.1, idle=0.2, cloud=0.5, limit=30.0)


@dataclass(frozen=True, kw_only=True)
class ClusterToJoin:
    """What somebody must know whose machines join."""

    plane: ControlPlane

    @property
    def server(self) -> str:
        """Return the API server's URL, for `spec.bootstrap.server`."""
        return self.plane.server

    @property
    def ca_bundle(self) -> str:
        """Return the CA in PEM, for `spec.bootstrap.caBundle`."""
        return self.plane.authority.read_text()

    def new_token(self) -> str:
        """Return a new bootstrap token, as `kubeadm token create` does."""
        return bootstrap.new_token(self.plane.admin()).text

    def user_data(self, *, token: str, ca_bundle: str = "", labels: str = "", taints: str = "") -> str:
        """Return user data by which a machine joins with kubeadm; labels and taints as in the kubelet's flags."""
        return _USER_DATA.format(
            authority=base64.b64encode((ca_bundle or self.ca_bundle).encode()).decode(),
            server=self.server,
            labels=labels,
            taints=taints,
            token=token,
        )


@contextlib.contextmanager
def machines_of(plane: ControlPlane, *, folder: Path) -> Iterator[ClusterToJoin]:
    """Let the instances of *plane*'s emulator join it during the block; *folder* is for files of this."""
    if plane.options.join_instances:
        yield ClusterToJoin(plane=plane)
        return
    bootstrap.install(plane.admin(), server=plane.server, authority=plane.authority.read_text())
    certificate = Authority.load(plane.authority, folder=folder).issue(CLOUD, common_name=CLOUD_USER)
    cluster = Cluster(server=plane.server, authority=plane.authority, certificate=certificate)
    control = Ec2Control(plane.ec2_endpoint or "")
    simulator = Simulator(control, cluster=cluster, disks=folder / "disks", pace=_PACE)
    simulator.start()
    try:
        yield ClusterToJoin(plane=plane)
    finally:
        simulator.stop()
        _sweep(cluster.api(), control=control)


def _sweep(api: Api, *, control: Ec2Control) -> None:
    """Delete the Nodes of machines that ended too late for the cloud controller to see them unready."""
    alive = {record.id for record in control.instances() if record.state != "terminated"}
    for node in (api.get(COLLECTION) or {}).get("items", ()):
        instance = (node["metadata"].get("annotations") or {}).get(MACHINE_ANNOTATION)
        if instance is not None and instance not in alive:
            api.send("DELETE", f"{COLLECTION}/{node['metadata']['name']}")
