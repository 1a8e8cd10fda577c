"""Label selectors and the exception for objects in deletion."""

from __future__ import annotations

import pytest

from runner.errors import ConfigError
from runner.kube.objects import GVK
from runner.watches.matching import holds, matches, serves
from runner.watches.model import Content, Finalizer, LabelRequirement, Watch


def requirement(operator: str, *values: str) -> LabelRequirement:
    """Build a requirement on label `t`."""
    return LabelRequirement(key="t", operator=operator, values=values)


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ("a", "b"), {"t": "a"}, True),
        ("In", ("a", "b"), {"t": "c"}, False),
        ("In", ("a",), {}, False),
        ("NotIn", ("a",), {"t": "b"}, True),
        ("NotIn", ("a",), {"t": "a"}, False),
        ("NotIn", ("a",), {}, True),
        ("Exists", (), {"t": ""}, True),
        ("Exists", (), {"u": "1"}, False),
        ("DoesNotExist", (), {}, True),
        ("DoesNotExist", (), {"t": "a"}, False),
    ],
)
def test_each_operator_means_what_kubernetes_means(
    operator: str, values: tuple[str, ...], labels: dict[str, str], *, expected: bool
) -> None:
    """In, NotIn, Exists and DoesNotExist judge a label as Kubernetes does."""
    assert matches([requirement(operator, *values)], labels=labels) is expected


def test_all_requirements_must_be_met() -> None:
    """A selector with several entries takes only objects that meet them all; an empty one takes everything."""
    both = [requirement("Exists"), LabelRequirement(key="u", operator="In", values=("1",))]
    assert matches(both, labels={"t": "", "u": "1"})
    assert not matches(both, labels={"t": ""})
    assert matches([], labels={})


def test_an_unknown_operator_is_a_config_error() -> None:
    """A wrong operator is named together with the right ones."""
    with pytest.raises(ConfigError, match="'Like' of key 't' is unknown; use In, NotIn"):
        matches([requirement("Like", "a")], labels={"t": "a"})


def test_a_watch_serves_matching_objects_and_those_that_it_must_finalize() -> None:
    """An object in deletion with the watch's finalizer is served whatever its labels are."""
    watch = Watch(
        gvk=GVK("g", "v1", "K"),
        content=Content(),
        selector=(requirement("In", "a"),),
        finalizer=Finalizer(name="example.com/f"),
    )
    held = {"metadata": {"labels": {"t": "b"}, "finalizers": ["x/y", "example.com/f"]}}
    assert serves(watch, {"metadata": {"labels": {"t": "a"}}})
    assert holds(watch, held)
    assert not serves(watch, held)
    assert serves(watch, {"metadata": {**held["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})


def test_a_watch_without_finalizer_holds_nothing() -> None:
    """Foreign finalizers are not the watch's."""
    watch = Watch(gvk=GVK("g", "v1", "K"), content=Content())
    assert not holds(watch, {"metadata": {"finalizers": ["x/y"]}})
