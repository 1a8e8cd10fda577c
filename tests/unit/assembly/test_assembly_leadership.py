"""From settings to an election: names, namespaces, and none where none is asked for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from runner.assembly.leadership import Election, LeaseLeadership, build_leadership, resolve
from runner.assembly.operator import AlwaysLeading
from runner.clock import SystemClock
from runner.errors import ConfigError, LeaderElectionLost
from runner.kube.client import KubeClient
from runner.kube.lease import Candidate, Elector
from runner.logs import Logger, RecordingSink
from runner.settings import KubeSettings, LeaderElectionSettings, Settings
from runner.testing.clock import FakeClock
from runner.testing.leases import FakeLeases


def _settings(id: str = "lock", *, namespace: str = "") -> LeaderElectionSettings:  # noqa: A002 - the flag's name
    return LeaderElectionSettings(enabled=True, id=id, namespace=namespace)


def test_the_flag_names_the_namespace(tmp_path: Path) -> None:
    """A namespace that is given goes before the pod's own."""
    (tmp_path / "namespace").write_text("pods-own")
    assert resolve(_settings(namespace="given"), pod_namespace=tmp_path / "namespace").namespace == "given"


def test_the_pod_s_namespace_is_the_default(tmp_path: Path) -> None:
    """Without the flag it is the namespace of the service account."""
    (tmp_path / "namespace").write_text("pods-own\n")
    assert resolve(_settings(), pod_namespace=tmp_path / "namespace").namespace == "pods-own"


def test_no_namespace_at_all_is_refused(tmp_path: Path) -> None:
    """Outside of a cluster the flag is asked for by name."""
    with pytest.raises(ConfigError, match="--leader-election-namespace=NAME"):
        resolve(_settings(), pod_namespace=tmp_path / "namespace")


@pytest.mark.parametrize("name", ["My-Op", "my_op", "-op", "op-", "x" * 254])
def test_a_name_that_no_lease_can_have_is_refused(name: str) -> None:
    """The API server's rule for names is told at the start."""
    with pytest.raises(ConfigError, match="--leader-election-id"):
        resolve(_settings(name, namespace="ops"))


@pytest.mark.parametrize("name", ["op", "my-op.example.com", "2f9b8d3c.example.com", "x" * 253])
def test_names_of_the_field_are_taken(name: str) -> None:
    """Names such as operator-sdk's scaffold makes pass."""
    assert resolve(_settings(name, namespace="ops")).id == name


async def test_without_the_flag_there_is_no_election() -> None:
    """An operator that is not asked to elect always leads, and is never fenced."""
    leadership = build_leadership(Settings(), election=_election())
    assert isinstance(leadership, AlwaysLeading)
    assert not leadership.fenced()


async def test_with_the_flag_there_is_one() -> None:
    """An operator that is asked to elect has an elector, and doesn't lead yet."""
    settings = Settings(leader_election=_settings(namespace="ops"))
    leadership = build_leadership(settings, election=_election())
    assert isinstance(leadership, LeaseLeadership)
    assert not leadership.leading


async def test_a_process_that_hangs_after_the_loss_is_ended() -> None:
    """After the loss runs are shut out and the process has a few seconds; then a thread ends it, and logs why."""
    leases, clock, sink, ended = FakeLeases(), FakeClock(), RecordingSink(), asyncio.Event()
    told: list[str] = []
    loop = asyncio.get_running_loop()

    def end_now() -> None:
        loop.call_soon_threadsafe(ended.set)

    elector = Elector(
        client=leases.connection(),
        candidate=Candidate(identity="a", settings=_settings(namespace="ops")),
        clock=clock,
        random=lambda: 0.0,
        logger=Logger(sink=sink),
    )
    leadership = LeaseLeadership(
        elector=elector,
        end_now=end_now,
        logger=Logger(sink=sink),
        on_loss=lambda: told.append("lost"),
        exit_limit=0.01,
    )
    await leadership.acquire()
    leases.put({**leases.stored["ops", "lock"], "spec": {"holderIdentity": "thief"}})
    holding = asyncio.create_task(leadership.hold())
    assert told == []
    await clock.advance(2)
    with pytest.raises(LeaderElectionLost):
        await holding
    assert told == ["lost"]
    assert leadership.fenced()
    async with asyncio.timeout(60):
        await ended.wait()
    assert str(sink.records[-1]["error"]) == "leader election lost"


def _election() -> Election:
    return Election(
        client=KubeClient(settings=KubeSettings()),
        clock=SystemClock(),
        logger=Logger(sink=RecordingSink()),
        end_now=lambda: None,
    )


@pytest.mark.parametrize("name", ["a..b", "a.-b", "A", "a-", "", "a/b", "a" * 254, "a\n"])
def test_an_id_that_no_lease_can_have_is_refused(name: str) -> None:
    """The sentence names the flag, before anything is asked of the API server."""
    with pytest.raises(ConfigError, match="--leader-election-id"):
        resolve(replace(_settings(namespace="ops"), id=name))


@pytest.mark.parametrize("namespace", ["A_B/../default", "a.b", "a" * 64, "-a", "a\n"])
def test_a_namespace_that_cannot_be_is_refused(namespace: str) -> None:
    """The sentence names the flag."""
    with pytest.raises(ConfigError, match="--leader-election-namespace"):
        resolve(_settings(namespace=namespace))


def test_names_that_can_be_are_taken() -> None:
    """A Lease has a DNS subdomain for its name, a namespace one label of up to 63 characters."""
    settings = replace(_settings(namespace="a" * 63), id="a-b.c.0")
    assert resolve(settings) == settings
