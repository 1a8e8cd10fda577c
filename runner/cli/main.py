"""The console entry point `ansible-operator`: the group of all commands."""

from __future__ import annotations

import click

from runner.cli.commands import LazyCommand, RootGroup
from runner.cli.completion import SHELLS, script
from runner.cli.run import run
from runner.cli.version import version

_NAME = "ansible-operator"
_COMPLETION_HELP = """Print the completion script for SHELL: bash, zsh, fish or powershell.

\b
bash:        source <(ansible-operator completion bash)
zsh:         source <(ansible-operator completion zsh)
fish:        ansible-operator completion fish | source
powershell:  ansible-operator completion powershell |
               Out-String | Invoke-Expression
"""


def _root() -> None:
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cli = RootGroup(
    _NAME,
    callback=_root,
    invoke_without_command=True,
    help="Run Ansible roles and playbooks as a Kubernetes operator.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@cli.command(help=_COMPLETION_HELP, short_help="Print the completion script for your shell")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.pass_context
def completion(context: click.Context, *, shell: str | None) -> None:
    """Print the completion script for *shell*, or how to use one."""
    click.echo(script(cli, name=_NAME, shell=shell) if shell else context.get_help())


@cli.command(name="help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, *, names: tuple[str, ...]) -> None:
    """Print the help of a command."""
    assert context.parent is not None  # noqa: S101 - `help` is a command of the group
    context = context.parent
    for name in names:
        if not isinstance(context.command, click.Group):
            raise click.UsageError(f"{context.command_path} has no commands", context)
        _, command, _ = context.command.resolve_command(context, [name])
        assert command is not None  # noqa: S101 - an unknown name raised
        context = click.Context(command, info_name=name, parent=context)
    click.echo(context.get_help())


cli.add_command(run)
cli.add_command(version)
cli.add_command(
    LazyCommand(
        "migrate",
        target="runner.cli.migrate:migrate",
        short_help="Bring stored objects to the version that their CRD stores today",
    )
)
cli.add_command(
    LazyCommand(
        "dev",
        target="runner.cli.dev:dev",
        short_help="A local control plane for development and tests",
        extra="localdev",
    )
)
cli.add_command(
    LazyCommand(
        "demo",
        target="runner.cli.demo:demo",
        short_help="Show an EC2 instance come to life from a custom resource",
        extra="localdev",
    )
)


def main() -> None:
    """Run the command line of this process."""
    cli.main(prog_name=_NAME)
