"""What a run means is the same on every supported ansible-core: outcome, variables, secrets, periods, collections.

The runs of one environment are made once, two at a time; each test reads one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from runner.execution.executor import Outcome, RunRequest
from runner.execution.outcome import STRICT_HINT
from runner.watches.model import Content
from tests.integration.environments.conftest import Plays
from tests.integration.execution.bench import Bench

CANARY = "canary-of-the-environment"
WHERE = """
- ansible.builtin.copy: {dest: "{{ out }}/seen.json", content: "{{ where | combine(seen | default({})) | to_json }}"}
  vars:
    where: {core: "{{ ansible_version.full }}", python: "{{ ansible_playbook_python }}"}
"""
SEES = """
    seen:
      plain: "{{ s }}"
      whole: "{{ _bugs_example_com_probe.status.note }}"
      joined: "{{ 'x' ~ s }}"
      named: "{{ size_of_cluster }}"
      author: "{{ greeting }}"
"""
HARMLESS = """
- block:
  - ansible.builtin.fail: {msg: rescued one}
  rescue:
  - ansible.builtin.debug: {msg: fine}
- ansible.builtin.fail: {msg: ignored}
  ignore_errors: true
- operator_sdk.util.requeue_after: {time: "{{ item }}"}
  loop: [10s, 1h2m3s]
"""
SECRETS = """
- ansible.builtin.setup: {gather_subset: ["!all", env]}
- ansible.builtin.command: echo "{{ lookup('env', 'AWS_SECRET_ACCESS_KEY') }}"
  register: said
- ansible.builtin.assert: {that: "said.stdout | length == 25"}
- block:
  - ansible.builtin.fail: {msg: rescued one}
  rescue:
  - ansible.builtin.fail: {msg: "{{ item }}"}
    loop: [first item, "the key is {{ said.stdout }}"]
"""
OLD_STYLE = """
- ansible.builtin.debug: {msg: reached}
  when: names | length
"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that is over."""

    bench: Bench
    outcome: Outcome

    @property
    def seen(self) -> dict[str, Any]:
        """Return what the play wrote."""
        written: dict[str, Any] = self.bench.written("seen.json")
        return written


def _collection(root: Path) -> Content:
    """Write a collection whose role uses its own module, and a role of another one by its full name."""
    base = root / "collections/ansible_collections/acme/tools"
    for role, tasks in {
        "outer": "- ansible.builtin.include_role: {name: acme.tools.inner}\n",
        "inner": "- acme.tools.hello:\n  register: said\n" + WHERE + "    seen: {said: '{{ said.word }}'}\n",
    }.items():
        (base / "roles" / role / "tasks").mkdir(parents=True)
        (base / "roles" / role / "tasks/main.yml").write_text(tasks)
    (base / "plugins/modules").mkdir(parents=True)
    module = """\
        #!/usr/bin/python
        from ansible.module_utils.basic import AnsibleModule
        AnsibleModule(argument_spec={}).exit_json(word="hello")
    """
    (base / "plugins/modules/hello.py").write_text(dedent(module))
    (base / "galaxy.yml").write_text("{namespace: acme, name: tools, version: 1.0.0, readme: R, authors: [we]}\n")
    return Content(role=base / "roles/outer")


async def _run(bench: Bench, request: RunRequest) -> Run:
    return Run(bench=bench, outcome=await bench.executor().run(replace(request, verbosity=2)))


async def _run_all(plays: Plays, *, root: Path) -> dict[str, Run]:
    two = asyncio.Semaphore(2)

    async def limited(work: Awaitable[Run]) -> Run:
        async with two:
            return await work

    def run(name: str, *, tasks: str, environ: Mapping[str, str] | None = None, **watch: Any) -> Awaitable[Run]:
        bench = plays.bench(root / name, **(environ or {}))
        (bench.root / "out").mkdir()
        variables = {
            "out": str(bench.root / "out"),
            "greeting": "hello {{ ansible_operator_meta.name }}",
            "names": ["a"],
        }
        spec = {"s": "{{ 1 + 1 }}", "sizeOfCluster": 3}
        content = watch.pop("content", None) or bench.tasks(WHERE + tasks)
        return limited(_run(bench, bench.request(content, spec=spec, vars=variables, **watch)))

    collection = {"ANSIBLE_COLLECTIONS_PATH": str(root / "collections")}
    runs = {
        "harmless": run("harmless", tasks=SEES + HARMLESS),
        "marked": run("marked", tasks=SEES, mark_unsafe=True),
        "module": run("module", tasks="- nosuch.collection.module: {}\n"),
        "secrets": run("secrets", tasks=SECRETS, environ={"AWS_SECRET_ACCESS_KEY": CANARY}),
        "collection": run("role", tasks="", environ=collection, content=_collection(root)),
        "old style": run("old", tasks=OLD_STYLE),
        "allowed": run("allowed", tasks=OLD_STYLE, environ={"ANSIBLE_ALLOW_BROKEN_CONDITIONALS": "true"}),
    }
    return dict(zip(runs, await asyncio.gather(*runs.values()), strict=True))


