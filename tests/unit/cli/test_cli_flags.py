"""Every flag of the peer's `run`, with its name and default, and our own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
import pytest

from runner.cli.flags import FLAGS, GROUPS
from runner.cli.run import run
from runner.cli.values import BOOLEAN

WORKERS = object()
PEER: dict[str, Any] = {
    "watches-file": "./watches.yaml",
    "inject-owner-ref": True,
    "ansible-verbosity": 2,
    "ansible-roles-path": "",
    "ansible-collections-path": "",
    "ansible-args": "",
    "reconcile-period": timedelta(hours=10),
    "max-concurrent-reconciles": WORKERS,
    "metrics-bind-address": ":8443",
    "metrics-addr": ":8443",
    "health-probe-bind-address": ":6789",
    "leader-elect": False,
    "enable-leader-election": False,
    "leader-election-id": "",
    "leader-election-namespace": "",
    "leader-elect-resource-lock": "configmapsleases",
    "leader-elect-lease-duration": timedelta(seconds=15),
    "leader-elect-renew-deadline": timedelta(seconds=10),
    "graceful-shutdown-timeout": timedelta(seconds=30),
    "ansible-log-events": "tasks",
    "proxy-port": 8888,
    "enable-http2": False,
    "metrics-secure": False,
    "metrics-require-rbac": False,
    "zap-devel": False,
    "zap-encoder": None,
    "zap-log-level": None,
    "zap-stacktrace-level": None,
    "zap-time-encoding": None,
}
OURS: dict[str, Any] = {
    "config": "",
    "executor": "warm",
    "max-running-plays": 0,
    "min-free-memory": 64 * 1024 * 1024,
    "ansible-python": "",
    "cluster-id": "",
    "user-metrics-bind-address": "localhost:5050",
    "webhook-bind-address": ":9443",
    "webhook-service": "",
    "webhook-configuration": "",
}


def parse(*arguments: str) -> dict[str, Any]:
    """Return what `run` makes of *arguments*, by flag name."""
    context = run.make_context("run", list(arguments))
    return {flag.name: context.params[flag.parameter] for flag in FLAGS}


def refusal(*arguments: str) -> str:
    """Return what `run` says when it refuses *arguments*."""
    with pytest.raises(click.UsageError) as caught:
        parse(*arguments)
    assert caught.value.ctx is not None
    return caught.value.format_message()


def test_the_flags_are_the_peers_and_a_few_of_ours() -> None:
    """No flag of the contract is missing, and none is there that nobody documented."""
    assert {flag.name for flag in FLAGS} == PEER.keys() | OURS.keys()


@pytest.mark.parametrize(("name", "default"), (PEER | OURS).items())
def test_a_flag_that_is_not_given_has_its_documented_default(name: str, default: object) -> None:
    """The defaults of the contract, section 2.2."""
    value = parse()[name]

    if default is WORKERS:
        assert value >= 1
    else:
        assert value == default


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.kind is not BOOLEAN], ids=lambda flag: flag.name)
def test_a_value_may_stand_behind_a_space_or_an_equals_sign(flag: Any) -> None:
    """Both spellings of pflag mean the same, and the last one counts."""
    samples = {
        "INT": "3",
        "DURATION": "7s",
        "PORT": "1",
        "ADDRESS": ":1",
        "STRING": "x",
        "PATH": "x",
        "QUANTITY": "1Gi",
    }
    text = next((choice for choice in reversed(flag.kind.choices)), "") or samples[flag.kind.name]

    spaced = parse(f"--{flag.name}", text)[flag.name]

    assert spaced == parse(f"--{flag.name}={text}")[flag.name] == flag.kind.parse(text)
    assert spaced != parse()[flag.name]


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.kind is BOOLEAN], ids=lambda flag: flag.name)
def test_a_boolean_takes_its_value_only_behind_an_equals_sign(flag: Any) -> None:
    """`--flag` is true, and what follows it is a positional argument, even `false`."""
    name = f"--{flag.name}"

    assert parse(name)[flag.name] is True
    assert parse(name, "false")[flag.name] is True
    for text in ("1", "t", "T", "TRUE", "true", "True"):
        assert parse(f"{name}={text}")[flag.name] is True
    for text in ("0", "f", "F", "FALSE", "false", "False"):
        assert parse(f"{name}={text}")[flag.name] is False


def test_a_valued_flag_takes_whatever_follows() -> None:
    """A value may look like a flag, as Ansible's arguments do."""
    values = parse("--ansible-args", "--leader-elect")

    assert values["ansible-args"] == "--leader-elect"
    assert values["leader-elect"] is False


