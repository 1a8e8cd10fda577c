"""What stays on disk of a run: no environment, no secret, the newest runs, and the useful end of the output."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from runner.execution.artifacts import TAIL_LIMIT, Artifacts, useful_tail
from runner.execution.scrub import MASK, Scrubber
from runner.testing.waiting import eventually

SECRETS = {"AWS_SECRET_ACCESS_KEY": 'canary"with\\quotes', "API_TOKEN": "other-canary", "HOME": "/home/ordinary"}


def _artifacts(root: Path, ident: str) -> Artifacts:
    artifacts = Artifacts(root=root, ident=ident, scrubber=Scrubber(SECRETS))
    artifacts.create()
    return artifacts


def _finished_run(root: Path, *, ident: int, keep: int) -> None:
    artifacts = _artifacts(root, str(ident))
    os.utime(artifacts.path, (ident, ident))
    for folder in artifacts.finish(keep=keep):
        shutil.rmtree(folder)
    os.utime(artifacts.path, (ident, ident))


@pytest.mark.parametrize(("keep", "left"), [(1, {"5"}), (2, {"4", "5"}), (3, {"3", "4", "5"}), (0, {*"12345"})])
def test_the_newest_runs_are_kept(tmp_path: Path, keep: int, left: set[str]) -> None:
    """N keeps N runs besides `latest`, 1 and 2 too, on which the peer crashes; 0 keeps all."""
    for ident in range(1, 6):
        _finished_run(tmp_path, ident=ident, keep=keep)
    assert {path.name for path in tmp_path.iterdir()} == left | {"latest"}
    assert (tmp_path / "latest").readlink() == tmp_path / "5"


async def test_the_command_is_kept_without_the_environment(tmp_path: Path) -> None:
    """What is written to `command` while a run goes never reaches the disk with its environment (field case S2)."""
    artifacts = _artifacts(tmp_path, "1")
    path = artifacts.path / "command"
    async with artifacts.command_without_environment():
        assert path.is_fifo()
        written = json.dumps({"command": ["ansible-playbook"], "cwd": "/x", "env": {"BIG": "canary" * 20_000}})
        await asyncio.to_thread(path.write_text, written)
        await eventually(lambda: not path.is_fifo())
    assert json.loads(path.read_text()) == {"command": ["ansible-playbook"], "cwd": "/x"}
    assert path.stat().st_mode & 0o777 == 0o600


async def test_the_command_of_a_run_that_was_over_at_once_is_kept(tmp_path: Path) -> None:
    """A command that was written and closed before the event loop could look is kept, without the environment."""
    artifacts = _artifacts(tmp_path, "1")
    path = artifacts.path / "command"
    async with artifacts.command_without_environment():
        path.write_text(json.dumps({"command": ["x"], "cwd": "/", "env": {"A": "secret"}}))
    assert json.loads(path.read_text()) == {"command": ["x"], "cwd": "/"}


async def test_a_command_that_nobody_wrote_leaves_no_pipe(tmp_path: Path) -> None:
    """A run that breaks off early leaves nothing on which a reader would hang."""
    artifacts = _artifacts(tmp_path, "1")
    async with artifacts.command_without_environment():
        pass
    assert not (artifacts.path / "command").exists()


def test_a_command_file_with_an_environment_is_scrubbed_in_the_end(tmp_path: Path) -> None:
    """Should the file be written past the pipe, the environment goes when the run ends; broken content goes whole."""
    for ident, content in (
        ("1", json.dumps({"command": [], "cwd": "", "env": {"X": "canary"}})),
        ("2", '{"env": "can'),
    ):
        artifacts = _artifacts(tmp_path, ident)
        (artifacts.path / "command").write_text(content)
        artifacts.finish(keep=0)
        assert "can" not in (artifacts.path / "command").read_text()


def test_events_come_once_in_order_and_scrubbed(tmp_path: Path) -> None:
    """Complete files are read in the order of their counters; secrets are masked on disk and in what is given."""
    artifacts = _artifacts(tmp_path, "1")
    folder = artifacts.path / "job_events"
    folder.mkdir()
    assert artifacts.new_events() == []
    for counter in (10, 9):
        text = json.dumps({"counter": counter, "stdout": f"x{SECRETS['AWS_SECRET_ACCESS_KEY']}x"})
        (folder / f"{counter}-abc.json").write_text(text)
    (folder / "abc-partial.json").write_text("{")
    (folder / "11-abc.json.tmp").write_text("{")
    assert [event["counter"] for event in artifacts.new_events()] == [9, 10]
    assert artifacts.new_events() == []
    (folder / "11-abc.json").write_text(
        json.dumps({"counter": 11, "res": {"ansible_facts": {"ansible_env": {"A": 1}}}})
    )
    assert artifacts.new_events() == [{"counter": 11, "res": {"ansible_facts": {}}}]
    assert f"x{MASK}x" in (folder / "9-abc.json").read_text()


def test_a_finished_run_holds_neither_secrets_nor_fragments(tmp_path: Path) -> None:
    """Output is masked, events that were not read yet too, and half-written events and cached facts go."""
    artifacts = _artifacts(tmp_path, "1")
    for name in ("job_events", "fact_cache"):
        (artifacts.path / name).mkdir()
    (artifacts.path / "stdout").write_text("it says other-canary")
    (artifacts.path / "job_events/1-a.json").write_text('{"counter": 1, "stdout": "other-canary"}')
    (artifacts.path / "job_events/b-partial.json").write_text("{")
    (artifacts.path / "fact_cache/s1_localhost").write_text("{}")
    artifacts.finish(keep=0)
    files = {path.name: path.read_text() for path in artifacts.path.rglob("*") if path.is_file()}
    assert files.keys() == {"stdout", "stderr", "1-a.json"}
    assert not [text for text in files.values() if "canary" in text]


@pytest.mark.parametrize(
    ("content", "of_runner", "expected"),
    [("0", 0, 0), ("4", 4, 4), ("None", 0, None), (None, 1, 1), (None, -9, None), (None, None, None)],
)
def test_the_exit_code_is_ansibles(
    tmp_path: Path, content: str | None, of_runner: int | None, expected: int | None
) -> None:
    """ansible-runner's own code counts only where it wrote none: it exits with 0 after a signal ended its child."""
    artifacts = _artifacts(tmp_path, "1")
    if content is not None:
        (artifacts.path / "rc").write_text(content)
    assert artifacts.rc(of_runner=of_runner) == expected


