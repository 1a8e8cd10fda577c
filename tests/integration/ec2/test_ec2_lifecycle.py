"""States of instances as callers of the AWS API see them."""

from __future__ import annotations

from typing import Any

import pytest

from runner.localdev.ec2.control import Ec2Control
from runner.testing.waiting import eventually
from tests.integration.ec2.conftest import Launch, refused

FOR_EVER = 3600.0


def _ids(ec2: Any, *states: str) -> list[str]:
    answer = ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": list(states)}])
    return [one["InstanceId"] for reservation in answer["Reservations"] for one in reservation["Instances"]]


async def test_pending_lasts(ec2: Any, control: Ec2Control, launch: Launch, describe: Any) -> None:
    """A launched instance is pending for the configured time, then running."""
    control.configure(pending=0.2)
    started = launch()
    assert (started["State"]["Name"], started["State"]["Code"]) == ("pending", 0)
    await eventually(lambda: describe(started["InstanceId"])["State"] == {"Code": 16, "Name": "running"})


def test_pending_has_no_address(control: Ec2Control, launch: Launch, describe: Any) -> None:
    """A pending instance has no public address anywhere; a running one has it on itself and on its interface."""
    control.configure(pending=FOR_EVER)
    young = describe(launch()["InstanceId"])
    assert "PublicIpAddress" not in young
    assert not young.get("PublicDnsName")
    assert "Association" not in young["NetworkInterfaces"][0]
    control.configure(pending=0)
    up = describe(launch()["InstanceId"])
    assert up["NetworkInterfaces"][0]["Association"]["PublicIp"] == up["PublicIpAddress"]


