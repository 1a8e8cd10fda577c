"""`ansible-operator run`: flags to settings, settings to `runner.assembly.serve`, its errors to log records."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, Protocol

import click

from runner.cli.commands import PflagCommand, option
from runner.cli.configure import Note, configure
from runner.cli.flags import FLAGS
from runner.cli.version import facts
from runner.errors import ConfigError, OperatorError
from runner.logs import SINKS, Logger, records_of_libraries
from runner.settings import Settings, environment
from runner.watches.problems import WatchesError, WatchesFileError


class Serve(Protocol):
    """The operator, once its settings are known: `runner.assembly.serve`."""

    def __call__(self, *, settings: Settings, logger: Logger) -> Awaitable[int]:
        """Run until told to stop, and return the exit code."""
        ...


def launch(serve: Serve, *, settings: Settings, notes: Sequence[Note], logger: Logger) -> int:
    """Log version and *notes*, run *serve*, and return the exit code; an error of ours becomes a log record and 1."""
    known = facts()
    logger.info(
        "Version",
        **{
            "Python Version": known["python version"],
            "GOOS": known["GOOS"],
            "GOARCH": known["GOARCH"],
            "ansible-operator": known["ansible-operator version"],
            "commit": known["commit"],
        },
    )
    for note in notes:
        note.log(logger)
    try:
        with records_of_libraries(logger):
            return asyncio.run(_serve(serve, settings=settings, logger=logger))
    except OperatorError as error:
        logger.error(_sentence(error), error=error)
    except BaseExceptionGroup as group:
        ours, others = group.split(OperatorError)
        for leaf in _leaves(ours):
            logger.error(_sentence(leaf), error=leaf)
        if others is not None:
            raise others from None
    return 1


def logger_for(settings: Settings) -> Logger:
    """Return the operator's logger, as the flags of zap shape it."""
    form = settings.log_format
    return Logger(
        "cmd",
        level=settings.log_level,
        sink=SINKS[form.encoder],
        stacktrace_level=form.stacktrace_level,
        time_encoding=form.time_encoding,
    )


async def _serve(serve: Serve, *, settings: Settings, logger: Logger) -> int:
    return await serve(settings=settings, logger=logger)


def _sentence(error: BaseException) -> str:
    """Return the peer's sentence for this kind of error."""
    match error:
        case WatchesFileError():
            return "Failed to get config file"
        case WatchesError():
            return "Failed to load watches."
        case ConfigError():
            return "Failed to start."
    return "Proxy or operator exited with error."


def _leaves(error: BaseException | None) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    elif error is not None:
        yield error


def _run(**parameters: Any) -> int:
    context = click.get_current_context()
    source = click.core.ParameterSource.COMMANDLINE
    given = {flag.name for flag in FLAGS if context.get_parameter_source(flag.parameter) is source}
    for flag in FLAGS:
        if flag.deprecated and flag.name in given:
            click.echo(f"Flag --{flag.name} has been deprecated, {flag.deprecated}", err=True)
    values = {flag.name: parameters[flag.parameter] for flag in FLAGS}
    try:
        configured = configure(values, given=given, environ=environment())
    except ConfigError as error:
        raise click.UsageError(str(error), context) from error
    logger = logger_for(configured.settings)
    with _signals_wait():
        from runner.assembly import serve  # noqa: PLC0415 - the other commands need none of it

        return launch(serve, settings=configured.settings, notes=configured.notes, logger=logger)


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Keep SIGTERM and SIGINT waiting until `serve` listens: they would kill, or do nothing to a pod's process 1."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


run = PflagCommand(
    "run",
    callback=_run,
    params=[*(option(flag) for flag in FLAGS), click.Argument(["ignored"], nargs=-1, type=click.UNPROCESSED)],
    help="Run the operator of the watches file. Positional arguments are ignored.",
    short_help="Run the operator",
    context_settings={"help_option_names": ["-h", "--help"]},
)
