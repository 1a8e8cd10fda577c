"""Settings are frozen values with the peer's defaults."""

from __future__ import annotations

import dataclasses
import os
from datetime import timedelta
from pathlib import Path

import pytest

from runner.settings import ExecutionSettings, KubeSettings, LeaderElectionSettings, Settings, environment


def test_the_defaults_are_the_peers() -> None:
    """Ten hours, two `v`s, all namespaces, one worker per processor, tasks logged, thirty seconds of grace."""
    settings = Settings()

    assert settings.watches_file == Path("./watches.yaml")
    assert settings.namespaces == ()
    assert settings.reconcile_period == timedelta(hours=10)
    assert settings.max_concurrent_reconciles == len(os.sched_getaffinity(0))
    assert settings.ansible_verbosity == 2
    assert settings.graceful_shutdown_timeout == 30
    assert (settings.log_level, settings.ansible_log_events) == ("info", "tasks")
    assert (settings.serving.health_probe_bind_address, settings.serving.metrics_bind_address) == (":6789", ":8443")
    assert (settings.proxy.port, settings.proxy.inject_owner_references) == (8888, True)
    assert settings.leader_election == LeaderElectionSettings(
        enabled=False, id="", namespace="", lease_duration=15, renew_deadline=10
    )
    assert settings.execution.runner_dir == Path("/tmp/ansible-operator/runner")  # noqa: S108 - the peer's path


def test_settings_cannot_be_changed() -> None:
    """A part that wants another value takes a copy."""
    settings = Settings()

    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.log_level = "debug"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.kube.kubeconfig = "/x"  # type: ignore[misc]
    assert dataclasses.replace(settings, log_level="debug").log_level == "debug"


def test_settings_are_values() -> None:
    """Equal settings are equal, whatever made them."""
    assert Settings(kube=KubeSettings(kubeconfig="/x")) == Settings(kube=KubeSettings(kubeconfig="/x"))
    assert Settings() != Settings(execution=ExecutionSettings(debug_logs=True))


def test_the_environment_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes in the process later does not change what a part was given."""
    monkeypatch.setenv("SETTINGS_TEST", "before")
    taken = environment()
    monkeypatch.setenv("SETTINGS_TEST", "after")

    assert taken["SETTINGS_TEST"] == "before"
    assert environment()["SETTINGS_TEST"] == "after"
