"""Flags and environment to settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from runner.cli.configure import Configured, Note, configure
from runner.cli.flags import FLAGS
from runner.cli.run import run
from runner.cli.values import STRING
from runner.cli.version import facts
from runner.errors import ConfigError
from runner.logs import Logger, RecordingSink
from runner.settings import ExecutionSettings, KubeSettings, LogSettings, Settings

EVERYWHERE = Note(sentence="Watching all namespaces")


def configured(*arguments: str, environ: Mapping[str, str] | None = None) -> Configured:
    """Return what *arguments* and *environ* make."""
    context = run.make_context("run", list(arguments))
    source = click.core.ParameterSource.COMMANDLINE
    values: dict[str, Any] = {flag.name: context.params[flag.parameter] for flag in FLAGS}
    given = {flag.name for flag in FLAGS if context.get_parameter_source(flag.parameter) is source}
    return configure(values, given=given, environ=environ or {})


def settings(*arguments: str, environ: Mapping[str, str] | None = None) -> Settings:
    """Return only the settings."""
    return configured(*arguments, environ=environ).settings


def notes(*arguments: str, environ: Mapping[str, str] | None = None) -> list[Note]:
    """Return the notes, without the one about all namespaces."""
    return [note for note in configured(*arguments, environ=environ).notes if note != EVERYWHERE]


def refusal(*arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Return what is said when *arguments* and *environ* do not go together."""
    with pytest.raises(ConfigError) as caught:
        configured(*arguments, environ=environ)
    return str(caught.value)


def test_the_temporary_folder_keeps_operators_apart() -> None:
    """TMPDIR is where the run folders are, so that two operators on one machine don't share them."""
    made = settings(environ={"TMPDIR": "/var/scratch"})
    assert made.execution.runner_dir == Path("/var/scratch/ansible-operator/runner")


def test_no_flag_and_no_variable_make_the_default_settings() -> None:
    """The defaults of the flags and of the settings are the same, and nothing is noted but the namespaces."""
    assert configured() == Configured(settings=Settings(commit=facts()["commit"]), notes=(EVERYWHERE,))


def test_each_flag_reaches_its_setting() -> None:
    """All flags that change something, at once."""
    made = settings(
        "--watches-file=w.yaml",
        "--reconcile-period=5m",
        "--max-concurrent-reconciles=3",
        "--ansible-verbosity=4",
        "--graceful-shutdown-timeout=1m",
        "--ansible-log-events=Everything",
        "--cluster-id=east",
        "--ansible-args='--check'",
        "--ansible-roles-path=/r",
        "--ansible-collections-path=/c",
        "--ansible-python=/usr/bin/python3",
        "--executor=cold",
        "--max-running-plays=5",
        "--min-free-memory=1.5Gi",
        "--health-probe-bind-address=:1",
        "--metrics-bind-address=:2",
        "--metrics-secure",
        "--metrics-require-rbac",
        "--enable-http2",
        "--proxy-port=3",
        "--inject-owner-ref=false",
        "--leader-elect",
        "--leader-election-id=id",
        "--leader-election-namespace=ns",
        "--leader-elect-lease-duration=20s",
        "--leader-elect-renew-deadline=12s",
        "--zap-log-level=2",
    )

    assert made.watches_file == Path("w.yaml")
    assert made.reconcile_period == timedelta(minutes=5)
    assert (made.max_concurrent_reconciles, made.ansible_verbosity) == (3, 4)
    assert made.graceful_shutdown_timeout == 60
    assert (made.ansible_log_events, made.log_level) == ("everything", "2")
    assert made.execution == ExecutionSettings(
        cluster_id="east",
        ansible_args="'--check'",
        roles_path="/r",
        collections_path="/c",
        ansible_python="/usr/bin/python3",
        executor="cold",
        max_running_plays=5,
        min_free_memory=1536 * 1024 * 1024,
    )
    serving = made.serving
    assert (serving.health_probe_bind_address, serving.metrics_bind_address) == (":1", ":2")
    assert (serving.metrics_secure, serving.metrics_require_rbac, serving.enable_http2) == (True, True, True)
    assert (made.proxy.port, made.proxy.inject_owner_references) == (3, False)
    election = made.leader_election
    assert (election.enabled, election.id, election.namespace) == (True, "id", "ns")
    assert (election.lease_duration, election.renew_deadline) == (20.0, 12.0)


