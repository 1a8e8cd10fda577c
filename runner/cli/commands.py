"""Click's commands with the manners of cobra and pflag, which the peer's users and manifests know.

Errors are one sentence, the usage and exit code 1; a boolean flag takes its value only behind `=`. A `LazyCommand`
is imported when it is used, so that `run` does not pay for the developer's tools nor need their dependencies.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from runner.cli.flags import GROUPS, Flag
from runner.cli.values import BOOLEAN, Kind


class FlagType(click.ParamType[Any]):
    """The type of one flag: the parser of its kind, and pflag's sentence where that refuses."""

    def __init__(self, flag: Flag) -> None:
        """Parse values of *flag*."""
        self.name = flag.kind.name
        self._flag = flag
        self._kind: Kind = flag.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: PLR0917
        """Return the parsed *value*; no flag given at all stays None."""
        del param
        try:
            return self._kind.parse(str(value))
        except ValueError as error:
            text = f'invalid argument "{value}" for "--{self._flag.name}" flag: {error}'
            raise click.UsageError(text, ctx) from error

    def shell_complete(  # noqa: PLR0917 - click's signature
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the values that begin with *incomplete*, or that files do."""
        del ctx, param
        if self._kind.is_path:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(value) for value in self._kind.choices if value.startswith(incomplete.lower())]


def option(flag: Flag) -> click.Option:
    """Return the click option for *flag*."""
    return click.Option(
        [flag.parameter, f"--{flag.name}"],
        type=FlagType(flag),
        default=flag.default or ("" if flag.kind.parse is str else None),
        metavar=flag.kind.name,
        help=flag.help if flag.works or flag.help.startswith("Ignored") else f"{flag.help} (no effect in this version)",
        hidden=bool(flag.deprecated),
        show_default=flag.shown_default or bool(flag.default),
    )


class PflagCommand(click.Command):
    """A command whose arguments are read as pflag reads them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write `--flag` of a boolean as `--flag=true`, so that it never takes the next argument as its value."""
        try:
            return super().parse_args(ctx, self._with_values(args))
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click forgets it for a flag without its value
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags below their headings, so that a person finds one."""
        by_name = {param.name: param for param in self.get_params(ctx)}
        for heading, flags in GROUPS.items():
            shown = [by_name.pop(flag.parameter, None) for flag in flags]
            _write_options(heading, [param for param in shown if isinstance(param, click.Option)], formatter=formatter)
        _write_options(
            "Other", [param for param in by_name.values() if isinstance(param, click.Option)], formatter=formatter
        )

    def _with_values(self, args: Sequence[str]) -> list[str]:
        valued = {name for option in self._options() if option.metavar != BOOLEAN.name for name in option.opts}
        booleans = {name for option in self._options() if option.metavar == BOOLEAN.name for name in option.opts}
        written: list[str] = []
        rest = iter(args)
        for argument in rest:
            written.append(f"{argument}=true" if argument in booleans else argument)
            if argument == "--":
                written += rest
            elif argument in valued:
                written += [value for value in [next(rest, None)] if value is not None]
        return written

    def _options(self) -> list[click.Option]:
        return [param for param in self.params if isinstance(param, click.Option)]


def _sentence(error: click.UsageError) -> str:
    """Return what is wrong, of an unknown flag in pflag's words."""
    if not isinstance(error, click.NoSuchOption):
        return error.format_message()
    name = error.option_name
    known = f"; did you mean {' or '.join(sorted(error.possibilities))}?" if error.possibilities else ""
    return f"unknown flag: {name}{known}" if name.startswith("--") else f"unknown shorthand flag: '{name.lstrip('-')}'"


def _write_options(heading: str, options: Sequence[click.Option], *, formatter: click.HelpFormatter) -> None:
    rows = [_row(option) for option in options if not option.hidden]
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows)


def _row(option: click.Option) -> tuple[str, str]:
    """Return a flag with its value as a person types them, and its help with its default."""
    names, is_boolean = ", ".join(option.opts), option.metavar == BOOLEAN.name
    name = f"{names}{option.metavar}" if is_boolean else f"{names} {option.metavar or ''}".rstrip()
    default = option.show_default if isinstance(option.show_default, str) else option.default
    return name, f"{option.help or ''}{f' [default: {default}]' if option.show_default else ''}"


class LazyCommand(click.Command):
    """A stand-in with a name and one line of help, until `load` imports the real command."""

    def __init__(self, name: str, *, target: str, short_help: str, extra: str = "") -> None:
        """Import *target* (`module:attribute`) when used; *extra* is the part of our distribution that it needs."""
        super().__init__(name, short_help=short_help, help=short_help)
        self._target = target
        self._extra = extra

    def load(self) -> click.Command:
        """Return the real command.

        Raises:
            ClickException: a package that it needs is not installed; the text says how to get it.
        """
        module, _, attribute = self._target.partition(":")
        try:
            command: click.Command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name and module.startswith(error.name):
                raise click.ClickException(f"{self.name} is not part of this installation") from error
            extra = f"[{self._extra}]" if self._extra else ""
            raise click.ClickException(
                f"{self.name} needs the Python package {error.name}, which is not installed; "
                f"install it with: pip install 'ansible-operator-runner{extra}'"
            ) from error
        return command


class RootGroup(click.Group):
    """The group of all commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that *args* begin with, and import it if it is lazy."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run and exit; an error becomes one sentence and the usage on standard error, and exit code 1."""
        extra["standalone_mode"] = False
        try:
            result = super().main(*args, **extra)
        except click.UsageError as error:
            click.echo(f"Error: {_sentence(error)}", err=True)
            if error.ctx is not None:
                click.echo(error.ctx.get_usage(), err=True)
                click.echo(f"Run '{error.ctx.command_path} --help' for the flags.", err=True)
        except click.ClickException as error:
            click.echo(f"Error: {error.format_message()}", err=True)
        except click.Abort:
            click.echo("Interrupted.", err=True)
        else:
            sys.exit(result if isinstance(result, int) else 0)
        sys.exit(1)
