"""What a reconcile knows of the object that it works on."""

from __future__ import annotations

from typing import Any

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.logs import Logger
from runner.reconcile.context import Context
from runner.workqueue.request import Request

_KIND = GVK("bugs.example.com", "v1", "Probe")


def context(*, generation: int, subresources: frozenset[str], **obj: Any) -> Context:
    """Return the context of an object."""
    resource = Resource(gvk=_KIND, plural="probes", subresources=subresources)
    request = Request(_KIND, "ns", "one")
    return Context(request=request, log=Logger(), resource=resource, obj=obj, generation=generation)


def test_the_wish_is_the_generation() -> None:
    """Where only the spec moves the generation, it tells whether something new is asked for."""
    usual = context(generation=7, subresources=frozenset({"status", "scale"}), spec={"n": 1})
    assert usual.wish == 7
    assert not usual.counts_status


def test_a_generation_that_counts_status_is_no_wish() -> None:
    """Without status subresource the content tells it, whatever generation, status and metadata are (case ST4)."""
    none: frozenset[str] = frozenset()
    first = context(generation=7, subresources=none, spec={"n": 1}, status={"a": 1}, metadata={"generation": 7})
    second = context(generation=9, subresources=none, spec={"n": 1}, status={"b": 2}, metadata={"generation": 9})
    edited = context(generation=9, subresources=none, spec={"n": 2}, status={"b": 2}, metadata={"generation": 9})
    assert first.counts_status
    assert first.wish == second.wish != edited.wish


def test_a_kind_without_generation_wishes_by_its_content() -> None:
    """An edited Secret starts its back-off anew (case W1)."""
    none: frozenset[str] = frozenset()
    before = context(generation=0, subresources=none, data={"k": "v"}, metadata={"resourceVersion": "1"})
    touched = context(generation=0, subresources=none, data={"k": "v"}, metadata={"resourceVersion": "2"})
    edited = context(generation=0, subresources=none, data={"k": "w"}, metadata={"resourceVersion": "3"})
    assert before.wish == touched.wish != edited.wish
