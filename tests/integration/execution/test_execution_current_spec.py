"""What a run knows of its object: exactly the present one, as text where it must be text, and never in an argument."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

from runner.execution.executor import RunRequest
from runner.watches.model import Finalizer
from tests.integration.execution.bench import Bench, Warm

CANARY = "canary-in-no-argument"
SHOWS = """
- ansible.builtin.file: {path: "{{ out }}", state: directory}
- ansible.builtin.copy:
    dest: "{{ out }}/seen.json"
    content: "{{ {'a': a | default('UNSET') | string | length, 'b': b | default('UNSET')} | to_json }}"
- ansible.builtin.pause: {seconds: 1}
"""
REPEATS = """
- ansible.builtin.file: {path: "{{ out }}", state: directory}
- ansible.builtin.set_fact: {copied: "{{ s }}", joined: "{{ 'x' ~ s }}"}
- ansible.builtin.copy: {dest: "{{ out }}/seen.json", content: "{{ seen | to_json }}"}
  vars:
    seen:
      plain: "{{ s }}"
      copied: "{{ copied }}"
      joined: "{{ joined }}"
      items: "{{ list }}"
      whole: "{{ _bugs_example_com_probe }}"
      spec: "{{ _bugs_example_com_probe_spec }}"
      authors: "{{ greeting }}"
      flag: "{{ finalizer_run | default(false) }}"
"""


def _with_spec(request: RunRequest, spec: dict[str, object], *, ident: str) -> RunRequest:
    return replace(request, obj={**request.obj, "spec": spec}, ident=ident)


def _argument_lists() -> bytes:
    lists = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lists.append(path.read_bytes())
    return b"\n".join(lists)


async def test_each_run_sees_exactly_the_current_spec(tmp_path: Path, warm: Warm) -> None:
    """A key that left the spec is gone in the next run, a megabyte fits, and nothing of it is in an argument (R1)."""
    bench = Bench(tmp_path, warm=warm)
    content = bench.tasks(SHOWS)
    first = bench.request(content, spec={"a": CANARY, "b": 2}, vars={"out": str(tmp_path / "out")})
    first = replace(first, max_artifacts=1)
    run = asyncio.create_task(bench.run(first))
    seen = b""
    while not run.done():
        seen += _argument_lists()
        await asyncio.sleep(0.2)
    assert (await run).success
    assert bench.written("seen.json") == {"a": len(CANARY), "b": 2}
    assert b"ansible-playbook" in seen
    assert CANARY.encode() not in seen

    large = _with_spec(first, {"a": "x" * 1_000_000}, ident="second")
    assert (await bench.run(large)).success
    assert bench.written("seen.json") == {"a": 1_000_000, "b": "UNSET"}
    artifacts = bench.settings.runner_dir / "bugs.example.com/v1/Probe/default/probe/artifacts"
    assert {path.name for path in artifacts.iterdir()} == {"latest", "second"}


async def test_a_marked_watch_never_evaluates_what_an_object_says(tmp_path: Path, warm: Warm) -> None:
    """With markUnsafe, templates in spec, annotations and status stay text, in every variable and every copy (P3)."""
    # Keys that would make Ansible read the variables in a form without marks are left out.
    bench = Bench(tmp_path, warm=warm)
    pwned = tmp_path / "PWNED"
    evil = '{{ lookup("pipe", "touch ' + str(pwned) + '") }}'
    spec = {"s": evil, "list": [{"k": "{% for i in range(9) %}x{% endfor %}"}], "alert": "{{ $labels.instance }}"}
    hostile = {"__ansible_unsafe": {"x": 1}, "__ansible_type": "x", "deep": {"__ansible_vault": 1}}
    finalizer = Finalizer(name="bugs.example.com/f", vars={"finalizer_run": True})
    request = bench.request(
        bench.tasks(REPEATS),
        spec={**spec, **hostile},
        vars={"out": str(tmp_path / "out"), "greeting": "hello {{ ansible_operator_meta.name }}"},
        mark_unsafe=True,
        finalizer=finalizer,
    )
    metadata = {**request.obj["metadata"], "annotations": {"note": evil}}
    request = replace(request, obj={**request.obj, "metadata": metadata, "status": {"note": evil}}, finalizing=True)
    assert (await bench.run(request)).success
    seen = bench.written("seen.json")
    assert not pwned.exists()
    assert (seen["plain"], seen["copied"], seen["joined"]) == (evil, evil, f"x{evil}")
    assert seen["items"] == spec["list"]
    assert seen["spec"] == {**spec, "deep": {}}
    assert seen["whole"]["metadata"] == metadata
    assert seen["whole"]["status"] == {"note": evil}
    assert seen["authors"] == "hello probe"
    assert seen["flag"] is True


async def test_a_message_with_braces_does_not_poison_later_runs(tmp_path: Path, warm: Warm) -> None:
    """A status that holds a template is text in an unmarked watch too, and the spec stays a template there (P3)."""
    bench = Bench(tmp_path, warm=warm)
    request = bench.request(
        bench.tasks(REPEATS),
        spec={"s": "{{ 1 + 1 }}", "list": []},
        vars={"out": str(tmp_path / "out"), "greeting": "x"},
    )
    note = "{{ nope }} and {{ lookup('pipe', 'false') }}"
    assert (await bench.run(replace(request, obj={**request.obj, "status": {"note": note}}))).success
    seen = bench.written("seen.json")
    assert seen["plain"] in {"2", 2}
    assert seen["whole"]["status"] == {"note": note}