def test_a_run_that_a_signal_ended_politely_has_no_exit_code(tmp_path: Path) -> None:
    """SIGTERM to ansible-runner makes it write a code of its own, which says nothing of Ansible's (field case R2)."""
    artifacts = _artifacts(tmp_path, "1")
    (artifacts.path / "rc").write_text("254")
    (artifacts.path / "status").write_text("canceled")
    assert artifacts.rc(of_runner=254) is None
    (artifacts.path / "status").write_text("failed")
    assert artifacts.rc(of_runner=254) == 254


def test_only_strings_of_an_event_are_masked(tmp_path: Path) -> None:
    """A password of digits breaks no number: values and keys are masked as text, and the file stays JSON."""
    artifacts = Artifacts(root=tmp_path, ident="1", scrubber=Scrubber({"DB_PASSWORD": "123456"}))
    (artifacts.path / "job_events").mkdir(parents=True)
    path = artifacts.path / "job_events/1-a.json"
    result = {"duration": 0.123456, "msg": "it is 123456", "x123456": [{"123456": 123456}]}
    path.write_text(json.dumps({"counter": 1, "event_data": {"res": result}}))
    masked = {"duration": 0.123456, "msg": f"it is {MASK}", f"x{MASK}": [{MASK: 123456}]}
    expected = {"counter": 1, "event_data": {"res": masked}}
    assert artifacts.new_events() == [expected]
    assert json.loads(path.read_text()) == expected


