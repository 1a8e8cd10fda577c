"""`ansible-operator run` around the operator: what it logs, what it returns, what it refuses."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
from click.testing import CliRunner

from runner.cli.configure import Note
from runner.cli.main import cli
from runner.cli.run import launch, logger_for
from runner.errors import ConfigError, ExecutionError, LocalPlaneError
from runner.logs import Logger, RecordingSink
from runner.settings import LogSettings, Settings
from runner.watches.problems import WatchesError, WatchesFileError

Serve = Callable[..., Awaitable[int]]


def ends_with(result: int) -> Serve:
    """Return an operator that ends at once with *result*."""

    async def serve(*, settings: Settings, logger: Logger) -> int:
        logger.info("serving", file=str(settings.watches_file))
        return result

    return serve


def fails_with(error: BaseException) -> Serve:
    """Return an operator that raises *error*."""

    async def serve(*, settings: Settings, logger: Logger) -> int:
        del settings, logger
        raise error

    return serve


def launched(serve: Serve, *, notes: tuple[Note, ...] = ()) -> tuple[int, RecordingSink]:
    """Run *serve* and return the exit code and what was logged."""
    sink = RecordingSink()
    code = launch(serve, settings=Settings(), notes=notes, logger=Logger("cmd", sink=sink))
    return code, sink


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_operators_exit_code_is_the_commands(code: int) -> None:
    """`serve` decides; the version and the notes are logged before it starts."""
    result, sink = launched(ends_with(code), notes=(Note(sentence="noted"),))

    assert result == code
    assert sink.sentences() == ["Version", "noted", "serving"]
    keys = ["Python Version", "GOOS", "GOARCH", "ansible-operator", "commit"]
    assert list(sink.records[0]) == ["level", "ts", "logger", "msg", *keys]


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        (LogSettings(), r'\{"level":"error","ts":"[0-9T:-]+Z","logger":"cmd","msg":"m","k":1\}\n'),
        (LogSettings(stacktrace_level="error"), r'\{"level":"error",.+"msg":"m","k":1,"stacktrace":".+"\}\n'),
        (
            LogSettings(encoder="console", time_encoding="nano", stacktrace_level="panic"),
            r'\d{19}\tERROR\tcmd\tm\t\{"k": 1\}\n',
        ),
    ],
)
def test_the_logger_is_as_the_settings_say(form: LogSettings, pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Format, time and stack; the level keeps the rest away."""
    logger = logger_for(Settings(log_level="error", log_format=form))
    logger.info("quiet")
    logger.error("m", k=1)

    assert re.fullmatch(pattern, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (WatchesFileError("watches.yaml: cannot be read"), "Failed to get config file"),
        (WatchesError("watches.yaml, line 3: wrong"), "Failed to load watches."),
        (ConfigError("no kubeconfig"), "Failed to start."),
        (ExecutionError("no ansible"), "Proxy or operator exited with error."),
        (LocalPlaneError("gone"), "Proxy or operator exited with error."),
    ],
)
def test_an_error_of_ours_becomes_one_record_and_exit_code_1(error: Exception, sentence: str) -> None:
    """The peer's sentence, with the error's text under `error`; never a traceback."""
    code, sink = launched(fails_with(error))

    assert code == 1
    record = sink.records[-1]
    assert (record["level"], record["msg"], str(record["error"])) == ("error", sentence, str(error))


def test_errors_of_several_tasks_become_a_record_each() -> None:
    """A task group raises them together, in groups of groups."""
    group = ExceptionGroup("tasks", [ConfigError("a"), ExceptionGroup("more", [WatchesError("b")])])
    code, sink = launched(fails_with(group))

    assert code == 1
    assert [(record["msg"], str(record["error"])) for record in sink.records[1:]] == [
        ("Failed to start.", "a"),
        ("Failed to load watches.", "b"),
    ]


def test_an_error_that_is_not_ours_is_not_hidden() -> None:
    """A fault in the program shows its traceback, alone or beside an error of ours."""
    with pytest.raises(ZeroDivisionError):
        launched(fails_with(ZeroDivisionError()))
    with pytest.raises(ExceptionGroup) as caught:
        launched(fails_with(ExceptionGroup("tasks", [ConfigError("a"), ZeroDivisionError()])))
    assert caught.group_contains(ZeroDivisionError)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--reconcile-period=1d"], "time: unknown unit"),
        (["--leader-elect", "--enable-leader-election"], "only one of --leader-elect and --enable-leader-election"),
        (["--metrics-require-rbac"], "--metrics-require-rbac needs --metrics-secure"),
        (["--gone"], "Error: unknown flag: --gone"),
        (["--watches=x"], "Error: unknown flag: --watches; did you mean --watches-file?"),
        (["-x"], "Error: unknown shorthand flag: 'x'"),
        (["--ansible-verbosity"], "Option '--ansible-verbosity' requires an argument."),
    ],
)
def test_a_wrong_command_line_ends_with_a_sentence_the_usage_and_1(arguments: list[str], sentence: str) -> None:
    """All on standard error, nothing on standard output, and nothing starts."""
    result = CliRunner().invoke(cli, ["run", *arguments], prog_name="ansible-operator")

    assert result.exit_code == 1
    assert result.stdout == ""
    error, usage, *_ = result.stderr.splitlines()[-3:]
    assert error.startswith("Error: ")
    assert sentence in error
    assert usage == "Usage: ansible-operator run [OPTIONS] [IGNORED]..."


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("--metrics-addr=:1", "Flag --metrics-addr has been deprecated, use --metrics-bind-address instead"),
        (
            "--enable-leader-election=false",
            "Flag --enable-leader-election has been deprecated, use --leader-elect instead",
        ),
        (
            "--leader-elect-resource-lock=leases",
            (
                "Flag --leader-elect-resource-lock has been deprecated, This flag is now hardcoded to 'leases', "
                "which is the only supported option by client-go"
            ),
        ),
    ],
)
def test_a_deprecated_flag_prints_the_peers_line(flag: str, line: str) -> None:
    """On standard error, ahead of anything else."""
    result = CliRunner().invoke(cli, ["run", flag, "--metrics-require-rbac"])

    assert result.stderr.splitlines()[0] == line
