"""`ansible-operator dev`: a real Kubernetes with fake nodes and an EC2 emulator on this machine, for development."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from runner.errors import OperatorError
from runner.localdev import development
from runner.settings import environment


class _Commands(click.Group):
    """A group whose commands' own errors are printed as one message, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn an error of ours into click's."""
        try:
            return super().invoke(ctx)
        except OperatorError as error:
            raise click.ClickException(str(error)) from error


def _folder(_ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> Path:
    return (value or development.default_folder(environment())).absolute()


_dir = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    callback=_folder,
    help="The control plane's folder. [default: ansible-operator-runner/dev in $XDG_STATE_HOME or ~/.local/state]",
)


def _report(line: str) -> None:
    click.echo(line, err=True)


@click.group(cls=_Commands)
def dev() -> None:
    """Run a local control plane: etcd, Kubernetes, fake nodes and an EC2 emulator."""


@dev.command()
@_dir
@click.option("--nodes", type=click.IntRange(min=0), help="Fake nodes to start with. [default: 2]")
@click.option("--ec2/--no-ec2", default=True, show_default=True, help="Start the EC2 emulator.")
@click.option(
    "--join-instances/--no-join-instances",
    default=None,
    help="Let instances of the emulator boot by their user data and join as nodes. "
    "[default: where there are nodes and the emulator]",
)
def up(folder: Path, nodes: int | None, *, ec2: bool, join_instances: bool | None) -> None:
    """Start the control plane and return when it is ready."""
    plane = development.up(folder, nodes=nodes, ec2=ec2, join_instances=join_instances, report=_report)
    click.echo(f"KUBECONFIG={plane.kubeconfig}")
    _report(f'use it in this shell: eval "$({development.command("env", folder)})"')


@dev.command()
@_dir
def down(folder: Path) -> None:
    """Stop the control plane and remove its data."""
    development.down(folder, report=_report)


@dev.command()
@_dir
def status(folder: Path) -> None:
    """Show what runs; exit code 1 where no complete control plane runs."""
    running, lines = development.status(folder)
    click.echo("\n".join(lines))
    sys.exit(0 if running else 1)


@dev.command()
@_dir
def env(folder: Path) -> None:
    """Print exports for a shell: eval "$(ansible-operator dev env)"."""
    click.echo("\n".join(development.exports(folder)))


@dev.command()
@_dir
@click.option("--print-join-command", "join_command", is_flag=True, help="Print the whole `kubeadm join` with it.")
def token(folder: Path, *, join_command: bool) -> None:
    """Print a new bootstrap token, for machines that join; it is good for a day."""
    click.echo(development.token(folder, join_command=join_command))


@dev.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@_dir
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(folder: Path, arguments: tuple[str, ...]) -> None:
    """Run kubectl against the control plane; everything but a leading --dir is passed on."""
    sys.exit(development.kubectl(folder, arguments=arguments))
