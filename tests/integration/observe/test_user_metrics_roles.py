"""Metrics that tasks send with `operator_sdk.util.osdk_metric`, from a real run to the operator's `/metrics`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.assembly import cold_executor
from runner.assembly.run_access import RunAccess
from runner.clock import SystemClock
from runner.execution.executor import Executor
from runner.logs import Logger, RecordingSink
from runner.observe.metrics import Metrics
from runner.settings import ExecutionSettings, Settings, environment
from runner.testing.cluster import wait_until
from runner.watches.model import Content, Watch
from tests.integration.observe.conftest import WIDGETS, RunScraped, Widgets

TASKS = """
- hosts: localhost
  gather_facts: false
  tasks:
  - operator_sdk.util.osdk_metric: "{{ {'description': 'A test', 'address': address} | combine(item) }}"
    loop:
    - {name: sanity_counter, counter: {}}
    - {name: sanity_gauge, gauge: {}}
    - {name: sanity_histogram, histogram: {}}
    - {name: sanity_summary, summary: {}}
    - {name: counter_inc_test, counter: {increment: true}}
    - {name: counter_add_test, counter: {add: 2}}
    - {name: gauge_set_test, gauge: {set: 5}}
    - {name: gauge_add_test, gauge: {add: 7}}
    - {name: gauge_sub_test, gauge: {subtract: 7}}
    - {name: gauge_time_test, gauge: {set_to_current_time: true}}
    - {name: summary_test, summary: {observe: 2}}
    - {name: histogram_test, histogram: {observe: 2}}
  - operator_sdk.util.osdk_metric:
      name: sanity_counter
      description: Another kind
      address: "{{ address }}"
      gauge: {}
    ignore_errors: true
    register: refused
  - ansible.builtin.assert:
      that:
      - refused.status_code == 400
      - "'cannot change metric type of sanity_counter, which is a counter' in refused.msg"
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Keep the temporary files of runs in the test's folder."""
    (tmp_path / "scratch").mkdir()
    previous, tempfile.tempdir = tempfile.tempdir, str(tmp_path / "scratch")
    yield tmp_path
    tempfile.tempdir = previous


async def test_tasks_make_metrics(widgets: Widgets, run_scraped: RunScraped, settings: Settings, scratch: Path) -> None:
    """Every kind and operation of the module arrives on the page with the peer's values."""
    playbook = scratch / "playbook.yml"
    playbook.write_text(TASKS)
    execution = ExecutionSettings(runner_dir=scratch / "runner", environ=environment())

    def executor(access: RunAccess) -> Executor:
        return cold_executor(
            settings=replace(settings, execution=execution),
            access=access,
            logger=Logger(sink=RecordingSink()),
            clock=SystemClock(),
        )

    variables: dict[str, str] = {}
    watch = Watch(gvk=WIDGETS, content=Content(playbook=playbook), vars=variables)
    async with run_scraped([watch], executor=executor) as scraped:
        variables["address"] = f"http://localhost:{scraped.user_metrics.port}/metrics"
        await widgets.create("one")

        async def finished() -> bool:
            return "ansible_operator_reconcile_result{" in await scraped.text()

        await wait_until(finished, what="the run", limit=300)
        text = await scraped.text()
    assert 'result="succeeded"} 1\n' in text
    lines = text.splitlines()
    expected = {
        "sanity_counter 0",
        "sanity_gauge 0",
        "counter_inc_test 1",
        "counter_add_test 2",
        "gauge_set_test 5",
        "gauge_add_test 7",
        "gauge_sub_test -7",
        "summary_test_sum 2",
        "histogram_test_sum 2",
    }
    assert expected - set(lines) == set()
    assert "# TYPE counter_inc_test counter" in lines
    assert "# TYPE sanity_summary summary" in lines
    assert any(line.startswith("sanity_histogram_bucket{") for line in lines)
    assert any(line.startswith("gauge_time_test 1") for line in lines)


async def test_a_run_is_told_where_its_operator_takes_metrics(
    widgets: Widgets, run_scraped: RunScraped, settings: Settings, scratch: Path
) -> None:
    """A task without an address reaches the operator that runs it, whatever its --user-metrics-bind-address."""
    playbook = scratch / "playbook.yml"
    playbook.write_text(
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n"
        "  - operator_sdk.util.osdk_metric: {name: told_test, description: A test, gauge: {set: 5}}\n"
    )
    execution = ExecutionSettings(runner_dir=scratch / "runner", environ=environment())
    metrics = Metrics()

    def executor(access: RunAccess) -> Executor:
        return cold_executor(
            settings=replace(settings, execution=execution),
            access=access,
            logger=Logger(sink=RecordingSink()),
            clock=SystemClock(),
            metrics=metrics,
        )

    watch = Watch(gvk=WIDGETS, content=Content(playbook=playbook))
    async with run_scraped([watch], executor=executor, metrics=metrics) as scraped:
        await widgets.create("one")

        async def told() -> bool:
            return "\ntold_test 5\n" in await scraped.text()

        await wait_until(told, what="the metric", limit=300)
