"""The metrics of Python handlers."""

from __future__ import annotations

from runner.observe.metrics import Metrics


def test_without_handlers_there_are_no_series() -> None:
    """An alert on handlers that don't run must not fire where there are none."""
    assert "handler" not in Metrics().text()


def test_files_restarts_and_failures_are_told() -> None:
    """Whether a file's handlers run is read at each scrape; restarts begin at zero."""
    metrics, running = Metrics(), [True]
    metrics.handlers.running_when("/h/a.py", lambda: running[0])
    metrics.handlers.failed("see")
    metrics.handlers.failed("see")
    lines = metrics.text().splitlines()
    assert 'ansible_operator_handlers_running{file="/h/a.py"} 1' in lines
    assert 'ansible_operator_handlers_restarts_total{file="/h/a.py"} 0' in lines
    assert 'ansible_operator_handler_errors_total{handler="see"} 2' in lines
    running[0] = False
    metrics.handlers.restarted("/h/a.py")
    lines = metrics.text().splitlines()
    assert 'ansible_operator_handlers_running{file="/h/a.py"} 0' in lines
    assert 'ansible_operator_handlers_restarts_total{file="/h/a.py"} 1' in lines
