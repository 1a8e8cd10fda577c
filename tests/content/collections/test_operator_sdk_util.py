"""The rules of our `operator_sdk.util` modules: conditions, what counts as a change, the shape of an Event."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.operator_sdk.util.plugins.module_utils.conditions import merged, validated
from ansible_collections.operator_sdk.util.plugins.modules import k8s_event, k8s_status

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "AllThere",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
CURRENT = {"url": "x", "conditions": [{"type": "Running", "status": "True"}, READY]}


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("Ready", "must be a list of objects"),
        ({"type": "Ready"}, "`status` must be set"),
        ({"status": "True"}, "`type` must be set"),
        ({"type": "Ready", "status": "Maybe"}, "must be one of True, False, Unknown, not Maybe"),
        ({"type": "Ready", "status": "True", "reason": "not one word"}, "single, CamelCase word"),
        ({"type": "Ready", "status": "True", "colour": "red"}, "colour is not a valid field"),
        ({"type": "Ready", "status": "True", "lastTransitionTime": "today"}, "RFC3339"),
        ({"type": "Ready", "status": "True", "lastHeartbeatTime": "today"}, "RFC3339"),
    ],
)
def test_a_condition_outside_the_conventions_is_refused(condition: Any, problem: str) -> None:
    """The message names the field and what it may be."""
    with pytest.raises(ValueError, match=problem):
        validated([condition])


def test_a_boolean_status_becomes_text() -> None:
    """YAML's true is what people write, and the API wants "True"."""
    assert validated([{"type": "A", "status": True}, {"type": "B", "status": False}]) == [
        {"type": "A", "status": "True"},
        {"type": "B", "status": "False"},
    ]


def test_conditions_are_merged_by_type_and_keep_their_places() -> None:
    """A known type is replaced where it stands, the first one too; a new one comes last."""
    old = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]
    new = [{"type": "C", "status": "True"}, {"type": "A", "status": "False"}]
    assert merged(old, new) == [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}, new[0]]


@pytest.mark.parametrize(
    "wanted",
    [
        {"url": "x"},
        {"gone": None},
        {"conditions": [READY]},
        {"conditions": [{key: READY[key] for key in READY if key != "lastTransitionTime"}]},
    ],
)
def test_what_is_there_already_changes_nothing(wanted: dict[str, Any]) -> None:
    """Equal keys, the removal of an absent key and an equal condition, with or without its time, are no change."""
    assert k8s_status.next_status(copy.deepcopy(CURRENT), wanted, force=False) is None


def test_a_changed_condition_keeps_the_other_keys() -> None:
    """Merging touches what was asked for."""
    changed = {"type": "Ready", "status": "False"}
    assert k8s_status.next_status(copy.deepcopy(CURRENT), {"conditions": [changed]}, force=False) == {
        "url": "x",
        "conditions": [{"type": "Running", "status": "True"}, changed],
    }


def test_force_replaces_everything() -> None:
    """With force the status becomes what was given, and an equal one is no change."""
    assert k8s_status.next_status(copy.deepcopy(CURRENT), {"url": "x"}, force=True) == {"url": "x"}
    assert k8s_status.next_status(copy.deepcopy(CURRENT), copy.deepcopy(CURRENT), force=True) is None


def test_conditions_may_be_given_in_one_place_only() -> None:
    """The same key in both arguments is a contradiction."""
    given = [{"type": "A", "status": "True"}]
    with pytest.raises(ValueError, match="in both"):
        k8s_status.wanted_status({"status": {"conditions": given}, "conditions": given})
    assert k8s_status.wanted_status({"status": {"conditions": given}}) == {"conditions": given}


def test_an_event_of_the_same_reason_is_counted_up() -> None:
    """The first time stays; another reason starts anew."""
    params = {"name": "e", "namespace": "n", "message": "m", "reason": "Moved"}
    prior = {"reason": "Moved", "count": 2, "firstTimestamp": "then"}

    def body(prior: dict[str, Any] | None) -> tuple[int, str]:
        event = k8s_event.event_body(params, name="e", involved={}, prior=prior, now="now")
        return event["count"], event["firstTimestamp"]

    assert body(None) == (1, "now")
    assert body(prior) == (3, "then")
    assert body({**prior, "reason": "Other"}) == (1, "now")


def test_a_time_stamp_makes_the_events_name_unique() -> None:
    """Two names differ, and both are names that the API accepts."""
    params = {"name": "e", "appendTimestamp": True}
    names = {k8s_event.event_name(params) for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("e.") and name.replace(".", "").isalnum() and name.islower() for name in names)
