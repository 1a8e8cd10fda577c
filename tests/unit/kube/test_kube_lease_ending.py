"""How leadership ends: by failing renewals, by another holder, by a stop, by a process that stood still."""

from __future__ import annotations

import pytest

from runner.settings import LeaderElectionSettings
from tests.unit.kube.lease_cluster import DOWN, Cluster, Seat


@pytest.mark.parametrize("begin", [0.1, 1.0, 1.9, 3.5])
@pytest.mark.parametrize("fault", ["refuses", "hangs"])
async def test_a_blip_shorter_than_the_deadline_costs_nothing(cluster: Cluster, begin: float, fault: str) -> None:
    """A leader without the API server for less than the renew deadline goes on leading, whenever it begins."""
    seat = await cluster.leader()
    await cluster.clock.advance(begin)
    _break(seat, fault)
    await cluster.clock.advance(9.8)
    seat.client.refusal, seat.client.hangs = None, False
    await cluster.clock.advance(5)
    assert seat.leads()
    assert seat.changes == [False, True]


@pytest.mark.parametrize("fault", ["refuses", "hangs"])
async def test_after_the_deadline_leadership_is_lost(cluster: Cluster, fault: str) -> None:
    """A leader that cannot renew gives up after the renew deadline, and seconds before others may begin."""
    seat = await cluster.leader()
    _break(seat, fault)
    await cluster.clock.advance(11.9)
    assert not seat.lost()
    await cluster.clock.advance(0.2)
    assert seat.lost()
    assert seat.changes == [False, True, False]
    assert seat.sink.sentences()[-1] == "The lease could not be renewed in time"


async def test_a_late_deadline_still_ends_before_the_lease(cluster: Cluster) -> None:
    """Where deadline and duration are close, half of what is between them is left for ending the work."""
    settings = LeaderElectionSettings(enabled=True, id="lock", namespace="ops", lease_duration=15, renew_deadline=14)
    seat = cluster.seat(settings=settings)
    seat.lead()
    await cluster.clock.settle()
    seat.client.refusal = DOWN
    await cluster.clock.advance(14.4)
    assert not seat.lost()
    await cluster.clock.advance(0.2)
    assert seat.lost()


async def test_a_stolen_lease_ends_leadership_at_the_next_renewal(cluster: Cluster) -> None:
    """A leader that reads another holder stops at once, and never touches the Lease again."""
    seat = await cluster.leader()
    cluster.put(holderIdentity="thief", leaseDurationSeconds=15, leaseTransitions=9)
    await cluster.clock.advance(2)
    assert seat.lost()
    assert {"level": "error", "holder": "thief"}.items() <= dict(seat.sink.records[-1]).items()
    await seat.stop()
    assert cluster.spec == {"holderIdentity": "thief", "leaseDurationSeconds": 15, "leaseTransitions": 9}
    assert seat.said == ["a became leader", "a stopped leading"]


async def test_a_deleted_lease_is_made_again(cluster: Cluster) -> None:
    """A leader whose Lease was deleted makes a new one and leads on."""
    seat = await cluster.leader()
    cluster.leases.remove(namespace="ops", name="lock")
    await cluster.clock.advance(2)
    assert cluster.spec["holderIdentity"] == "a"
    assert not seat.lost()


async def test_a_deleted_lease_that_another_makes_is_lost(cluster: Cluster) -> None:
    """A leader whose Lease was deleted and made anew by another stops."""
    seat = await cluster.leader()
    cluster.leases.remove(namespace="ops", name="lock")
    await cluster.leader("b")
    await cluster.clock.advance(2)
    assert seat.lost()
    assert cluster.spec["holderIdentity"] == "b"


async def test_an_own_write_whose_answer_was_lost_is_known_again(cluster: Cluster) -> None:
    """Writes that were done though no answer came are neither another's nor a new term."""
    seat = cluster.seat()
    seat.client.loses_answers = True
    seat.lead()
    await cluster.clock.advance(1)
    assert cluster.spec["holderIdentity"] == "a"
    assert not seat.leads()
    seat.client.loses_answers = False
    await cluster.clock.advance(1)
    assert seat.leads()
    seat.client.loses_answers = True
    await cluster.clock.advance(2)
    seat.client.loses_answers = False
    await cluster.clock.advance(3)
    assert not seat.lost()
    assert cluster.spec["leaseTransitions"] == 0
    assert cluster.spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"


