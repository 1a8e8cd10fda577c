"""Which of several watches on one object owns its status and its finalizer (field case W3)."""

from __future__ import annotations

from dataclasses import replace

from runner.kube.objects import GVK, Object
from runner.watches.model import Content, Finalizer, LabelRequirement, Watch
from runner.watches.ownership import earlier_of_kind, narrowed

ONE = Watch(gvk=GVK("example.com", "v1", "Widget"), content=Content())
TWO = replace(ONE, gvk=GVK("example.com", "v2", "Widget"))
FIRST = Finalizer(name="example.com/first")
SECOND = Finalizer(name="example.com/second")


def widget(*, finalizers: tuple[str, ...] = (), labels: dict[str, str] | None = None, deleting: bool = False) -> Object:
    """Return an object."""
    metadata: Object = {"name": "a", "uid": "1", "finalizers": list(finalizers), "labels": labels or {}}
    return {"metadata": {**metadata, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})}}


def test_watches_of_other_groups_and_kinds_do_not_count() -> None:
    """Only an earlier watch of the same group and kind sees the same objects."""
    other_group = replace(ONE, gvk=GVK("example.org", "v1", "Widget"))
    other_kind = replace(ONE, gvk=GVK("example.com", "v1", "Gadget"))
    watches = [other_group, ONE, other_kind, TWO]
    assert [earlier_of_kind(watches, number=number) for number in range(4)] == [(), (), (), (ONE,)]


def test_the_first_watch_keeps_everything() -> None:
    """A watch without an earlier one is left as it is."""
    watch = replace(ONE, finalizer=FIRST)
    assert narrowed(watch, earlier=(), obj=widget()) is watch


def test_the_second_watch_writes_no_conditions_and_adds_no_finalizer() -> None:
    """Both belong to the first in the file."""
    first, second = replace(ONE, finalizer=FIRST), replace(TWO, finalizer=SECOND)
    left = narrowed(second, earlier=(first,), obj=widget())
    assert (left.manage_status, left.finalizer) == (False, None)


def test_what_the_first_watch_does_not_want_is_left_to_the_second() -> None:
    """Status and finalizer are owned separately, each by the first watch that has it."""
    first, second = replace(ONE, manage_status=False), replace(TWO, finalizer=SECOND)
    left = narrowed(second, earlier=(first,), obj=widget())
    assert (left.manage_status, left.finalizer) == (True, SECOND)
    left = narrowed(second, earlier=(ONE,), obj=widget())
    assert (left.manage_status, left.finalizer) == (False, SECOND)


def test_a_watch_whose_selector_does_not_match_owns_nothing() -> None:
    """Where the first watch does not serve the object, the second one has all of it."""
    first = replace(ONE, finalizer=FIRST, selector=(LabelRequirement(key="t", operator="Exists"),))
    second = replace(TWO, finalizer=SECOND)
    assert narrowed(second, earlier=(first,), obj=widget()) is second
    assert not narrowed(second, earlier=(first,), obj=widget(labels={"t": "1"})).manage_status


def test_a_finalizer_that_is_on_the_object_all_the_same_stays_its_watchs() -> None:
    """One that came there under another order of the file is still taken off, or the object could never go."""
    first, second = replace(ONE, finalizer=FIRST), replace(TWO, finalizer=SECOND)
    obj = widget(finalizers=(FIRST.name, SECOND.name), deleting=True)
    assert narrowed(second, earlier=(first,), obj=obj).finalizer == SECOND


def test_one_finalizer_name_in_two_watches_is_the_firsts() -> None:
    """The second watch neither runs nor removes a finalizer of the first one's name."""
    first, second = replace(ONE, finalizer=FIRST), replace(TWO, finalizer=FIRST)
    obj = widget(finalizers=(FIRST.name,), deleting=True)
    assert narrowed(second, earlier=(first,), obj=obj).finalizer is None
