"""The token bucket, the call log and the fault table on a clock by hand."""

from __future__ import annotations

from runner.localdev.ec2.aws_request import Call
from runner.localdev.ec2.call_log import CallLog
from runner.localdev.ec2.faults import Fault, FaultTable
from runner.localdev.ec2.refusals import malformed_id
from runner.localdev.ec2.throttle import TokenBucket
from runner.testing.clock import FakeClock


def _call(action: str = "DescribeVpcs", **params: str) -> Call:
    return Call(service="ec2", region="us-east-1", action=action, params=params)


async def test_the_bucket_refills_at_its_rate() -> None:
    """After the burst calls pass at the rate; what isn't used adds up to the burst and no further."""
    clock = FakeClock()
    bucket = TokenBucket(clock)
    bucket.limit(rate=2, burst=3)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    await clock.advance(0.5)
    assert [bucket.take() for _ in range(2)] == [True, False]
    await clock.advance(60)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


def test_no_rate_is_no_limit() -> None:
    """A bucket without a rate lets everything pass."""
    bucket = TokenBucket(FakeClock())
    assert all(bucket.take() for _ in range(100))


def test_a_running_call_has_no_status() -> None:
    """A call is in the log from its arrival; its outcome follows."""
    log = CallLog(FakeClock())
    number = log.begin(_call())
    assert [(one.status, one.executed) for one in log.since()] == [(None, None)]
    log.end(number, status=200, code="", executed=True)
    assert [(one.status, one.executed) for one in log.since()] == [(200, True)]


def test_the_end_of_a_cleared_call_is_forgotten() -> None:
    """A call that ends after the log was cleared leaves the younger ones as they are."""
    log = CallLog(FakeClock())
    old = log.begin(_call())
    log.clear()
    log.end(old, status=200, code="", executed=True)
    young = log.begin(_call())
    log.end(old, status=200, code="", executed=True)
    assert [(one.sequence, one.status) for one in log.since()] == [(young, None)]


def test_the_oldest_fault_comes_first() -> None:
    """Of several faults that fit, the oldest is used up first."""
    faults = FaultTable()
    faults.add(Fault(action="*", code="First"))
    faults.add(Fault(action="DescribeVpcs", code="Second"))
    hits = [faults.take(_call()) for _ in range(3)]
    assert [hit and hit.fault.code for hit in hits] == ["First", "Second", None]


def test_every_match_must_fit() -> None:
    """A fault hits only calls that have all its parameters."""
    fault = Fault(action="RunInstances", code="Oops", match={"InstanceType": "t3.micro", "Tag.*.Value": "x"})
    assert fault.hits(_call("RunInstances", **{"InstanceType": "t3.micro", "Tag.7.Value": "x"}))
    assert not fault.hits(_call("RunInstances", InstanceType="t3.micro"))
    assert not fault.hits(_call("StartInstances", **{"InstanceType": "t3.micro", "Tag.7.Value": "x"}))


def test_deleted_faults_let_calls_go_on() -> None:
    """A call that a fault holds up goes on at once when the faults are deleted, even just before it waits."""
    faults = FaultTable()
    faults.add(Fault(action="*", delay=3600))
    hit = faults.take(_call())
    assert hit is not None
    faults.clear()
    hit.hold_up()


def test_ids_that_are_none() -> None:
    """An instance id of another shape, and the empty one, is told; both lengths of real ids pass."""
    for right in ("i-0123abcd", "i-0123456789abcdef0"):
        assert malformed_id(_call(**{"InstanceId.1": right, "InstanceId": right})) is None
    for wrong in ("", "i-", "i-0123456789ABCDEF0", "web"):
        refusal = malformed_id(_call(**{"InstanceId.2": wrong}))
        assert refusal is not None
        assert refusal.code == "InvalidInstanceID.Malformed"
