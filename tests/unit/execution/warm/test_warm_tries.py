"""How often a fork server that can't be started, or dies, is tried again, and which of its failures are told."""

from __future__ import annotations

from runner.execution.warm.tries import Tries


def _delay(failures: int) -> float:
    return 2.0**failures


def test_starts_that_fail_are_tried_ever_more_seldom_up_to_ten_minutes() -> None:
    """Each costs seconds of the processor, and nothing changes by itself."""
    tries = Tries(delay=_delay)
    pauses = [tries.pause]
    for _ in range(12):
        tries.start_failed("no such library")
        pauses.append(tries.pause)
    assert pauses == [0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]


def test_servers_that_die_young_are_followed_within_a_minute() -> None:
    """They were ready, so the next one will be, too; one that was steady is followed at once."""
    tries = Tries(delay=_delay)
    for _ in range(12):
        tries.died(steady=False)
    assert tries.pause == 60
    tries.died(steady=True)
    assert tries.pause == 0


def test_after_a_change_there_is_no_pause() -> None:
    """What changed may have been the reason."""
    tries = Tries(delay=_delay)
    tries.start_failed("no such library")
    tries.changed()
    assert tries.pause == 0


def test_a_reason_is_news_once() -> None:
    """Process ids and addresses make no other reason, a line of a file does, and so does a start that went well."""
    tries = Tries(delay=_delay)
    assert tries.start_failed("process 12345 at 0x7f00aa: bad line 3")
    assert not tries.start_failed("process 12346 at 0x7f00ab: bad line 3")
    assert tries.start_failed("process 12345 at 0x7f00aa: bad line 4")
    assert not tries.start_failed("process 12347 at 0x7f00aa: bad line 3")
    tries.started()
    assert tries.start_failed("process 12345 at 0x7f00aa: bad line 3")