async def test_a_released_lease_has_no_holder(cluster: Cluster) -> None:
    """Releasing empties the holder as client-go does, and the next one leads at its next look."""
    seat, other = await cluster.leader(), cluster.seat("b")
    other.lead()
    await cluster.clock.advance(1)
    await seat.stop()
    assert cluster.spec["holderIdentity"] == ""
    assert cluster.spec["leaseDurationSeconds"] == 1
    assert cluster.spec["leaseTransitions"] == 0
    assert seat.changes == [False, True, False]
    assert seat.said == ["a became leader", "a stopped leading"]
    await cluster.clock.advance(1)
    assert other.leads()
    assert cluster.spec["leaseTransitions"] == 1


async def test_only_an_own_lease_is_released(cluster: Cluster) -> None:
    """A leader that is stopped before it could notice another holder leaves the Lease alone."""
    seat = await cluster.leader()
    cluster.put(holderIdentity="thief", leaseDurationSeconds=15)
    await seat.stop()
    assert cluster.spec == {"holderIdentity": "thief", "leaseDurationSeconds": 15}


async def test_nothing_is_released_after_a_loss(cluster: Cluster) -> None:
    """A leader that lost by the deadline does not touch the Lease on its way out."""
    seat = await cluster.leader()
    seat.client.refusal = DOWN
    await cluster.clock.advance(13)
    assert seat.lost()
    seat.client.refusal = None
    seat.client.calls.clear()
    await seat.stop()
    assert seat.client.calls == []


async def test_a_standby_that_stops_touches_nothing(cluster: Cluster) -> None:
    """A standby releases without a request and without an Event."""
    await cluster.leader()
    standby = cluster.seat("b")
    standby.lead()
    await cluster.clock.advance(3)
    standby.client.calls.clear()
    await standby.stop()
    assert standby.client.calls == []
    assert standby.said == []
    assert cluster.spec["holderIdentity"] == "a"


async def test_a_lease_taken_in_the_last_moment_is_given_back(cluster: Cluster) -> None:
    """An instance that is stopped while its creation has no answer yet gives the Lease back."""
    seat = cluster.seat()
    seat.client.loses_answers = True
    seat.lead()
    await cluster.clock.settle()
    assert cluster.spec["holderIdentity"] == "a"
    seat.client.loses_answers = False
    await seat.stop()
    assert cluster.spec["holderIdentity"] == ""


async def test_a_release_that_fails_is_only_told(cluster: Cluster) -> None:
    """An API server that is down keeps nobody from stopping."""
    seat = await cluster.leader()
    seat.client.refusal = DOWN
    await seat.stop()
    assert seat.sink.sentences()[-1] == "The lease is not released and runs out by itself"


async def test_a_process_that_stood_still_has_lost(cluster: Cluster) -> None:
    """After a pause longer than the lease the leader may not write, and stops without asking."""
    seat = await cluster.leader()
    await cluster.clock.advance(3)
    assert not seat.fenced()
    cluster.clock.skip(14.1)
    assert seat.fenced()
    seat.client.calls.clear()
    await cluster.clock.advance(1)
    assert seat.lost()
    assert seat.client.calls == []


async def test_a_process_that_stood_still_for_less_asks(cluster: Cluster) -> None:
    """After a pause past the deadline but within the lease one renewal is tried."""
    seat = await cluster.leader()
    cluster.clock.skip(12)
    await cluster.clock.advance(2)
    assert not seat.lost()
    assert seat.elector.valid_until == 29


async def test_the_fence_is_open_until_leadership_ends(cluster: Cluster) -> None:
    """A standby is not fenced, a leader is not, and one that led is."""
    seat = cluster.seat()
    assert not seat.fenced()
    seat.lead()
    await cluster.clock.settle()
    assert not seat.fenced()
    await seat.stop()
    assert seat.fenced()


def _break(seat: Seat, fault: str) -> None:
    seat.client.refusal, seat.client.hangs = (DOWN, False) if fault == "refuses" else (None, True)
