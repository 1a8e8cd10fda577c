"""How real runs end: each way that Ansible can go wrong, and the ways that only look wrong.

The runs are made once, two at a time; each test reads one of them.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runner.execution.executor import Outcome
from tests.integration.execution.bench import Bench, Warm

HARMLESS = """
- block:
  - ansible.builtin.fail: {msg: rescued one}
  rescue:
  - ansible.builtin.debug: {msg: fine}
- ansible.builtin.fail: {msg: ignored}
  ignore_errors: true
- block:
  - ansible.builtin.fail: {msg: "{{ item }}"}
    loop: [a, b]
  rescue:
  - operator_sdk.util.requeue_after: {time: 1h30m}
- operator_sdk.util.requeue_after: {time: "{{ item }}"}
  loop: [10s, 20s]
"""
HARMFUL = """
- block:
  - ansible.builtin.fail: {msg: rescued one}
  rescue:
  - ansible.builtin.fail: {msg: "{{ item }}"}
    loop: [first item, second item]
"""
BROKEN_PERIOD = """
- operator_sdk.util.requeue_after: {time: 5s}
- operator_sdk.util.requeue_after: {time: ""}
"""
UNREACHABLE = """
- hosts: deadhost
  gather_facts: false
  tasks:
  - ansible.builtin.ping:
"""


async def _run_all(root: Path, *, warm: Warm) -> dict[str, Outcome]:
    two = asyncio.Semaphore(2)

    async def run(name: str, *, text: str, tasks: bool = True, environ: Mapping[str, str] | None = None) -> Outcome:
        folder = root / name
        folder.mkdir()
        bench = Bench(folder, environ=environ, warm=warm)
        async with two:
            request = bench.request(bench.tasks(text) if tasks else bench.playbook(text))
            return await bench.executor().run(replace(request, verbosity=2))

    inventory = root / "hosts"
    inventory.write_text("deadhost ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1\n")
    runs = {
        "harmless": run("harmless", text=HARMLESS),
        "harmful": run("harmful", text=HARMFUL),
        "period": run("period", text=BROKEN_PERIOD),
        "unreachable": run("unreachable", text=UNREACHABLE, tasks=False, environ={"ANSIBLE_INVENTORY": str(inventory)}),
        "nobody": run("nobody", text="- hosts: nosuch\n  tasks: []\n", tasks=False),
        "module": run("module", text="- nosuch.collection.module: {}\n"),
        "syntax": run("syntax", text="- hosts: localhost\n  tasks:\n  - debug: {msg: [}\n", tasks=False),
    }
    return dict(zip(runs, await asyncio.gather(*runs.values()), strict=True))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Mapping[str, Outcome]:
    """Make all the runs."""
    return asyncio.run(_run_all(tmp_path_factory.mktemp("outcomes"), warm=warm))


def test_rescued_and_ignored_failures_are_none(outcomes: Mapping[str, Outcome]) -> None:
    """A failure that a block rescues, in a loop too, or that is ignored, leaves the run a success (case R3 a, b, e)."""
    assert outcomes["harmless"].success
    assert outcomes["harmless"].failures == ()


def test_the_last_requested_period_counts(outcomes: Mapping[str, Outcome]) -> None:
    """Of several requeue_after tasks, and items of one, the last one decides, and the play goes on to its end."""
    assert outcomes["harmless"].requeue_after == timedelta(seconds=20)


def test_a_failure_names_its_items_and_not_what_was_rescued(outcomes: Mapping[str, Outcome]) -> None:
    """The message of a failed loop holds those of its items; an earlier, rescued failure is not repeated."""
    assert not outcomes["harmful"].success
    (message,) = outcomes["harmful"].failures
    assert message == "One or more items failed: (item=first item) first item; (item=second item) second item"


def test_a_period_that_cannot_be_used_fails_the_run(outcomes: Mapping[str, Outcome]) -> None:
    """An empty period is a failure with a sentence, not a crash."""
    assert not outcomes["period"].success
    assert 'cannot use the period ""' in outcomes["period"].failures[0]
    assert outcomes["period"].requeue_after is None


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs an ssh client")
def test_an_unreachable_host_fails_the_run(outcomes: Mapping[str, Outcome]) -> None:
    """A host that cannot be reached is a failure that names it (case R3 c)."""
    outcome = outcomes["unreachable"]
    assert not outcome.success
    assert outcome.failures[0].startswith("host deadhost is unreachable: ")
    assert outcome.stats is not None
    assert outcome.stats.unreachable == {"deadhost": 1}


def test_a_play_that_matches_no_host_succeeds(outcomes: Mapping[str, Outcome]) -> None:
    """Nothing to do is no failure (case R3 d)."""
    assert outcomes["nobody"].success
    assert outcomes["nobody"].stats is not None


def test_an_unknown_module_fails_with_ansibles_words(outcomes: Mapping[str, Outcome]) -> None:
    """A run that never reaches its recap fails, and the message says which module is missing (case R2)."""
    outcome = outcomes["module"]
    assert not outcome.success
    assert outcome.stats is None
    assert outcome.rc == 4
    assert "nosuch.collection.module" in outcome.failures[0]
    assert "\x1b" not in outcome.failures[0]


def test_a_syntax_error_fails_with_the_parsers_words(outcomes: Mapping[str, Outcome]) -> None:
    """The message of a playbook that is no YAML tells where the error is."""
    outcome = outcomes["syntax"]
    assert not outcome.success
    assert "playbook.yml" in outcome.failures[0]


async def test_a_run_that_failed_without_ansible_says_what_did(tmp_path: Path, warm: Warm) -> None:
    """Where the exit code is 0, the log line's error is what failed all the same."""
    bench = Bench(tmp_path, warm=warm)
    outcome = await bench.run(bench.request(bench.tasks('- operator_sdk.util.requeue_after: {time: ""}\n')))
    (record,) = [record for record in bench.sink.records if record["msg"] == "Ansible-runner failed"]
    assert (outcome.rc, record["rc"]) == (0, 0)
    assert 'cannot use the period ""' in record["error"]


async def test_what_is_not_used_is_told_in_one_line_unless_it_was(tmp_path: Path, warm: Warm) -> None:
    """All keys stand in one record; a run for a state that was told already has none."""
    bench = Bench(tmp_path, warm=warm)
    spec = {"ansible_host": "x", "ansiblePort": 1, "fooBar": 1, "foo_bar": 2}
    request = bench.request(bench.tasks("- ansible.builtin.meta: noop\n"), spec=spec)
    await bench.run(request)
    await bench.run(replace(request, ident="2", notes_told=True))
    (record,) = [record for record in bench.sink.records if "notes" in record]
    told = " ".join(record["notes"])
    assert all(key in told for key in ("spec.ansiblePort", "spec.ansible_host", "foo_bar"))


async def test_a_failed_run_fills_no_log(tmp_path: Path, warm: Warm) -> None:
    """The log repeats a message of any length as short as the condition does; the outcome has it whole."""
    bench = Bench(tmp_path, warm=warm)
    outcome = await bench.run(bench.request(bench.tasks("- ansible.builtin.fail: {msg: \"{{ 'x' * 100000 }}\"}\n")))
    assert len(outcome.failures[0]) == 100_000
    (record,) = [record for record in bench.sink.records if record["msg"] == "Ansible-runner failed"]
    (told,) = record["failures"]
    assert len(told) == 8192
    assert told.endswith("... (message cut)")
