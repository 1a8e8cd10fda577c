"""The command line of each component, and the files they share.

`plane` decides when each is started. Everything listens on 127.0.0.1, with TLS and client certificates wherever the
program can; nothing has an insecure port.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.localdev.assets import Assets
from runner.localdev.bootstrap import CLOUD_USER
from runner.localdev.pki import Authority, new_key_pair, write_kubeconfig

STAGES = Path(__file__).parent / "kwok-stages.yaml"
FAKE_NODE_LABEL = "kwok.x-k8s.io/node"
FAKE_NODE_VALUE = "fake"
LEASE_SECONDS = 16
_SERVICE_RANGE = "10.0.0.0/24"
_LOOPBACK = ("localhost", "127.0.0.1")
_API_HOSTS = (
    *_LOOPBACK, "10.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)  # fmt: skip
_PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"

ETCD = "etcd"
APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"
EC2 = "ec2"
MACHINES = "machines"
CLOUD = "cloud"


@dataclass(frozen=True, kw_only=True)
class Ports:
    """One loopback port for each listener."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int
    ec2: int


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where everything of one plane lies."""

    folder: Path

    ENTRIES = ("kubeconfig", "pki", "data", "run", "logs", "plane.json")
    """All that a plane makes in its folder."""

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def pki(self) -> Path:
        """Return the folder of keys and certificates."""
        return self.folder / "pki"

    @property
    def logs(self) -> Path:
        """Return the folder of logs, one a component."""
        return self.folder / "logs"

    @property
    def run(self) -> Path:
        """Return the folder of the components' own small files; also their home."""
        return self.folder / "run"

    @property
    def ec2_port_file(self) -> Path:
        """Return where the EC2 emulator writes its port once it listens."""
        return self.run / "ec2.port"

    @property
    def machines_ready_file(self) -> Path:
        """Return what the simulated machines write once they follow the EC2 emulator."""
        return self.run / "machines.ready"

    def identity(self, name: str) -> Path:
        """Return the kubeconfig of a component."""
        return self.run / f"{name}.kubeconfig"


