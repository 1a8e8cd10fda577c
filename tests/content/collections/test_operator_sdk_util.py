"""The rules of our `operator_sdk.util` modules: conditions, what counts as a change, the shape of an Event."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.operator_sdk.util.plugins.module_utils import api
from ansible_collections.operator_sdk.util.plugins.module_utils.conditions import merged, validated
from ansible_collections.operator_sdk.util.plugins.modules import k8s_event, k8s_status

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "AllThere",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
CURRENT = {"url": "x", "hosts": ["a", "b"], "conditions": [{"type": "Running", "status": "True"}, READY]}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"reason": "not one word"}, "Condition 'reason' must be a single, CamelCase word"),
        ({"reason": "With-Dash"}, "Condition 'reason' must be a single, CamelCase word"),
        ({"lastTransitionTime": "26/03/2021 2:00PM"}, "'lastTransitionTime' must be an RFC3339 compliant datetime"),
        ({"lastHeartbeatTime": "2026-01-01"}, "'lastHeartbeatTime' must be an RFC3339 compliant datetime string"),
    ],
)
def test_a_condition_outside_the_conventions_is_refused(change: dict[str, str], problem: str) -> None:
    """The result's `error` names the field and what it may be; roles compare these sentences."""
    with pytest.raises(api.Failure, match="The specified conditions failed to validate") as refused:
        k8s_status.wanted_status({"conditions": [{"type": "Ready", "status": "True", **change}]})
    assert problem in refused.value.details["error"]


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01 00:00:00+00:00", "2026-01-01T00:00:00.123+01:00"])
def test_times_may_be_written_as_the_date_command_does(time: str) -> None:
    """Both separators, fractions and offsets are RFC 3339; what was not given is left out."""
    given = {"type": "A", "status": "True", "lastTransitionTime": time, "reason": None}
    assert validated([given]) == [{"type": "A", "status": "True", "lastTransitionTime": time}]


def test_conditions_are_merged_by_type_and_keep_their_places() -> None:
    """A known type is replaced where it stands, the first one too; a new one comes last."""
    old = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]
    new = [{"type": "C", "status": "True"}, {"type": "A", "status": "False"}]
    assert merged(old, new) == [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}, new[0]]


def test_a_condition_that_says_nothing_new_keeps_its_time() -> None:
    """Another lastTransitionTime alone is no transition; a new reason is one, and then the given condition stands."""
    later = {**READY, "lastTransitionTime": "2027-01-01T00:00:00Z"}
    assert merged([READY], [later]) == [READY]
    assert merged([READY], [{**later, "reason": "Other"}]) == [{**later, "reason": "Other"}]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"url": "x"},
        {"gone": None},
        {"hosts": ["b"]},
        {"conditions": [READY]},
        {"conditions": [{key: READY[key] for key in READY if key != "lastTransitionTime"}]},
    ],
)
def test_what_is_there_already_changes_nothing(wanted: dict[str, Any]) -> None:
    """Equal keys, an absent key's removal, items that are there, an equal condition with or without its time."""
    assert k8s_status.next_status(copy.deepcopy(CURRENT), wanted, params={}) is None


def test_replace_lists_wants_a_list_to_be_equal() -> None:
    """A list that has more than was asked for is then replaced; the conditions are merged as ever."""
    params = {"replace_lists": True}
    changed = k8s_status.next_status(copy.deepcopy(CURRENT), {"hosts": ["b"]}, params=params)
    assert changed == {**CURRENT, "hosts": ["b"]}
    assert k8s_status.next_status(copy.deepcopy(CURRENT), {"hosts": ["a", "b"]}, params=params) is None
    assert k8s_status.next_status(copy.deepcopy(CURRENT), {"conditions": [READY]}, params=params) is None


def test_a_changed_condition_keeps_the_other_keys() -> None:
    """Merging touches what was asked for."""
    changed = {"type": "Ready", "status": "False"}
    assert k8s_status.next_status(copy.deepcopy(CURRENT), {"conditions": [changed]}, params={}) == {
        **CURRENT,
        "conditions": [{"type": "Running", "status": "True"}, changed],
    }


def test_replace_replaces_everything() -> None:
    """The status becomes what was given, and an equal one is no change."""
    params = {"replace": True}
    assert k8s_status.next_status(copy.deepcopy(CURRENT), {"url": "x"}, params=params) == {"url": "x"}
    assert k8s_status.next_status(copy.deepcopy(CURRENT), copy.deepcopy(CURRENT), params=params) is None


def test_conditions_may_be_given_in_one_place_only() -> None:
    """The same key in both arguments is a contradiction; in `status` they are taken as they are."""
    given = [{"type": "A", "status": "True"}]
    words = "You cannot specify conditions in both the 'status' and 'conditions' parameters"
    with pytest.raises(api.Failure, match=words):
        k8s_status.wanted_status({"status": {"conditions": given}, "conditions": given})
    unusual = [{"type": "A", "status": "True", "observedGeneration": 3}]
    assert k8s_status.wanted_status({"status": {"conditions": unusual}}) == {"conditions": unusual}


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


@pytest.mark.parametrize(
    ("arguments", "enough"),
    [
        ({"host": "h"}, True),
        ({"host": "h", "api_key": "k", "kubeconfig": "f"}, True),
        ({"host": "h", "username": "u", "password": "p", "kubeconfig": "f"}, True),
        ({"host": "h", "kubeconfig": "f"}, False),
        ({"api_key": "k"}, False),
        ({}, False),
    ],
)
def test_a_host_with_a_login_needs_no_kubeconfig(arguments: dict[str, str], enough: bool) -> None:  # noqa: FBT001 - a row of the table
    """A kubeconfig's certificates never mix with an identity that was given in the arguments."""
    assert api._says_all(arguments) is enough