def test_the_flags_of_webhooks_reach_their_settings() -> None:
    """Their certificate is looked for where controller-runtime does it."""
    given = ("--webhook-bind-address=:1", "--webhook-service=prod/hooks", "--webhook-configuration=my.example.com")
    handlers = settings(*given).handlers
    assert (handlers.webhook_bind_address, handlers.webhook_service) == (":1", "prod/hooks")
    assert handlers.webhook_configuration == "my.example.com"
    assert settings(environ={"TMPDIR": "/t"}).handlers.webhook_cert_dir == Path("/t/k8s-webhook-server/serving-certs")


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--webhook-service=hooks", '--webhook-service: "hooks" names no Service; write NAMESPACE/NAME'),
        ("--webhook-service=a/b/c", '--webhook-service: "a/b/c" names no Service'),
        ("--webhook-service=Prod/hooks", '--webhook-service: "Prod/hooks" names no Service'),
        ("--webhook-configuration=A_B", '--webhook-configuration: "A_B" cannot be the name of an object'),
    ],
)
def test_a_wrong_flag_of_webhooks_is_refused(flag: str, sentence: str) -> None:
    """It is said at the start, not by the API server later."""
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        settings(flag)


def test_the_environment_is_handed_on_whole() -> None:
    """Runs inherit it, and the client reads KUBECONFIG."""
    environ = {"KUBECONFIG": "/a:/b", "FOO": "bar"}
    made = settings(environ=environ)

    assert made.kube == KubeSettings(kubeconfig="/a:/b")
    assert made.execution.environ == environ


@pytest.mark.parametrize(
    ("text", "namespaces"),
    [
        ("", ()),
        (" , ,", ()),
        ("ns1", ("ns1",)),
        ("ns1, ns2,,", ("ns1", "ns2")),
        ("ns2,ns1,ns2", ("ns2", "ns1")),
    ],
)
def test_watch_namespace_is_a_list_with_blanks_dropped(text: str, namespaces: tuple[str, ...]) -> None:
    """Empty means all namespaces (field case W4); the log says which."""
    made = configured(environ={"WATCH_NAMESPACE": text})

    assert made.settings.namespaces == namespaces
    named = Note(sentence="Watching namespaces", keys={"namespaces": list(namespaces)})
    assert made.notes == ((named,) if namespaces else (EVERYWHERE,))


def test_what_cannot_be_a_namespace_is_refused() -> None:
    """The sentence names the variable, the wrong name and the right form."""
    assert refusal(environ={"WATCH_NAMESPACE": "ok,Not_OK"}) == (
        'WATCH_NAMESPACE: "Not_OK" is no namespace name; write names of lower-case letters, digits and -, '
        "separated by commas, or leave it empty for all namespaces"
    )


@pytest.mark.parametrize(("text", "value"), [("1", True), ("T", True), ("true", True), ("False", False), ("0", False)])
def test_ansible_debug_logs_is_a_boolean_of_go(text: str, value: bool) -> None:  # noqa: FBT001 - a test's parameter
    """The variable switches the whole output on and off."""
    assert settings(environ={"ANSIBLE_DEBUG_LOGS": text}).execution.debug_logs is value


@pytest.mark.parametrize("text", ["", "yes", "on", "TrUe"])
def test_another_value_of_ansible_debug_logs_is_noted_and_means_false(text: str) -> None:
    """The peer's sentence."""
    made = configured(environ={"ANSIBLE_DEBUG_LOGS": text})

    assert made.settings.execution.debug_logs is False
    sentence = "Could not parse environment variable as an boolean; using default value"
    assert Note(sentence=sentence, keys={"envVar": "ANSIBLE_DEBUG_LOGS", "default": False}) in made.notes