def test_filters_agree_with_the_state_shown(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """A filter by state finds an instance under the state that Describe shows, and only there."""
    control.configure(pending=FOR_EVER)
    young = launch()["InstanceId"]
    control.configure(pending=0)
    up = launch()["InstanceId"]
    assert (_ids(ec2, "pending"), _ids(ec2, "running")) == ([young], [up])
    assert _ids(ec2, "stopping", "stopped", "shutting-down", "terminated") == []


def test_waiters_wait(ec2: Any, control: Ec2Control, launch: Launch, describe: Any) -> None:
    """boto3's waiters return once the state is there, through the whole life of an instance."""
    control.configure(pending=0.1, stopping=0.1, shutting_down=0.1)
    instance = launch()["InstanceId"]
    fast = {"Delay": 1, "MaxAttempts": 60}
    steps = [
        ("instance_running", None),
        ("instance_stopped", ec2.stop_instances),
        ("instance_running", ec2.start_instances),
        ("instance_terminated", ec2.terminate_instances),
    ]
    for waiter, change in steps:
        if change is not None:
            change(InstanceIds=[instance])
        ec2.get_waiter(waiter).wait(InstanceIds=[instance], WaiterConfig={**fast, "Delay": 0.2})
        assert describe(instance)["State"]["Name"] == waiter.removeprefix("instance_")


def test_answers_tell_the_present_state(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """Stop, start and terminate answer with the state before and the state now, also when nothing changes."""
    instance = launch()["InstanceId"]

    def change(verb: str, key: str) -> tuple[str, str]:
        item = getattr(ec2, f"{verb}_instances")(InstanceIds=[instance])[key][0]
        return item["PreviousState"]["Name"], item["CurrentState"]["Name"]

    assert change("start", "StartingInstances") == ("running", "running")
    assert change("stop", "StoppingInstances") == ("running", "stopped")
    assert change("stop", "StoppingInstances") == ("stopped", "stopped")
    control.configure(shutting_down=FOR_EVER)
    assert change("terminate", "TerminatingInstances") == ("stopped", "shutting-down")
    assert change("terminate", "TerminatingInstances") == ("shutting-down", "shutting-down")


def test_a_second_start_keeps_the_address(ec2: Any, launch: Launch, describe: Any) -> None:
    """Starting what runs already changes nothing; a real restart gives a new public address."""
    instance = launch()["InstanceId"]
    first = describe(instance)["PublicIpAddress"]
    ec2.start_instances(InstanceIds=[instance])
    assert describe(instance)["PublicIpAddress"] == first
    ec2.stop_instances(InstanceIds=[instance])
    assert "PublicIpAddress" not in describe(instance)
    ec2.start_instances(InstanceIds=[instance])
    assert describe(instance)["PublicIpAddress"] != first


def test_changes_that_do_not_go_with_the_state(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """A change that EC2 refuses in a state is IncorrectInstanceState."""
    control.configure(pending=FOR_EVER)
    young = launch()["InstanceId"]
    with refused("IncorrectInstanceState", match="never reached the 'running' state"):
        ec2.stop_instances(InstanceIds=[young])
    control.configure(pending=0)
    gone = launch()["InstanceId"]
    ec2.terminate_instances(InstanceIds=[gone])
    for verb in ("start", "stop", "reboot"):
        with refused("IncorrectInstanceState", match=gone):
            getattr(ec2, f"{verb}_instances")(InstanceIds=[gone])


def test_one_wrong_instance_fails_the_whole_request(ec2: Any, launch: Launch, describe: Any) -> None:
    """Of several instances none is changed where one cannot be."""
    gone, up = launch()["InstanceId"], launch()["InstanceId"]
    ec2.terminate_instances(InstanceIds=[gone])
    with refused("IncorrectInstanceState"):
        ec2.stop_instances(InstanceIds=[up, gone])
    with refused("InvalidInstanceID.NotFound"):
        ec2.terminate_instances(InstanceIds=[up, "i-0123456789abcdef0"])
    assert describe(up)["State"]["Name"] == "running"


def test_a_reboot_stays_running(ec2: Any, control: Ec2Control, launch: Launch, describe: Any) -> None:
    """A reboot doesn't leave the running state."""
    instance = launch()["InstanceId"]
    control.configure(pending=FOR_EVER)
    ec2.reboot_instances(InstanceIds=[instance])
    assert describe(instance)["State"]["Name"] == "running"


def test_terminated_instances_are_seen_for_a_while(
    ec2: Any, control: Ec2Control, launch: Launch, describe: Any
) -> None:
    """A terminated instance is described with its tags for an hour, then EC2 knows it no more."""
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "name", "Value": "old"}]}]
    instance = launch(TagSpecifications=tags)["InstanceId"]
    ec2.terminate_instances(InstanceIds=[instance])
    seen = describe(instance)
    assert (seen["State"]["Name"], seen["Tags"][0]["Value"]) == ("terminated", "old")
    assert seen["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    control.configure(terminated_visible=0)
    with refused("InvalidInstanceID.NotFound"):
        describe(instance)
    assert _ids(ec2, "terminated") == []
    assert control.instance(instance).state == "terminated"


def test_termination_takes_along_what_the_launch_made(ec2: Any, launch: Launch) -> None:
    """Root volume and network interface go with their instance."""
    ec2.terminate_instances(InstanceIds=[launch()["InstanceId"]])
    assert ec2.describe_volumes()["Volumes"] == []
    assert ec2.describe_network_interfaces()["NetworkInterfaces"] == []


def test_termination_protection(ec2: Any, launch: Launch, describe: Any) -> None:
    """A protected instance, protected by its launch or later, isn't terminated until the protection is lifted."""
    instance = launch(DisableApiTermination=True)["InstanceId"]
    attribute = ec2.describe_instance_attribute(InstanceId=instance, Attribute="disableApiTermination")
    assert attribute["DisableApiTermination"]["Value"] is True
    with refused("OperationNotPermitted", match="disableApiTermination"):
        ec2.terminate_instances(InstanceIds=[instance])
    assert describe(instance)["State"]["Name"] == "running"
    ec2.modify_instance_attribute(InstanceId=instance, DisableApiTermination={"Value": False})
    ec2.terminate_instances(InstanceIds=[instance])
    assert describe(instance)["State"]["Name"] == "terminated"


def test_protection_spares_the_zone(ec2: Any, launch: Launch, describe: Any) -> None:
    """One protected instance spares those of its zone in the same request; those of other zones are terminated."""
    zone_a, zone_b = {"AvailabilityZone": "us-east-1a"}, {"AvailabilityZone": "us-east-1b"}
    protected = launch(DisableApiTermination=True, Placement=zone_a)["InstanceId"]
    beside, elsewhere = launch(Placement=zone_a)["InstanceId"], launch(Placement=zone_b)["InstanceId"]
    with refused("OperationNotPermitted"):
        ec2.terminate_instances(InstanceIds=[beside, protected, elsewhere])
    assert describe(beside)["State"]["Name"] == "running"
    assert describe(elsewhere)["State"]["Name"] == "terminated"


@pytest.mark.parametrize("verb", ["terminate_instances", "describe_instances", "stop_instances"])
def test_ids_that_are_none(ec2: Any, launch: Launch, describe: Any, verb: str) -> None:
    """An empty or misshapen id is refused and hits no other instance."""
    up = launch()["InstanceId"]
    for wrong in ("", "web-1", "i-xyz"):
        with refused("InvalidInstanceID.Malformed"):
            getattr(ec2, verb)(InstanceIds=[wrong])
    assert describe(up)["State"]["Name"] == "running"
