"""Leader election, rule by rule, on Leases in memory and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from runner.errors import Forbidden, LeaderElectionLost, NotFound
from runner.kube.lease import Candidate, Elector, Hooks
from runner.kube.lease_record import LEASES
from runner.kube.objects import Object
from runner.logs import Logger, RecordingSink
from runner.settings import LeaderElectionSettings
from runner.testing.leases import FakeLeases, LeaseContract, LeaseSite
from tests.unit.kube.lease_cluster import CALL, DOWN, SETTINGS, Cluster, Seat


class TestFakeLeases(LeaseContract):
    """The Leases in memory keep the contract of the API server's."""

    @pytest.fixture
    def site(self) -> LeaseSite:
        """Give Leases in memory."""
        leases = FakeLeases()

        async def remove(name: str) -> None:
            leases.remove(namespace="ops", name=name)

        return LeaseSite(client=leases.connection(), namespace="ops", remove=remove)


async def test_a_lease_is_made_where_there_is_none(cluster: Cluster) -> None:
    """The first instance creates the Lease with client-go's fields, and leads."""
    seat = await cluster.leader("host_1")
    assert cluster.spec == {
        "holderIdentity": "host_1",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    assert seat.changes == [False, True]
    assert seat.said == ["host_1 became leader"]
    assert seat.sink.sentences() == ["Attempting to acquire leader lease...", "Successfully acquired lease"]
    assert {record["lock"] for record in seat.sink.records} == {"ops/lock"}


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": ""}, {"holderIdentity": "", "leaseDurationSeconds": 15}])
async def test_a_free_lease_is_taken_at_once(cluster: Cluster, spec: Object) -> None:
    """A Lease that was made beforehand, or released, is taken at the first look; what else is in it stays."""
    cluster.put(**spec, preferredHolder="x", leaseTransitions=4)
    cluster.leases.stored["ops", "lock"]["metadata"]["labels"] = {"team": "red"}
    await cluster.leader()
    assert cluster.spec["leaseTransitions"] == 5
    assert cluster.spec["preferredHolder"] == "x"
    assert cluster.leases.stored["ops", "lock"]["metadata"]["labels"] == {"team": "red"}


async def test_a_lease_without_a_duration_holds_nobody_off(cluster: Cluster) -> None:
    """A holder who doesn't say for how long is no holder, as with client-go."""
    cluster.put(holderIdentity="x")
    await cluster.leader()


@pytest.mark.parametrize("renewed", ["2020-01-01T00:00:00.000000Z", "2036-01-01T00:00:00.000000Z"])
async def test_anothers_lease_runs_out_by_our_clock(cluster: Cluster, renewed: str) -> None:
    """A silent holder is believed for its own duration from our first look, whatever its clock wrote."""
    cluster.put(holderIdentity="x", leaseDurationSeconds=40, renewTime=renewed, leaseTransitions=2)
    seat = cluster.seat()
    seat.lead()
    await cluster.clock.advance(39.9)
    assert not seat.leads()
    await cluster.clock.advance(0.2)
    assert seat.leads()
    assert cluster.spec["leaseTransitions"] == 3


async def test_a_renewal_starts_the_wait_anew(cluster: Cluster) -> None:
    """A standby waits the whole duration from the last renewal that it saw; a label is no renewal."""
    cluster.put(holderIdentity="x", leaseDurationSeconds=15, renewTime="1")
    seat = cluster.seat()
    seat.lead()
    await cluster.clock.advance(9)
    cluster.put(holderIdentity="x", leaseDurationSeconds=15, renewTime="2")
    await cluster.clock.advance(10)  # seen at 10
    stored = cluster.leases.stored["ops", "lock"]
    cluster.leases.put({**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}})
    await cluster.clock.advance(5.9)  # 24.9
    assert not seat.leads()
    await cluster.clock.advance(1.2)  # 26.1: the first look after 25
    assert seat.leads()


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, 1.0), (0.5, 1.3), (1.0, 1.6)])
async def test_candidates_look_again_in_less_than_two_seconds_with_jitter(
    cluster: Cluster, jitter: float, seconds: float
) -> None:
    """A candidate tries every half retry period of 2 s, and up to 0.6 s later, so that no gap is longer than 2 s."""
    cluster.put(holderIdentity="x", leaseDurationSeconds=15)
    seat = cluster.seat(jitter=jitter)
    seat.lead()
    await cluster.clock.advance(seconds - 0.01)
    assert len(seat.client.calls) == 1
    await cluster.clock.advance(0.02)
    assert len(seat.client.calls) == 2


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
async def test_a_standby_leads_within_two_seconds_of_a_clean_stop(cluster: Cluster, jitter: float) -> None:
    """Whenever the leader gives the Lease back, the next one has it before two seconds are over."""
    for passed in (0.0, 0.4, 0.9, 1.1, 1.59):
        leader = await cluster.leader()
        standby = cluster.seat(f"standby-{passed}", jitter=jitter)
        standby.lead()
        await cluster.clock.advance(20 + passed)
        assert leader.leads()
        assert not standby.leads()
        await leader.stop()
        await cluster.clock.advance(2)
        assert standby.leads()
        await standby.stop()


