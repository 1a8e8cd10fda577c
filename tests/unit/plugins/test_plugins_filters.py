"""The filters of the role: what a finalizer has to do, and that results are never templates."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.aws_operator.core.plugins.filter.ec2_instance import FilterModule

from tests.unit.plugins.plugin_builders import ago, make_instance, make_object

FILTERS = FilterModule().filters()


def seen(*instances: dict[str, Any], grace: float = 60.0) -> dict[str, Any]:
    """Return what a run has seen."""
    return {"instances": list(instances), "now": ago(0), "cluster_id": "c1", "grace": grace}


def test_object_without_uid_is_refused() -> None:
    """Without a UID no instance is ever looked for (E3)."""
    with pytest.raises(AnsibleFilterError, match=r"no metadata\.uid"):
        FILTERS["ec2_plan"]({"metadata": {"name": "web"}, "spec": {}}, seen())


def test_plan_has_the_modules_argument_names() -> None:
    """Block devices come out with the names that ec2_launch takes."""
    obj = make_object(spec={"storage": [{"deviceName": "/dev/xvda", "sizeGiB": 9, "deleteOnTermination": True}]})
    plan = FILTERS["ec2_plan"](obj, seen())
    assert plan["storage"] == [{"device_name": "/dev/xvda", "size_gib": 9, "delete_on_termination": True}]


def test_finalizer_ends_every_live_instance_and_waits_for_those_on_their_way() -> None:
    """Live instances are terminated, those that shut down already are waited for, ended ones are left alone."""
    live, going = make_instance(attempt=1), make_instance(attempt=2, state="shutting-down")
    gone = make_instance(attempt=3, state="terminated")
    doomed = FILTERS["ec2_doomed"](make_object(launchAttempt=3), seen(live, going, gone))
    assert doomed["terminate"] == [live["instance_id"]]
    assert doomed["await"] == sorted([live["instance_id"], going["instance_id"]])


def test_finalizer_asks_for_a_recorded_instance_that_is_not_shown() -> None:
    """A recorded id that AWS doesn't show is terminated all the same, and an empty one is never sent (E5)."""
    assert FILTERS["ec2_doomed"](make_object(instanceId="i-00000009"), seen())["terminate"] == ["i-00000009"]
    assert FILTERS["ec2_doomed"](make_object(instanceId=""), seen())["terminate"] == []


@pytest.mark.parametrize(
    ("status", "instances", "undecided"),
    [
        ({}, [], False),
        ({"launchAttempt": 1, "launchRequestedAt": ago(10)}, [], True),
        ({"launchAttempt": 1, "launchRequestedAt": ago(61)}, [], False),
        ({"launchAttempt": 1, "launchRequestedAt": ago(10)}, [make_instance()], False),
        (
            {"launchAttempt": 1, "launchRequestedAt": ago(10), "instanceId": make_instance()["instance_id"]},
            [make_instance(state="terminated")],
            False,
        ),
    ],
)
def test_launch_is_undecided_within_the_grace_period(
    status: dict[str, Any],
    instances: list[dict[str, Any]],
    undecided: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """A launch that was just asked for and shows nothing may still bring an instance (E5)."""
    assert FILTERS["ec2_undecided"](make_object(**status), seen(*instances)) is undecided


def test_remaining_are_all_that_have_not_ended() -> None:
    """An instance that is shutting down still counts."""
    going, gone = make_instance(state="shutting-down"), make_instance(attempt=2, state="terminated")
    assert FILTERS["ec2_remaining"]([going, gone]) == [going]


def test_waiting_finalizer_is_not_ready() -> None:
    """A finalizer that looks again says what it waits for."""
    update = FILTERS["ec2_waiting_status"](make_object(), seen(), reason="StillTerminating", message="soon")
    assert update["conditions"][0]["reason"] == "StillTerminating"
    assert update["status"]["lastCheckedAt"] == ago(0)