@pytest.mark.parametrize("secret", ["runner_on_ok", "requeue_after", "event_data", "100000s", "localhost", "period"])
def test_a_secret_that_is_a_word_of_events_changes_no_judgement(secret: str) -> None:
    """What the runtime reads of an event stays, whatever the secrets are; the same word elsewhere is masked."""
    event = {
        "event": "runner_on_ok",
        "event_data": {
            "host": "localhost",
            "task_action": "operator_sdk.util.requeue_after",
            "res": {"period": "100000s", "note": f"<{secret}>"},
        },
    }
    expected = json.loads(json.dumps(event).replace(f"<{secret}>", f"<{MASK}>"))
    assert Scrubber({"TOKEN": secret}).event(event) == expected


def test_the_recap_counts_by_host_whatever_the_secrets_are() -> None:
    """A host whose name is a password keeps its counts, and statistics that a play set itself are masked."""
    recap = {"failures": {"localhost": 1}, "ok": {}, "artifact_data": {"a": "localhost"}}
    masked = Scrubber({"PASSWORD": "localhost"}).event({"event": "playbook_on_stats", "event_data": recap})
    assert masked["event_data"] == {**recap, "artifact_data": {"a": MASK}}


def test_a_half_written_event_is_read_again_before_it_is_skipped(tmp_path: Path) -> None:
    """It holds the later events back until the next look, so that they stay in order, and no longer than that."""
    artifacts = _artifacts(tmp_path, "1")
    folder = artifacts.path / "job_events"
    folder.mkdir()
    for counter, text in ((1, '{"counter": 1}'), (2, '{"coun'), (3, '{"counter": 3}'), (4, '{"m": "other-canary')):
        (folder / f"{counter}-a.json").write_text(text)
    assert artifacts.new_events() == [{"counter": 1}]
    (folder / "2-a.json").write_text('{"counter": 2}')
    assert artifacts.new_events() == [{"counter": 2}, {"counter": 3}]
    assert artifacts.unreadable == []
    (folder / "5-a.json").write_text('{"counter": 5}')
    assert artifacts.new_events() == [{"counter": 5}]
    assert artifacts.unreadable == [folder / "4-a.json"]
    assert (folder / "4-a.json").read_text() == '{"m": "' + MASK


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"event_data": "x"}',
        b'{"m": "\xff"}',
        b"[" * 100_000,
        b'{"a": {"ansible_env": {"X": "canary',
    ],
)
def test_a_broken_event_is_skipped_at_last(tmp_path: Path, content: bytes) -> None:
    """Whatever an event file holds, the run goes on without it, and neither a secret nor the environment stays."""
    artifacts = _artifacts(tmp_path, "1")
    folder = artifacts.path / "job_events"
    folder.mkdir()
    (folder / "1-a.json").write_bytes(content)
    (folder / "2-a.json").write_text('{"counter": 2}')
    assert artifacts.new_events(final=True) == [{"counter": 2}]
    assert artifacts.unreadable == [folder / "1-a.json"]
    assert b"canary" not in (folder / "1-a.json").read_bytes()
    artifacts.finish(keep=0)


def test_a_secret_may_begin_with_a_slash(tmp_path: Path) -> None:
    """Only the name of a variable that says where, or a path that is there, exempts a value from masking."""
    key = "/bPxRfiCYEXAMPLEKEY"
    there = tmp_path / "credentials"
    there.touch()
    assert Scrubber({"AWS_SECRET_ACCESS_KEY": key}).text(f"<{key}>") == f"<{MASK}>"
    for name, value in (("AWS_WEB_IDENTITY_TOKEN_FILE", key), ("SECRETS_DIR", key), ("API_TOKEN", str(there))):
        assert Scrubber({name: value}).text(f"<{value}>") == f"<{value}>"