@pytest.fixture(scope="module")
def runs(plays: Plays, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    """Make all the runs."""
    return asyncio.run(_run_all(plays, root=tmp_path_factory.mktemp("runs")))


def test_the_plays_run_in_the_environment_that_was_named(plays: Plays, runs: Mapping[str, Run]) -> None:
    """Version and interpreter inside the plays are those of `--ansible-python`, not the operator's own."""
    assert [name for name, run in runs.items() if name != "module" and not plays.is_that_of(run.seen)] == []


def test_rescued_and_ignored_failures_are_none(runs: Mapping[str, Run]) -> None:
    """A rescued and an ignored failure leave the run a success, and the last period asked for counts."""
    outcome = runs["harmless"].outcome
    assert (outcome.success, outcome.failures) == (True, ())
    assert outcome.requeue_after == timedelta(hours=1, minutes=2, seconds=3)
    assert outcome.stats is not None
    assert (outcome.stats.failed, outcome.stats.changed) == (0, 1)


def test_a_failure_names_its_items(runs: Mapping[str, Run]) -> None:
    """The message of a failed loop holds those of its items, without what is secret; a rescued failure is no part."""
    (message,) = runs["secrets"].outcome.failures
    assert message.startswith("One or more items failed: (item=first item) first item; (item=the key is ")
    assert "rescued one" not in message


def test_an_unknown_module_fails_with_ansibles_words(runs: Mapping[str, Run]) -> None:
    """A run without a recap fails, and the message names the module."""
    outcome = runs["module"].outcome
    assert (outcome.success, outcome.stats, outcome.rc) == (False, None, 4)
    assert "nosuch.collection.module" in outcome.failures[0]


def test_a_spec_is_a_template_and_a_status_never(runs: Mapping[str, Run]) -> None:
    """Without markUnsafe a spec's text is evaluated, as with the peer; the status, which may quote anything, isn't."""
    seen = runs["harmless"].seen
    assert str(seen["plain"]) == "2"
    assert seen["whole"] == "{{ 1 + 1 }}"
    assert (seen["named"], seen["author"]) == (3, "hello probe")


def test_a_marked_spec_stays_text(runs: Mapping[str, Run]) -> None:
    """With markUnsafe nothing of the object is evaluated, in copies neither; the author's own templates are."""
    seen = runs["marked"].seen
    assert (seen["plain"], seen["joined"], seen["whole"]) == ("{{ 1 + 1 }}", "x{{ 1 + 1 }}", "{{ 1 + 1 }}")
    assert (seen["named"], seen["author"]) == (3, "hello probe")


def test_credentials_are_in_no_file_and_no_message(runs: Mapping[str, Run]) -> None:
    """A task that gets the pod's credentials and prints them leaves none of it in artifacts, events or outcome."""
    run = runs["secrets"]
    assert not run.outcome.success
    assert CANARY not in str(run.outcome.failures)
    assert CANARY not in str(run.bench.events)
    assert CANARY not in str(run.bench.sink.records)
    files = [path for path in run.bench.settings.runner_dir.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if CANARY in path.read_text(errors="replace")] == []


def test_a_role_of_a_collection_finds_its_modules_and_sisters_by_full_name(runs: Mapping[str, Run]) -> None:
    """A role that lies in a collection runs by its path; full names of what lies beside it are found."""
    run = runs["collection"]
    assert run.outcome.success, run.outcome.failures
    assert run.seen["said"] == "hello"


def test_a_condition_that_is_no_boolean_runs_on_2_18_and_is_explained_on_2_19(
    plays: Plays, runs: Mapping[str, Run]
) -> None:
    """What 2.19 refuses fails with the remedy in the message, so that an operator for 2.18 can be kept running."""
    outcome = runs["old style"].outcome
    assert outcome.success == (plays.core == "2.18")
    assert [STRICT_HINT in message for message in outcome.failures] == ([] if outcome.success else [True])


def test_the_remedy_for_old_conditions_works(runs: Mapping[str, Run]) -> None:
    """With the variable that the message names, the same play succeeds on both."""
    assert runs["allowed"].outcome.success, runs["allowed"].outcome.failures