@pytest.mark.parametrize(
    ("text", "mode"),
    [("nothing", "nothing"), ("TASKS", "tasks"), ("Everything", "everything"), ("", "tasks")],
)
def test_ansible_log_events_is_read_in_any_case(text: str, mode: str) -> None:
    """The three modes, and tasks for nothing at all, without a note."""
    assert settings(f"--ansible-log-events={text}").ansible_log_events == mode
    assert notes(f"--ansible-log-events={text}") == []


def test_another_mode_of_ansible_log_events_logs_an_error_and_means_tasks() -> None:
    """It is no reason not to start."""
    made = configured("--ansible-log-events=all")

    assert made.settings.ansible_log_events == "tasks"
    error = "--ansible-log-events flag value 'all' not recognized. Must be one of: Tasks, Everything, Nothing"
    assert Note(level="error", sentence="unrecognized log level", keys={"using": "tasks", "error": error}) in made.notes


def test_flags_without_effect_are_noted_in_one_line_and_only_if_given() -> None:
    """Who asks for what is not there yet learns it once."""
    idle = [flag.name for flag in FLAGS if not flag.works and flag.kind is STRING]
    arguments = [f"--{name}=x" for name in idle]

    assert notes(*arguments, "--ansible-verbosity=1") == [
        Note(sentence="These flags have no effect in this version", keys={"flags": [f"--{name}" for name in idle]})
    ]


def test_paths_that_the_flags_overwrite_are_noted() -> None:
    """The peer's sentence, for each of the two."""
    sentence = "Set the environment variable"

    assert notes("--ansible-roles-path=/r", "--ansible-collections-path=/c") == [
        Note(sentence=sentence, keys={"envVar": "ANSIBLE_ROLES_PATH", "value": "/r"}),
        Note(sentence=sentence, keys={"envVar": "ANSIBLE_COLLECTIONS_PATH", "value": "/c"}),
    ]


@pytest.mark.parametrize("text", ["0s", "-1s", "0"])
def test_a_reconcile_period_of_zero_or_less_means_never(text: str) -> None:
    """The flag's zero is never too (field case Q2)."""
    assert settings(f"--reconcile-period={text}").reconcile_period == timedelta()


def test_a_negative_grace_period_has_no_limit() -> None:
    """As with controller-runtime; zero stays zero."""
    assert settings("--graceful-shutdown-timeout=-1s").graceful_shutdown_timeout == math.inf
    assert settings("--graceful-shutdown-timeout=0").graceful_shutdown_timeout == 0


def test_at_least_one_worker_works() -> None:
    """Zero or less is one, with a note; a negative verbosity is none."""
    made = configured("--max-concurrent-reconciles=0", "--ansible-verbosity=-3")

    assert (made.settings.max_concurrent_reconciles, made.settings.ansible_verbosity) == (1, 0)
    keys = {"flag": "--max-concurrent-reconciles", "value": 0, "using": 1}
    assert Note(sentence="A watch needs at least one worker", keys=keys) in made.notes


def test_workers_and_verbosity_have_an_upper_limit() -> None:
    """A thousand workers and seven v's are the most, each with a note."""
    made = configured("--max-concurrent-reconciles=1001", "--ansible-verbosity=200000")

    assert (made.settings.max_concurrent_reconciles, made.settings.ansible_verbosity) == (1000, 7)
    keys = {"flag": "--max-concurrent-reconciles", "value": 1001, "using": 1000}
    assert Note(sentence="A watch has no more workers than this", keys=keys) in made.notes
    keys = {"flag": "--ansible-verbosity", "value": 200000, "using": 7}
    assert Note(sentence="More verbosity than Ansible knows", keys=keys) in made.notes


@pytest.mark.parametrize(
    ("arguments", "level"),
    [([], "info"), (["--zap-devel"], "debug"), (["--zap-devel", "--zap-log-level=error"], "error")],
)
def test_development_mode_logs_debug_unless_a_level_is_given(arguments: list[str], level: str) -> None:
    """`--zap-log-level` goes first."""
    assert settings(*arguments).log_level == level