async def test_of_two_who_come_together_one_leads(cluster: Cluster) -> None:
    """Two instances that find no Lease, and then the same free one, become one leader each time."""
    first, second = cluster.seat("a"), cluster.seat("b")
    first.lead()
    second.lead()
    await cluster.clock.settle()
    assert [first.leads(), second.leads()].count(True) == 1
    loser = second if first.leads() else first
    assert loser.sink.sentences()[-1] == "Another instance leads; this one waits"
    third, fourth = cluster.seat("c"), cluster.seat("d")
    cluster.put(holderIdentity="")
    third.lead()
    fourth.lead()
    await cluster.clock.settle()
    assert [third.leads(), fourth.leads()].count(True) == 1


async def test_the_leader_renews(cluster: Cluster) -> None:
    """A renewal is one request that moves renewTime; acquireTime and transitions stay."""
    seat = await cluster.leader()
    before = dict(cluster.spec)
    seat.client.calls.clear()
    await cluster.clock.advance(2)
    assert seat.client.calls == ["update"]
    assert cluster.spec == {**before, "renewTime": "2026-01-01T00:00:02.000000Z"}
    assert seat.elector.valid_until == 17


async def test_a_part_of_a_second_is_rounded_up_for_others(cluster: Cluster) -> None:
    """Others wait a whole second where the holder counts a part of it."""
    settings = LeaderElectionSettings(enabled=True, id="lock", namespace="ops", lease_duration=1.5, renew_deadline=1)
    seat = cluster.seat(settings=settings)
    seat.lead()
    await cluster.clock.settle()
    assert cluster.spec["leaseDurationSeconds"] == 2
    assert seat.elector.valid_until == 1.5


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Forbidden("no", call=CALL), "get, create and update on leases.coordination.k8s.io in namespace ops"),
        (DOWN, "cannot be read or written"),
    ],
)
async def test_trouble_while_acquiring_is_told_once_and_tried_again(
    cluster: Cluster, error: Forbidden, words: str
) -> None:
    """A missing right is named in one line, and the instance leads as soon as it is granted."""
    seat = cluster.seat()
    seat.client.refusal = error
    seat.lead()
    await cluster.clock.advance(20)
    told = [record for record in seat.sink.records if record["level"] == "error"]
    assert len(told) == 1
    assert words in told[0]["msg"]
    seat.client.refusal = None
    await cluster.clock.advance(2)
    assert seat.leads()


def _known(seat: Seat) -> tuple[bool, str]:
    """Return whether another instance leads, and the trouble."""
    return seat.elector.another_leads, seat.elector.trouble


async def test_another_leads_only_while_its_time_is_not_over(cluster: Cluster) -> None:
    """Who was seen to lead is believed to until its Lease has run out unread; then the trouble is all that is known."""
    cluster.put(holderIdentity="x", leaseDurationSeconds=15)
    seat = cluster.seat()
    assert _known(seat) == (False, "")
    seat.lead()
    await cluster.clock.settle()
    assert _known(seat) == (True, "")
    seat.client.refusal = DOWN
    await cluster.clock.advance(14.9)
    assert _known(seat)[0]
    await cluster.clock.advance(0.2)
    assert _known(seat) == (False, "The Lease cannot be read or written; it is tried again")
    cluster.put(holderIdentity="y", leaseDurationSeconds=15)
    seat.client.refusal = None
    await cluster.clock.advance(2)
    assert _known(seat) == (True, "")


