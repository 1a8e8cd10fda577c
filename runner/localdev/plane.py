"""A running control plane: real etcd and Kubernetes processes on loopback ports, started and ended together.

`assets` finds the programs, `components` knows their command lines, `processes` runs them, `state` remembers them
for the next command. Used by `development` (the `dev` commands), the demo and the test fixtures.

One thing to know when garbage collection is measured: the stock controller manager looks for new kinds every 30 s,
so install CRDs while it is stopped (`kill_component`, install, `start_component`). And one about killing kwok: its
successor takes over the nodes' Leases only when they run out, after up to 16 s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.errors import LocalPlaneError
from runner.localdev import assets as programs
from runner.localdev import bootstrap, components, nodes, state
from runner.localdev.api import Api
from runner.localdev.assets import Assets
from runner.localdev.cache import Report, kubernetes_version
from runner.localdev.components import (
    APISERVER,
    CONTROLLER_MANAGER,
    EC2,
    ETCD,
    KWOK,
    MACHINES,
    SCHEDULER,
    Layout,
    Ports,
)
from runner.localdev.ports import free_ports
from runner.localdev.processes import Check, spawn, wait_ready
from runner.localdev.state import PlaneOptions, PlaneState
from runner.settings import environment

__all__ = ["ControlPlane", "PlaneOptions"]

_GRACE = 3.0
"""Seconds to end in order; an API server with watches open would take a minute."""


def _silent(_: str) -> None:
    """Report nothing."""


class ControlPlane:
    """One control plane in one folder."""

    def __init__(self, folder: Path, *, record: PlaneState, report: Report = _silent) -> None:
        """Represent what *record* says about *folder*; use `start` or `load`."""
        self.folder = folder
        self._layout = Layout(folder=folder)
        self._state = record
        self._report = report

    @classmethod
    def start(
        cls,
        *,
        folder: Path | None = None,
        assets: Assets | None = None,
        options: PlaneOptions | None = None,
        report: Report = _silent,
    ) -> ControlPlane:
        """Start a plane and return when it is ready to use.

        Args:
            folder: where its files go, new or without a plane; None: a temporary folder.
            assets: the programs; None: from $KUBEBUILDER_ASSETS or the cache, or built now.
            options: what to start; None: no nodes, no EC2.
            report: takes lines of progress.

        Raises:
            LocalPlaneError: it can't be started; everything is undone but the logs that the message names.
        """
        wanted = options or PlaneOptions()
        found = assets or programs.find(environment(), report=report)
        _check_options(wanted, assets=found)
        made = folder is None or not folder.exists()
        place = Path(tempfile.mkdtemp(prefix="ansible-operator-plane-")) if folder is None else folder.absolute()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_strangers(place)
        record = PlaneState(assets=found.folder, ports=_choose_ports(wanted), options=wanted, made_folder=made)
        record.claim(place)
        plane = cls(place, record=record, report=report)
        with contextlib.ExitStack() as undo:
            undo.callback(plane._remove, keep_logs=True)
            plane._start()
            undo.pop_all()
        return plane

    @classmethod
    def load(cls, folder: Path) -> ControlPlane:
        """Return the plane that an earlier command started in *folder*, running or not.

        Raises:
            LocalPlaneError: there is none.
        """
        place = folder.absolute()
        return cls(place, record=state.read(place))

    @property
    def assets(self) -> Assets:
        """Return the programs that it was started from.

        Raises:
            LocalPlaneError: they were removed since.
        """
        return programs.in_folder(self._state.assets, origin=str(self.folder / state.NAME))

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self._layout.kubeconfig

    @property
    def server(self) -> str:
        """Return the API server's URL."""
        return f"https://127.0.0.1:{self._state.ports.apiserver}"

    @property
    def authority(self) -> Path:
        """Return the CA's certificate, in PEM."""
        return self._layout.pki / "ca.crt"

    @property
    def ec2_endpoint(self) -> str | None:
        """Return the EC2 emulator's URL, None where it isn't part of this plane."""
        return f"http://127.0.0.1:{self._state.ports.ec2}" if self._state.options.ec2 else None

    @property
    def options(self) -> PlaneOptions:
        """Return what it was started with."""
        return self._state.options

    @property
    def running(self) -> bool:
        """Tell whether it was started to the end and every component runs."""
        return self._state.ready and all(self.components().values())

    def components(self) -> dict[str, bool]:
        """Return each started component and whether it runs."""
        return {name: process.alive() for name, process in self._state.processes.items()}

    def log(self, name: str) -> Path:
        """Return the log of a component."""
        return self._layout.logs / f"{name}.log"

    def stop(self) -> None:
        """End every process and remove the data; harmless where that has happened already."""
        self._remove(keep_logs=False)

    def restart_apiserver(self) -> None:
        """End the API server in order, and return when a new one answers on the same port."""
        self._state.processes[APISERVER].end(grace=_GRACE)
        self.start_component(APISERVER)

    def kill_component(self, name: str) -> None:
        """End one component the hard way (SIGKILL) and return when it is gone."""
        self._known(name)
        self._state.processes[name].kill()

    def signal_component(self, name: str, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP for a peer that keeps its connections but says nothing."""
        self._known(name)
        self._state.processes[name].send(number)

    def start_component(self, name: str) -> None:
        """Start a component that was ended, with the same command line and data, and return when it is ready."""
        self._known(name)
        if not self._state.processes[name].alive():
            self._spawn([name])
            self._wait([name])

    def _known(self, name: str) -> None:
        if name not in self._state.processes:
            raise LocalPlaneError(f"this plane has no component {name!r}; it has {', '.join(self._state.processes)}")

    def _start(self) -> None:
        began = time.monotonic()
        options, layout = self.options, self._layout
        for sentence in self.assets.limits():
            self._report(sentence)
        components.prepare(layout, server=self.server)
        available = self._commands()
        first = [name for name in (ETCD, APISERVER, EC2) if name in available]
        self._spawn(first)
        self._wait([APISERVER])
        # Not before: until the roles of RBAC are there, the controller manager is refused and ends.
        self._spawn([name for name in available if name not in first])
        api = self.admin()
        bootstrap.install(api, server=self.server, authority=self.authority.read_text())
        nodes.create_nodes(api, count=options.nodes, version=kubernetes_version())
        self._wait([name for name in available if name not in {ETCD, APISERVER}], nodes_ready=options.nodes)
        self._state = dataclasses.replace(self._state, ready=True)
        self._state.write(self.folder)
        self._report(f"control plane ready after {time.monotonic() - began:.1f} s: {self.server}")

    def _commands(self) -> Mapping[str, tuple[str, ...]]:
        return components.commands(
            self._layout,
            assets=self.assets,
            ports=self._state.ports,
            apiserver_args=self.options.apiserver_args,
            ec2=self.options.ec2,
            machines=self.options.join_instances,
        )

    def admin(self) -> Api:
        """Return a blocking client with all rights."""
        return Api(self.server, authority=self.authority, certificate=self._layout.pki / "admin.crt")

    def _spawn(self, names: Sequence[str]) -> None:
        """Start components; each is in the state file before the next one starts."""
        available, surroundings = self._commands(), environment()
        for name in names:
            if name == EC2:
                self._layout.ec2_port_file.unlink(missing_ok=True)
            if name == MACHINES:
                self._layout.machines_ready_file.unlink(missing_ok=True)
            environ = components.component_environment(name, layout=self._layout, environ=surroundings)
            process = spawn(name, argv=available[name], environ=environ, log=self.log(name))
            processes = {**self._state.processes, name: process}
            self._state = dataclasses.replace(self._state, processes=processes)
            self._state.write(self.folder)

    def _wait(self, names: Sequence[str], *, nodes_ready: int = 0) -> None:
        checks = [check for name in names for check in self._checks(name)]
        if nodes_ready:
            api = self.admin()
            checks.append(
                Check(
                    what=f"{nodes_ready} Ready nodes", process=KWOK, met=lambda: nodes.all_ready(api, count=nodes_ready)
                )
            )
        relevant = {name: self._state.processes[name] for name in {*names, ETCD, APISERVER}}
        wait_ready(checks, processes=relevant, limit=self.options.start_limit)

    def _checks(self, name: str) -> list[Check]:
        """Return what a ready component answers."""
        ports, authority = self._state.ports, self._layout.pki / "ca.crt"
        api = self.admin()

        def answers(server: str, path: str) -> Check:
            target = Api(server, authority=authority if server.startswith("https") else None)
            return Check(what=f"{name} {path}", process=name, met=lambda: target.status(path) == 200)

        if name == APISERVER:
            return [Check(what=f"{name} /readyz", process=name, met=lambda: api.status("/readyz") == 200)]
        if name == CONTROLLER_MANAGER:
            path = "/api/v1/namespaces/default/serviceaccounts/default"
            account = Check(what="the default ServiceAccount", process=name, met=lambda: api.status(path) == 200)
            return [answers(f"https://127.0.0.1:{ports.controller_manager}", "/healthz"), account]
        if name == SCHEDULER:
            return [answers(f"https://127.0.0.1:{ports.scheduler}", "/healthz")]
        if name == KWOK:
            return [answers(f"http://127.0.0.1:{ports.kwok}", "/healthz")]
        return self._checks_of_emulator(name)

    def _checks_of_emulator(self, name: str) -> list[Check]:
        """Return what those of our own components do that are ready; etcd is seen through the API server."""
        files = {EC2: self._layout.ec2_port_file, MACHINES: self._layout.machines_ready_file}
        if name not in files:
            return []
        written = Check(what=f"the file {files[name].name}", process=name, met=files[name].exists)
        if name == MACHINES:
            return [written]  # it is written after an answer of the emulator
        emulator = Api(f"http://127.0.0.1:{self._state.ports.ec2}")
        healthy = Check(what=f"{EC2} /sim/health", process=EC2, met=lambda: emulator.status("/sim/health") == 200)
        return [written, healthy]

    def _remove(self, *, keep_logs: bool) -> None:
        """End the processes, those that use others first, and remove what we made in the folder."""
        order = [name for name in self._state.processes if name not in {APISERVER, ETCD}]
        for name in order:  # all at once, so that they end side by side
            self._state.processes[name].send(signal.SIGTERM)
        for name in (*order, APISERVER, ETCD):
            if name in self._state.processes:
                self._state.processes[name].end(grace=_GRACE)
        for entry in Layout.ENTRIES:
            path = self.folder / entry
            if keep_logs and path == self._layout.logs:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if self._state.made_folder:
            with contextlib.suppress(OSError):  # somebody put a file of his own there, or it is gone
                self.folder.rmdir()


def _check_options(options: PlaneOptions, *, assets: Assets) -> None:
    """Refuse what these programs cannot do."""
    if options.nodes < 0:
        raise LocalPlaneError(f"nodes must be 0 or more, not {options.nodes}")
    if options.nodes and (assets.kwok is None or assets.api_only):
        raise LocalPlaneError(
            f"{options.nodes} fake nodes need kwok and kube-controller-manager, which are not in {assets.folder}: "
            "ask for 0 nodes, or unset KUBEBUILDER_ASSETS to use the programs that this package builds"
        )
    if options.join_instances and not options.ec2:
        raise LocalPlaneError("instances can join only where the EC2 emulator runs: start it too, or don't ask for it")
    if options.join_instances and (assets.kwok is None or assets.api_only):
        raise LocalPlaneError(
            f"instances that join need kwok and kube-controller-manager, which are not in {assets.folder}: "
            "don't ask for it, or unset KUBEBUILDER_ASSETS to use the programs that this package builds"
        )


def _refuse_strangers(folder: Path) -> None:
    """Refuse a folder with files of somebody else under the names that we use (logs of a failed start are ours)."""
    if state.exists(folder):
        return  # claiming it says what is the matter
    strangers = [name for name in Layout.ENTRIES if name != "logs" and (folder / name).exists()]
    if strangers:
        raise LocalPlaneError(
            f"{folder} has {', '.join(strangers)}, but no control plane: name a new or empty folder, or empty this one"
        )


def _choose_ports(options: PlaneOptions) -> Ports:
    fields = [entry.name for entry in dataclasses.fields(Ports)]
    chosen = dict(zip(fields, free_ports(len(fields), avoid=[options.apiserver_port]), strict=True))
    if options.apiserver_port:
        chosen["apiserver"] = options.apiserver_port
    return Ports(**chosen)