def test_positional_arguments_are_ignored_wherever_they_stand() -> None:
    """Also behind `--`, where flags are positional arguments too."""
    values = parse("start", "--ansible-verbosity=3", "more", "--", "--leader-elect")

    assert values["ansible-verbosity"] == 3
    assert values["leader-elect"] is False


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--reconcile-period=xx"],
            'invalid argument "xx" for "--reconcile-period" flag: time: invalid duration "xx"',
        ),
        (
            ["--reconcile-period", "5"],
            'invalid argument "5" for "--reconcile-period" flag: time: missing unit in duration "5"',
        ),
        (
            ["--ansible-verbosity=x"],
            'invalid argument "x" for "--ansible-verbosity" flag: not a whole number; write one such as 8',
        ),
        (
            ["--ansible-verbosity= 1"],
            'invalid argument " 1" for "--ansible-verbosity" flag: not a whole number; write one such as 8',
        ),
        (
            ["--ansible-verbosity=1__0"],
            'invalid argument "1__0" for "--ansible-verbosity" flag: not a whole number; write one such as 8',
        ),
        *(
            (
                [f"--ansible-verbosity={number}"],
                (
                    f'invalid argument "{number}" for "--ansible-verbosity" flag: '
                    "value out of range: it doesn't fit in 64 bits"
                ),
            )
            for number in ("9" * 20, "9" * 5000, "9223372036854775808", "-9223372036854775809", f"0x{'f' * 16}")
        ),
        (
            ["--leader-elect=maybe"],
            'invalid argument "maybe" for "--leader-elect" flag: not a boolean; write true or false',
        ),
        (
            ["--leader-elect="],
            'invalid argument "" for "--leader-elect" flag: not a boolean; write true or false',
        ),
        (
            ["--proxy-port=65536"],
            'invalid argument "65536" for "--proxy-port" flag: not a port; write a number from 0 to 65535',
        ),
        (
            ["--health-probe-bind-address=6789"],
            (
                'invalid argument "6789" for "--health-probe-bind-address" flag: '
                "no port in it; write host:port, :port, or 0 to switch it off"
            ),
        ),
        (
            ["--metrics-bind-address=:65536"],
            'invalid argument ":65536" for "--metrics-bind-address" flag: the port is above 65535',
        ),
        (
            ["--executor=hot"],
            'invalid argument "hot" for "--executor" flag: unknown; write one of warm, cold',
        ),
        (
            ["--max-running-plays=-1"],
            'invalid argument "-1" for "--max-running-plays" flag: must not be negative; 0 is no limit',
        ),
        (
            ["--min-free-memory=64MB"],
            (
                'invalid argument "64MB" for "--min-free-memory" flag: '
                "not a quantity; write bytes as in 256Mi, 1.5Gi or 500M, or 0 to switch it off"
            ),
        ),
        (
            ["--min-free-memory=8Ei"],
            ('invalid argument "8Ei" for "--min-free-memory" flag: value out of range: it doesn\'t fit in 64 bits'),
        ),
        (
            ["--zap-log-level=0"],
            (
                'invalid argument "0" for "--zap-log-level" flag: '
                'invalid log level "0"; write debug, info, error or a number above 0'
            ),
        ),
        (
            ["--zap-encoder=xml"],
            'invalid argument "xml" for "--zap-encoder" flag: unknown; write one of json, console',
        ),
        (["--ansible-verbosity"], "Option '--ansible-verbosity' requires an argument."),
    ],
)
def test_a_wrong_flag_is_refused_with_its_name(arguments: list[str], sentence: str) -> None:
    """One sentence that names the flag, what is wrong, and what would be right."""
    assert refusal(*arguments) == sentence


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x10", 16), ("010", 8), ("0o10", 8), ("0b11", 3), ("+3", 3), ("-3", -3), ("0", 0), ("1_000", 1000),
        ("0x_1_0", 16), ("0_10", 8), ("9_223_372_036_854_775_807", 2**63 - 1), ("-9223372036854775808", -(2**63)),
    ],
)  # fmt: skip
def test_whole_numbers_may_be_written_as_in_go(text: str, value: int) -> None:
    """Pflag reads hexadecimal, octal and binary, and underscores between digits."""
    assert parse(f"--ansible-verbosity={text}")["ansible-verbosity"] == value


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("debug", "debug"),
        ("INFO", "info"),
        ("error", "error"),
        ("panic", "error"),
        ("1", "1"),
        ("+012", "12"),
        ("999", "127"),
    ],
)
def test_zaps_levels_become_ours(text: str, level: str) -> None:
    """Numbers above 0 ask for more and more output; nothing hides errors."""
    assert parse(f"--zap-log-level={text}")["zap-log-level"] == level


