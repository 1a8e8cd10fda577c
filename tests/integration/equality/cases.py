"""The runs that are compared: what each of them exercises stands in its content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run of content, the same on both sides."""

    name: str
    role: str = ""
    """A folder below `content/roles`; or"""
    playbook: str = ""
    """a playbook below `content/playbooks`."""
    ends: str = ""
    """Part of what the run fails with; empty where it succeeds. It keeps the content itself from rotting."""
    verbosity: int = 2
    arguments: str = ""
    """What users give as --ansible-args; `{content}` is the folder of the content."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    unordered: bool = False
    """Several hosts at once."""
    asking: bool = False
    """It asks until something is done."""
    world: str = "explicit"
    """The environment of the operator that runs it, by its name in `WORLDS`."""
    full: bool = False
    """Only in `make test-full`."""
    cold: bool = False
    """Its playbook is started as a new process on the warm side too, by design."""
    root: bool = False
    """Needs the rights to become somebody else."""


WORLDS: Mapping[str, Mapping[str, str]] = {
    "explicit": {
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_REMOTE_TMP": "{root}/home/.ansible/tmp",  # by default it is below the home of the user's entry
        "ANSIBLE_ASYNC_DIR": "{root}/home/.ansible_async",
    },
    "configured": {
        "ANSIBLE_CONFIG": "{root}/content/ansible.cfg",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "NO_PROXY": "127.0.0.1",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "{root}/out/token",
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/probe",
        "AWS_ENDPOINT_URL_STS": "{web}",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "LC_ALL": "C.UTF-8",
        "TZ": "America/St_Johns",
        "PYTHONWARNINGS": "ignore::DeprecationWarning",
    },
    "cluster": {"ANSIBLE_GATHERING": "explicit"},
}

QUIET_WAYS = (
    "crash",
    "crash_in_a_chain",
    "garbage_before",
    "garbage_after",
    "only_garbage",
    "two_answers",
    "no_object",
    "not_utf8",
    "exit_silently",
    "exit_with_code",
    "exit_with_text",
    "answer_and_fail",
    "leave_at_once",
    "interrupt",
    "close_streams",
    "import_what_is_missing",
    "ask_for_input",
    "write_to_terminal",
    "broken_at_exit",
    "at_exit",
    "fork_and_answer_twice",
)
VIOLENT_WAYS = (
    "mutate",
    "change_directory",
    "leak_descriptors",
    "new_session",
    "leave_thread",
    "leave_child",
    "become_daemon",
    "die_by_kill",
    "die_by_term",
    "die_by_segfault",
    "recurse",
    "noisy",
)
"""Ways of the module `misbehave`; the second ones are felt beyond its own output."""

PROBE = Case(name="probe", role="probe")
BAD_ONES = (
    Case(name="quiet ways to misbehave", role="misbehave", variables={"ways": QUIET_WAYS}),
    Case(name="violent ways to misbehave", role="misbehave", variables={"ways": VIOLENT_WAYS}),
)
AFTER_BAD_ONES = Case(name="probe after bad ones", role="probe")
CREDENTIALS = tuple(
    Case(name=f"credentials of {token}", role="credentials", world="configured", variables={"token": token})
    for token in ("one", "two")
)

CASES: Sequence[Case] = (
    PROBE,
    Case(name="flow", role="flow"),
    Case(name="files", role="files"),
    *BAD_ONES,
    AFTER_BAD_ONES,
    Case(name="plugins beside the playbook", playbook="beside/playbook.yml"),
    Case(name="no plugins beside", role="beside_nothing"),
    Case(name="many hosts", playbook="hosts/playbook.yml", ends="non-zero return code", unordered=True),
    Case(name="asynchronous", playbook="async/playbook.yml", asking=True),
    Case(name="somebody else", playbook="become/playbook.yml", root=True),
    Case(name="vault", playbook="vault/playbook.yml", ends="ecrypt",
         arguments="--vault-password-file {content}/playbooks/vault/password"),
    Case(name="vault without a password", playbook="vault/playbook.yml", ends="ault", full=True),
    Case(name="interpreters", playbook="interpreters/playbook.yml"),
    Case(name="unknown role", playbook="failing/unknown_role.yml", ends="no_such_role"),
    Case(name="broken YAML", playbook="failing/broken_yaml.yml", ends="YAML"),
    Case(name="unknown module", playbook="failing/unknown_module.yml", ends="no.such.collection"),
    Case(name="missing playbook", playbook="failing/missing.yml", ends="missing.yml"),
    Case(name="undefined variable", playbook="failing/undefined.yml", ends="undefined"),
    Case(name="unreachable host", playbook="failing/unreachable.yml", ends="nreachable"),
    Case(name="broken conditional", playbook="failing/conditional.yml", ends="onditional"),
    Case(name="a worker dies", playbook="failing/worker_dies.yml", ends="dead state"),
    Case(name="the playbook dies", playbook="failing/playbook_dies.yml", ends="signal"),
    Case(name="a play ends", playbook="failing/ends_play.yml", ends="it ends, ünïcode"),
    Case(name="tags and extra variables", playbook="tagged.yml",
         arguments="--tags one,three --skip-tags always -e extra=given"),
    Case(name="check and diff", playbook="tagged.yml", arguments="--check --diff --start-at-task two"),
    Case(name="wrong arguments", playbook="tagged.yml", arguments="--no-such-option", ends="(exit code 2)"),
    Case(name="list of tasks", playbook="tagged.yml", arguments="--list-tasks", ends="reached its recap", full=True),
    Case(name="syntax check", playbook="tagged.yml", arguments="--syntax-check", ends="reached its recap", full=True),
    *(
        Case(name=f"verbosity {level}", role="talk", verbosity=level, cold=level >= 4, full=level in {1, 5})
        for level in (0, 1, 3, 4, 5)
    ),
    Case(name="probe, configured", role="probe", world="configured"),
    Case(name="facts", role="talk", world="configured"),
    *CREDENTIALS,
    Case(name="plugins beside the playbook, configured", playbook="beside/playbook.yml", world="configured", full=True),
    Case(name="a cluster", role="cluster", world="cluster"),
    Case(name="flow, configured", role="flow", world="configured", full=True),
)  # fmt: skip
