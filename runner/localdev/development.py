"""What the `dev` commands do: one control plane per folder, kept running between commands.

`cli.dev` prints and exits; this starts, finds and stops the plane.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runner.errors import LocalPlaneError
from runner.localdev import assets as programs
from runner.localdev import bootstrap, state
from runner.localdev.cache import Report, locked
from runner.localdev.ec2.credentials import client_environment
from runner.localdev.machines.discovery import hashes_of
from runner.localdev.plane import ControlPlane, PlaneOptions
from runner.settings import environment

DEFAULT_NODES = 2


def program() -> str:
    """Return how a person in this folder and shell calls `ansible-operator`."""
    beside = Path(sys.executable).parent / "ansible-operator"
    if shutil.which("ansible-operator") or not beside.exists():
        return "ansible-operator"
    return str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)


def command(name: str, folder: Path) -> str:
    """Return how a person calls the `dev` command *name* for *folder*."""
    named = "" if folder == default_folder(environment()).absolute() else f" --dir {shlex.quote(str(folder))}"
    return f"{program()} dev {name}{named}"


def remedy(folder: Path) -> str:
    """Return what to do where no plane runs in *folder*."""
    return f"start one with `{command('up', folder)}`"


def default_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder below $XDG_STATE_HOME (where that is absolute, as XDG asks), else ~/.local/state."""
    named = Path(environ.get("XDG_STATE_HOME", ""))
    base = named if named.is_absolute() else Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    return base / "ansible-operator-runner" / "dev"


def up(
    folder: Path, *, nodes: int | None, ec2: bool, join_instances: bool | None = None, report: Report
) -> ControlPlane:
    """Start a plane in *folder* unless one runs there.

    Args:
        folder: the plane's.
        nodes: fake nodes; None: two where the programs can simulate nodes.
        ec2: with the EC2 emulator.
        join_instances: with the machines behind its instances; None: where there are nodes and the emulator.
        report: takes lines of progress.

    Raises:
        LocalPlaneError: it can't be started.
    """
    with _only_one(folder, report=report):
        if state.exists(folder):
            plane = ControlPlane.load(folder)
            if plane.running:
                report(f"a control plane is running already in {folder}: {plane.server}")
                return plane
            report(f"removing what is left of a control plane in {folder}")
            plane.stop()
        assets = programs.find(environment(), report=report)
        if nodes is None:
            nodes = 0 if assets.kwok is None or assets.api_only else DEFAULT_NODES
        joins = bool(nodes and ec2) if join_instances is None else join_instances
        options = PlaneOptions(nodes=nodes, ec2=ec2, join_instances=joins)
        return ControlPlane.start(folder=folder, assets=assets, options=options, report=report)


def down(folder: Path, *, report: Report) -> None:
    """Stop the plane in *folder*; say so where there is none."""
    with _only_one(folder, report=report):
        if not state.exists(folder):
            report(f"no control plane in {folder}: nothing to stop")
            return
        ControlPlane.load(folder).stop()
        report(f"control plane in {folder} stopped, its data removed")


def status(folder: Path) -> tuple[bool, list[str]]:
    """Return whether a plane runs in *folder*, and lines about it."""
    if not state.exists(folder):
        return False, [f"no control plane in {folder}: {remedy(folder)}"]
    plane = ControlPlane.load(folder)
    incomplete = f"not complete: stop it with `{command('down', folder)}`"
    lines = [
        f"control plane  {'running' if plane.running else incomplete}",
        f"folder         {folder}",
        f"server         {plane.server}",
        f"kubeconfig     {plane.kubeconfig}",
        f"EC2 emulator   {plane.ec2_endpoint or 'off'}",
        f"instances      {'join as nodes' if plane.options.join_instances else 'do not join as nodes'}",
    ]
    parts = [
        f"  {name:<25}{'running' if alive else 'ended'}  {plane.log(name)}"
        for name, alive in plane.components().items()
    ]
    return plane.running, [*lines, *parts]


def exports(folder: Path) -> list[str]:
    """Return lines for a shell's `eval` that point kubectl, the runtime and AWS clients at the plane.

    Raises:
        LocalPlaneError: no plane runs there.
    """
    plane = _running(folder)
    lines = [
        f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}",
        f'export PATH={shlex.quote(str(plane.assets.folder))}:{shlex.quote(str(Path(sys.executable).parent))}:"$PATH"',
    ]
    if plane.ec2_endpoint:
        values = client_environment(plane.ec2_endpoint)
        lines += [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
        lines.append("unset AWS_PROFILE AWS_SESSION_TOKEN")  # no real account by accident
    return lines


def token(folder: Path, *, join_command: bool) -> str:
    """Return a new bootstrap token that machines can join the plane with, for a day, or the whole command to join.

    Raises:
        LocalPlaneError: no plane runs there.
    """
    plane = _running(folder)
    made = bootstrap.new_token(plane.admin()).text
    if not join_command:
        return made
    pins = " ".join(f"--discovery-token-ca-cert-hash {pin}" for pin in hashes_of(plane.authority.read_text()))
    return f"kubeadm join {plane.server.removeprefix('https://')} --token {made} {pins}"


def kubectl(folder: Path, *, arguments: Sequence[str]) -> int:
    """Run kubectl against the plane with the terminal's own streams; return its exit code.

    Raises:
        LocalPlaneError: no plane runs there, or its programs have no kubectl.
    """
    plane = _running(folder)
    program = plane.assets.kubectl
    if program is None:
        raise LocalPlaneError(
            f"{plane.assets.folder} has no kubectl: put one there, or use your own with KUBECONFIG={plane.kubeconfig}"
        )
    environ = {**environment(), "KUBECONFIG": str(plane.kubeconfig)}
    return subprocess.run([str(program), *arguments], env=environ, check=False).returncode


def _running(folder: Path) -> ControlPlane:
    if not state.exists(folder):
        raise LocalPlaneError(f"no control plane in {folder}: {remedy(folder)}")
    plane = ControlPlane.load(folder)
    if not plane.running:
        ended = ", ".join(name for name, alive in plane.components().items() if not alive)
        raise LocalPlaneError(
            f"the control plane in {folder} is not running ({ended or 'its start was not finished'}): {remedy(folder)}"
        )
    return plane


@contextlib.contextmanager
def _only_one(folder: Path, *, report: Report) -> Iterator[None]:
    """Let one `up` or `down` at a time work on *folder*."""
    with locked(folder.parent / f".{folder.name}.lock", waiting=f"another command works on {folder}", report=report):
        yield