async def test_who_leads_itself_sees_no_other(cluster: Cluster) -> None:
    """Nor does it tell of trouble that is over."""
    seat = cluster.seat()
    seat.client.refusal = DOWN
    seat.lead()
    await cluster.clock.settle()
    assert _known(seat) == (False, "The Lease cannot be read or written; it is tried again")
    seat.client.refusal = None
    await cluster.clock.advance(2)
    assert (seat.leads(), *_known(seat)) == (True, False, "")


async def test_a_namespace_that_is_missing_is_named(cluster: Cluster) -> None:
    """A 404 of the creation names the namespace and the flag."""
    seat = cluster.seat()
    seat.client.refusal = NotFound("namespaces ops not found", call=CALL, status=404)
    seat.lead()
    await cluster.clock.settle()
    sentence = seat.sink.sentences()[-1]
    assert "namespace ops" in sentence
    assert "--leader-election-namespace" in sentence


async def test_a_standby_tells_once_who_leads(cluster: Cluster) -> None:
    """The log of a standby names the leader, once per leader."""
    cluster.put(holderIdentity="x", leaseDurationSeconds=15)
    seat = cluster.seat()
    seat.lead()
    await cluster.clock.advance(6)
    cluster.put(holderIdentity="y", leaseDurationSeconds=15)
    await cluster.clock.advance(6)
    assert [record["holder"] for record in seat.sink.records if "holder" in record] == ["x", "y"]


async def test_an_announcement_that_hangs_keeps_nobody_from_renewing() -> None:
    """Events are told beside the election."""
    cluster = Cluster()
    never = asyncio.Event()

    async def announce(_lease: Object, _message: str) -> None:
        await never.wait()

    elector = Elector(
        client=cluster.leases.connection(),
        candidate=Candidate(identity="a", settings=SETTINGS),
        clock=cluster.clock,
        random=lambda: 0.0,
        logger=Logger(sink=RecordingSink()),
        hooks=Hooks(announce=announce),
    )
    await elector.acquire()
    holding = asyncio.create_task(elector.hold())
    await cluster.clock.advance(4)
    assert cluster.spec["renewTime"] == "2026-01-01T00:00:04.000000Z"
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    never.set()
    await elector.release()


@pytest.mark.parametrize("seed", range(5))
async def test_there_are_never_two_leaders(seed: int) -> None:
    """Whatever breaks and whoever stops, at each moment at most one instance leads with a valid lease."""
    dice, cluster = random.Random(seed), Cluster()  # noqa: S311 - the same faults each time
    seats = [cluster.seat(name, jitter=dice.random()) for name in "abc"]
    for seat in seats:
        seat.lead()
    terms: set[str] = set()
    for _ in range(600):
        await cluster.clock.advance(0.5)
        leading = [seat for seat in seats if seat.leads() and not seat.fenced()]
        assert len(leading) <= 1
        terms |= {str(cluster.leases.stored["ops", "lock"]["spec"]["leaseTransitions"])} if leading else set()
        seat = dice.choice(seats)
        seat.client.refusal = DOWN if dice.random() < 0.1 else seat.client.refusal if dice.random() < 0.9 else None
        seat.client.hangs = dice.random() < 0.05 or (seat.client.hangs and dice.random() < 0.9)
        seat.client.loses_answers = dice.random() < 0.1
        for number, ended in enumerate(seats):
            if ended.lost() or (ended.leads() and dice.random() < 0.005):
                await _stopped(ended)
                seats[number] = cluster.seat(f"{len(cluster.seats)}", jitter=dice.random())
                seats[number].lead()
    assert len(terms) > 3
    for seat in seats:
        await _stopped(seat)


async def _stopped(seat: Seat) -> None:
    seat.client.hangs = False
    with contextlib.suppress(LeaderElectionLost):
        await seat.stop()


async def test_the_lease_is_addressed_by_its_group() -> None:
    """The resource of Leases is coordination.k8s.io/v1."""
    assert LEASES.path(namespace="ops", name="lock") == "/apis/coordination.k8s.io/v1/namespaces/ops/leases/lock"