def prepare(layout: Layout, *, server: str) -> None:
    """Make folders, keys, certificates and kubeconfigs; only their owner can enter the folders."""
    for folder in (layout.pki, layout.pki / "front-proxy", layout.logs, layout.run, layout.folder / "data"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = Authority(layout.pki)
    new_key_pair(layout.pki / "sa.key", public=layout.pki / "sa.pub")
    authority.issue("etcd", common_name="etcd", hosts=_LOOPBACK)
    authority.issue("etcd-client", common_name=APISERVER)
    authority.issue("apiserver", common_name=APISERVER, hosts=_API_HOSTS)
    authority.issue("kubelet-client", common_name="kube-apiserver-kubelet-client", organization="system:masters")
    front_proxy = Authority(layout.pki / "front-proxy", common_name="ansible-operator-local-front-proxy-ca")
    authority.issue(CLOUD, common_name=CLOUD_USER)
    front_proxy.issue("client", common_name="front-proxy-client")
    identities = {
        "admin": ("admin", "system:masters", (), layout.kubeconfig),
        CONTROLLER_MANAGER: ("system:kube-controller-manager", "", _LOOPBACK, layout.identity(CONTROLLER_MANAGER)),
        SCHEDULER: ("system:kube-scheduler", "", _LOOPBACK, layout.identity(SCHEDULER)),
        KWOK: ("kwok-controller", "system:masters", (), layout.identity(KWOK)),
    }
    for name, (common_name, organization, hosts, target) in identities.items():
        certificate = authority.issue(name, common_name=common_name, organization=organization, hosts=hosts)
        key = certificate.with_suffix(".key")
        write_kubeconfig(target, server=server, authority=authority.certificate, certificate=certificate, key=key)


def commands(
    layout: Layout,
    *,
    assets: Assets,
    ports: Ports,
    apiserver_args: tuple[str, ...] = (),
    ec2: bool = False,
    machines: bool = False,
) -> Mapping[str, tuple[str, ...]]:
    """Return the command line of each component that *assets* and the other choices allow, in their start order."""
    chosen: dict[str, tuple[str, ...]] = {
        ETCD: (str(assets.etcd), *_etcd(layout, ports)),
        APISERVER: (str(assets.kube_apiserver), *_apiserver(layout, ports), *apiserver_args),
    }
    if ec2:
        port_file = str(layout.ec2_port_file)
        module = ("-m", "runner.localdev.ec2", "--port", str(ports.ec2), "--port-file", port_file)
        chosen[EC2] = (sys.executable, *module)
    if assets.kube_controller_manager is not None:
        chosen[CONTROLLER_MANAGER] = (str(assets.kube_controller_manager), *_controller_manager(layout, ports))
    if assets.kube_scheduler is not None:
        chosen[SCHEDULER] = (str(assets.kube_scheduler), *_scheduler(layout, ports))
    if assets.kwok is not None:
        chosen[KWOK] = (str(assets.kwok), *_kwok(layout, ports))
    if machines:
        chosen[MACHINES] = (sys.executable, "-m", "runner.localdev.machines", *_machines(layout, ports))
    return chosen


def component_environment(name: str, *, layout: Layout, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment of a component: nothing of the user's, except for those that are Python.

    They get all but AWS_*: real credentials have no business there.
    """
    if name in {EC2, MACHINES}:
        return {key: value for key, value in environ.items() if not key.startswith("AWS_")}
    return {"PATH": _PLAIN_PATH, "HOME": str(layout.run)}


def _etcd(layout: Layout, ports: Ports) -> list[str]:
    pki, client, peer = layout.pki, f"https://127.0.0.1:{ports.etcd}", f"https://127.0.0.1:{ports.etcd_peer}"
    tls = [
        "--{}client-cert-auth", f"--{{}}trusted-ca-file={pki}/ca.crt", f"--{{}}cert-file={pki}/etcd.crt",
        f"--{{}}key-file={pki}/etcd.key",
    ]  # fmt: skip
    return [
        f"--data-dir={layout.folder}/data/etcd",
        "--unsafe-no-fsync",  # a third faster, and the data need not survive a power cut
        "--log-level=warn",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        *(flag.format("") for flag in tls),
        *(flag.format("peer-") for flag in tls),
    ]


def _apiserver(layout: Layout, ports: Ports) -> list[str]:
    pki = layout.pki
    return [
        f"--etcd-servers=https://127.0.0.1:{ports.etcd}",
        f"--etcd-cafile={pki}/ca.crt",
        f"--etcd-certfile={pki}/etcd-client.crt",
        f"--etcd-keyfile={pki}/etcd-client.key",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={ports.apiserver}",
        "--endpoint-reconciler-type=none",  # a loopback address is no valid endpoint
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        # Without the next five the controller manager complains about a missing CA bundle for ever.
        f"--requestheader-client-ca-file={pki}/front-proxy/ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy/client.crt",
        f"--proxy-client-key-file={pki}/front-proxy/client.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--enable-bootstrap-token-auth=true",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        "--allow-privileged=true",
    ]


def _client_flags(layout: Layout, name: str) -> list[str]:
    """Return what controller manager and scheduler have in common."""
    own = layout.identity(name)
    return [
        *(f"--{prefix}kubeconfig={own}" for prefix in ("", "authentication-", "authorization-")),
        f"--tls-cert-file={layout.pki}/{name}.crt",
        f"--tls-private-key-file={layout.pki}/{name}.key",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--kube-api-qps=500",  # with the default of 20 the first service account takes five seconds
        "--kube-api-burst=1000",
    ]


def _controller_manager(layout: Layout, ports: Ports) -> list[str]:
    pki = layout.pki
    return [
        *_client_flags(layout, CONTROLLER_MANAGER),
        f"--secure-port={ports.controller_manager}",
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=12s",  # kwok renews a lease of 16 s every 4 s
    ]


def _scheduler(layout: Layout, ports: Ports) -> list[str]:
    return [*_client_flags(layout, SCHEDULER), f"--secure-port={ports.scheduler}"]


def _kwok(layout: Layout, ports: Ports) -> list[str]:
    return [
        f"--kubeconfig={layout.identity(KWOK)}",
        f"--config={STAGES}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={FAKE_NODE_LABEL}={FAKE_NODE_VALUE}",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
        "--cidr=10.244.0.0/16",
        f"--server-address=127.0.0.1:{ports.kwok}",
    ]


def _machines(layout: Layout, ports: Ports) -> list[str]:
    return [
        f"--ec2=http://127.0.0.1:{ports.ec2}",
        f"--server=https://127.0.0.1:{ports.apiserver}",
        f"--pki={layout.pki}",
        f"--disks={layout.folder}/data/machines",
        f"--ready-file={layout.machines_ready_file}",
    ]