@pytest.mark.parametrize(
    "name",
    [
        "DB_PASS", "DBPASS", "SSHPASS", "REDIS_PASSPHRASE", "VAULT_PWD", "GITHUB_PAT", "BASIC_AUTH", "SSH_KEY", "KEY",
        "ENCRYPTION_KEY", "PROXY_AUTHORIZATION", "db_pass", "SENTRY_DSN", "PASS_OF_ROOT", "SIGNING_KEYS",
    ],
)  # fmt: skip
def test_a_variable_that_is_likely_to_be_a_secret_is_one(name: str) -> None:
    """Short forms of the usual words count, wherever the value shows up."""
    assert Scrubber({name: "hunter2hunter2"}).text("<hunter2hunter2>") == f"<{MASK}>"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSH_AUTH_SOCK", "/nowhere/agent.1"), ("PWD", "/nowhere/x"), ("OLDPWD", "/nowhere/x"),
        ("GIT_AUTHOR_NAME", "Somebody"), ("OS_AUTH_URL", "https://keystone.example.com"), ("BYPASS", "everybody"),
        ("KEYBOARD", "qwertyqwerty"), ("MONKEY", "business"), ("COMPASS", "north-west"), ("DB_PASS", "short"),
        ("BASIC_AUTH", "disabled"), ("LICENSE_KEY", "2026.11.29"), ("MAX_PASS", "1000000"), ("PATH", "/usr/bin:/bin"),
        ("PATTERN", "anything"), ("DATABASE", "postgres://localhost:5432/x@y"), ("SSH_KEYS_DIR", "/nowhere/x"),
    ],
)  # fmt: skip
def test_harmless_values_are_not_masked(name: str, value: str) -> None:
    """Places, numbers, switches, short values and names that only resemble leave the output readable."""
    assert Scrubber({name: value}).text(f"<{value}>") == f"<{value}>"


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("postgres://app:pa55word@db:5432/x", "pa55word"),
        ("https://:onlypassword@proxy", "onlypassword"),
        ("redis://u:with%40sign@host", "with%40sign"),
        ("redis://u:with%40sign@host", "with@sign"),
        ("redis://u:with@sign@host", "with@sign"),
    ],
)
def test_the_password_in_a_url_is_masked(url: str, password: str) -> None:
    """Of a variable with any name, the password alone, decoded too; user and host stay readable."""
    assert Scrubber({"HTTP_PROXY": url}).text(f"to {password} at db") == f"to {MASK} at db"


def test_the_useful_end_starts_at_the_first_error() -> None:
    """Colours go, and so does what Ansible printed before it noticed."""
    output = "ansible-playbook [core 2.19]\r\n\x1b[0;31m[ERROR]: no such module\x1b[0m\r\nOrigin: /x:3\r\n"
    assert useful_tail(output) == "[ERROR]: no such module\nOrigin: /x:3"


def test_the_useful_end_of_output_without_an_error_is_its_end() -> None:
    """At most 4 KiB, cut between characters."""
    tail = useful_tail("ä" * 10_000 + "the end")
    assert tail.endswith("the end")
    assert len(tail.encode()) <= TAIL_LIMIT


def test_secrets_are_those_whose_variables_say_so() -> None:
    """Values of secret-looking variables are masked as they are and inside JSON; paths, short and other values stay."""
    scrubber = Scrubber({**SECRETS, "PASSWORD": "abc", "TOKEN_FILE": "/var/run/token"})
    assert scrubber.text('canary"with\\quotes') == MASK
    assert scrubber.text(json.dumps({"m": 'a canary"with\\quotes b'})) == json.dumps({"m": f"a {MASK} b"})
    assert scrubber.text("abc /var/run/token /home/ordinary") == "abc /var/run/token /home/ordinary"


@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_is_spared_a_close_look_holds_no_secret(*, ascii_only: bool) -> None:
    """Whatever `value` would change is found in the text, however JSON writes it; ordinary output is spared."""
    scrubber = Scrubber({**SECRETS, "DB_PASSWORD": "p\u00e4ssw\u00f6rt\n1"})
    plain = {"stdout": "\x1b[0;32mok: gr\u00fcn\x1b[0m", "n": 1}
    assert scrubber.spares(json.dumps(plain, ensure_ascii=ascii_only))
    for text in ('a canary"with\\quotes', "other-canary", "p\u00e4ssw\u00f6rt\n1", json.dumps("p\u00e4ssw\u00f6rt\n1")):
        for value in ({"a": [text]}, {text: 1}):
            assert scrubber.value(value) != value
            assert not scrubber.spares(json.dumps(value, ensure_ascii=ascii_only))
    assert not scrubber.spares(json.dumps({"x": {"ansible_env": {}}}))
    assert not scrubber.spares('{"a": "\\u006fther-canary"}')
