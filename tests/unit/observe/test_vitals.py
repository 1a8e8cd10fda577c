"""The heartbeat of the event loop."""

from __future__ import annotations

from runner.observe.vitals import Heartbeat
from runner.testing.clock import FakeClock


async def test_the_age_grows_only_while_the_loop_does_not_turn() -> None:
    """Each beat starts the age anew; a heartbeat that was ended grows old."""
    clock = FakeClock()
    heartbeat = Heartbeat(clock=clock, interval=1.0)
    await heartbeat.start()
    await clock.advance(100.5)
    assert heartbeat.age == 0.5
    await heartbeat.stop()
    await clock.advance(40)
    assert heartbeat.age == 40.5