@pytest.mark.parametrize("flag", ["--metrics-addr", "--metrics-bind-address"])
def test_the_deprecated_name_of_the_metrics_address_still_works(flag: str) -> None:
    """Either one sets it."""
    assert settings(f"{flag}=:1").serving.metrics_bind_address == ":1"


@pytest.mark.parametrize("flag", ["--leader-elect", "--enable-leader-election"])
def test_the_deprecated_name_of_leader_election_still_works(flag: str) -> None:
    """Either one switches it on."""
    assert settings(flag, "--leader-election-id=a").leader_election.enabled


def test_operator_name_is_the_old_leader_election_id() -> None:
    """It counts only without the flag, and is always noted."""
    sentence = "Environment variable OPERATOR_NAME has been deprecated, use --leader-election-id instead."
    environ = {"OPERATOR_NAME": "old"}
    alone = configured("--leader-elect", environ=environ)
    both = configured("--leader-elect", "--leader-election-id=new", environ=environ)

    assert alone.settings.leader_election.id == "old"
    assert both.settings.leader_election.id == "new"
    assert Note(sentence=sentence) in alone.notes
    assert Note(sentence="Ignoring OPERATOR_NAME environment variable since --leader-election-id is set") in both.notes


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--leader-elect", "--enable-leader-election"],
            "only one of --leader-elect and --enable-leader-election may be set",
        ),
        (
            ["--metrics-addr=:1", "--metrics-bind-address=:1"],
            "only one of --metrics-addr and --metrics-bind-address may be set",
        ),
        (["--metrics-require-rbac"], "--metrics-require-rbac needs --metrics-secure; give both or none"),
        (["--leader-elect"], "LeaderElectionID must be configured; add --leader-election-id=NAME"),
        (
            ["--leader-elect", "--leader-election-id=a", "--leader-elect-lease-duration=10s"],
            "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline",
        ),
        (
            ["--leader-elect", "--leader-election-id=a", "--leader-elect-renew-deadline=2s"],
            "--leader-elect-renew-deadline must be longer than 2.4s",
        ),
        (
            ["--leader-elect", "--leader-election-id=a", "--leader-elect-lease-duration=1000000h"],
            "--leader-elect-lease-duration must not be longer than 2147483647s, the most that a Lease can hold",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_refused(arguments: list[str], sentence: str) -> None:
    """One sentence that names them."""
    assert refusal(*arguments) == sentence


def test_a_note_is_logged_at_its_level_with_its_keys() -> None:
    """The sentence stays constant; what varies is in the keys."""
    sink = RecordingSink()

    Note(sentence="A", keys={"b": 1}).log(Logger("cmd", sink=sink))
    Note(sentence="C", level="error").log(Logger("cmd", sink=sink))

    assert [(r["level"], r["msg"], r.get("b")) for r in sink.records] == [("info", "A", 1), ("error", "C", None)]


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        ([], LogSettings(encoder="json", time_encoding="rfc3339", stacktrace_level="bugs")),
        (["--zap-stacktrace-level=error"], LogSettings(stacktrace_level="error")),
        (["--zap-devel"], LogSettings(encoder="console", time_encoding="rfc3339", stacktrace_level="warn")),
        (
            ["--zap-devel", "--zap-encoder=json", "--zap-stacktrace-level=panic", "--zap-time-encoding=epoch"],
            LogSettings(encoder="json", time_encoding="epoch", stacktrace_level="panic"),
        ),
        (
            ["--zap-encoder=console", "--zap-time-encoding=ISO8601"],
            LogSettings(encoder="console", time_encoding="iso8601"),
        ),
    ],
)
def test_the_flags_of_zap_shape_the_log(arguments: list[str], form: LogSettings) -> None:
    """Each has zap's default for production or development, and goes first where it is given."""
    assert settings(*arguments).log_format == form


def test_the_given_flags_are_known() -> None:
    """The start-up log tells a flag from a default of the same value."""
    assert settings("--ansible-verbosity=2", "--leader-elect=false").given_flags == {
        "ansible-verbosity",
        "leader-elect",
    }