def test_addresses_may_switch_a_server_off() -> None:
    """`0` and nothing are addresses too."""
    assert parse("--metrics-bind-address=0")["metrics-bind-address"] == "0"
    assert parse("--health-probe-bind-address=")["health-probe-bind-address"] == ""
    assert parse("--metrics-bind-address=[::1]:8080")["metrics-bind-address"] == "[::1]:8080"


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--ansible-verbosity=1", "--ansible-verbosity=3"], "ansible-verbosity", 3),
        (["--leader-elect", "--leader-elect=false"], "leader-elect", False),
        (["--leader-elect=false", "--leader-elect"], "leader-elect", True),
        (["--watches-file=a", "--watches-file", "b"], "watches-file", "b"),
        (["--reconcile-period=1h", "start", "--reconcile-period=1.5h"], "reconcile-period", timedelta(minutes=90)),
        (["--zap-encoder=json", "--zap-encoder=CONSOLE"], "zap-encoder", "console"),
    ],
)
def test_a_later_flag_wins(arguments: list[str], name: str, value: object) -> None:
    """As in pflag, so that who adds a flag at the end of a manifest's list changes it."""
    assert parse(*arguments)[name] == value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300ms", 0.3), ("1h2m4s", 3724), ("1.5h", 5400), ("0", 0), ("0s", 0), ("-1s", -1), ("+2m", 120), ("50us", 5e-5)],
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    """Units may be mixed and have fractions."""
    assert parse(f"--reconcile-period={text}")["reconcile-period"] == timedelta(seconds=seconds)


def test_every_flag_stands_below_one_heading() -> None:
    """The help text shows each of them once."""
    names = [flag.name for flag in FLAGS]

    assert list(GROUPS) == ["Ansible", "Controllers", "Leader election", "Serving", "Logging"]
    assert sorted(names) == sorted(set(names))
    assert all(flag.help.endswith(".") for flag in FLAGS)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("1", 1), ("64Mi", 64 * 2**20), ("1.5Gi", 3 * 2**29), (".5Ki", 512), ("1.Ki", 1024), ("+2k", 2000),
        ("500M", 500_000_000), ("1e9", 10**9), ("1E3", 1000), ("1E", 10**18), ("1500m", 2), ("1e-1", 1),
        ("7Ei", 7 * 2**60),
    ],
)  # fmt: skip
def test_memory_is_given_as_in_manifests(text: str, size: int) -> None:
    """A Kubernetes quantity in each of its spellings; a broken number of bytes is rounded up."""
    assert parse(f"--min-free-memory={text}")["min-free-memory"] == size
