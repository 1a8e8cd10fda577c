"""What the timeline of a reconcile reads in the kernel's trace."""

from __future__ import annotations

from tools.bench.ftrace import Slice, Trace, parse

_TEXT = """# tracer: nop
          <idle>-0       [001] d..2. 10.000100: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=notify-rs inoti next_pid=7 next_prio=120
 notify-rs inoti-7       [001] ..... 10.000200: sched_process_fork: comm=notify-rs inoti pid=7 child_comm=notify-rs inoti child_pid=8
          <idle>-0       [000] d..2. 10.000250: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=ansible-playboo next_pid=9 next_prio=120
 ansible-playboo-9       [000] d.... 10.000300: sched_process_exit: comm=ansible-playboo pid=9 prio=120 group_dead=false
 ansible-playboo-9       [000] d..2. 10.000400: sched_switch: prev_comm=ansible-playboo prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
 ansible-playboo-10      [000] d.... 10.000500: sched_process_exit: comm=ansible-playboo pid=10 prio=120 group_dead=true
 notify-rs inoti-7       [001] d..2. 10.000600: sched_switch: prev_comm=notify-rs inoti prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=ansible-playboo next_pid=9 next_prio=120
 ansible-playboo-9       [001] d..2. 10.000900: sched_switch: prev_comm=ansible-playboo prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
"""  # noqa: E501 - as the kernel writes it


def test_processors_times_forks_and_exits_are_read() -> None:
    """Each processor's turns are kept apart, names may have blanks, and only a process's last thread ends it."""
    trace = Trace()
    parse(_TEXT, into=trace)
    found = sorted((one for one in trace.slices if one.pid), key=lambda one: one.begin)
    assert found == [
        Slice(pid=7, name="notify-rs inoti", begin=10.0001, end=10.0006),
        Slice(pid=9, name="ansible-playboo", begin=10.00025, end=10.0004),
        Slice(pid=9, name="ansible-playboo", begin=10.0006, end=10.0009),
    ]
    assert trace.forks == [(10.0002, 7, 8)]
    assert trace.exits == {10: 10.0005}
    assert trace.first(9, after=10.0003) == 10.0006
    assert trace.first(9, after=11.0) is None
