"""Changes and deletions that EC2 refuses, and the lag between a launch and its being seen."""

from __future__ import annotations

from typing import Any

from runner.localdev.ec2.control import Ec2Control
from tests.integration.ec2.conftest import Launch, refused

TAG = {"Name": "tag:owner", "Values": ["me"]}


def _found(ec2: Any) -> list[str]:
    answer = ec2.describe_instances(Filters=[TAG])
    return [one["InstanceId"] for reservation in answer["Reservations"] for one in reservation["Instances"]]


def test_a_launch_is_seen_later(ec2: Any, control: Ec2Control, launch: Launch, describe: Any) -> None:
    """A new instance is not found by id, by tag or by its status until the lag is over."""
    control.configure(visible_after=3600)
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "owner", "Value": "me"}]}]
    instance = launch(TagSpecifications=tags, ClientToken="one")["InstanceId"]
    for call in (describe, lambda name: ec2.describe_instance_status(InstanceIds=[name])):
        with refused("InvalidInstanceID.NotFound", match=instance):
            call(instance)
    with refused("InvalidInstanceID.NotFound", match=instance):
        ec2.create_tags(Resources=[instance], Tags=[{"Key": "a", "Value": "b"}])
    assert _found(ec2) == []
    assert [one.id for one in control.instances()] == [instance]
    assert launch(TagSpecifications=tags, ClientToken="one")["InstanceId"] == instance
    control.configure(visible_after=0)
    assert describe(instance)["State"]["Name"] == "running"
    assert _found(ec2) == [instance]


def test_the_lag_does_not_hide_a_launch_from_itself(client: Any, control: Ec2Control, launch: Launch) -> None:
    """A launch with an instance profile works while nobody sees the instance yet."""
    client("iam").create_instance_profile(InstanceProfileName="node")
    control.configure(visible_after=3600)
    assert launch(IamInstanceProfile={"Name": "node"})["IamInstanceProfile"]["Arn"].endswith("/node")


def test_tags_of_unknown_instances(ec2: Any) -> None:
    """An instance that isn't there cannot be tagged."""
    with refused("InvalidInstanceID.NotFound"):
        ec2.create_tags(Resources=["i-0123456789abcdef0"], Tags=[{"Key": "a", "Value": "b"}])


def test_the_type_changes_only_when_stopped(ec2: Any, launch: Launch, describe: Any) -> None:
    """The type of a running instance stays; a stopped one takes any type that there is."""
    instance = launch()["InstanceId"]
    with refused("IncorrectInstanceState", match="'stopped' state"):
        ec2.modify_instance_attribute(InstanceId=instance, InstanceType={"Value": "t3.small"})
    ec2.stop_instances(InstanceIds=[instance])
    with refused("InvalidInstanceAttributeValue"):
        ec2.modify_instance_attribute(InstanceId=instance, InstanceType={"Value": "t3.gigantic"})
    ec2.modify_instance_attribute(InstanceId=instance, InstanceType={"Value": "t3.small"})
    assert describe(instance)["InstanceType"] == "t3.small"


def test_groups_are_replaced_everywhere(ec2: Any, launch: Launch, describe: Any) -> None:
    """New groups show on the instance and on its interface, and the old one is free to go; unknown ones are refused."""
    old, new = (ec2.create_security_group(GroupName=name, Description="d")["GroupId"] for name in ("old", "new"))
    instance = launch(SecurityGroupIds=[old])["InstanceId"]
    with refused("InvalidGroup.NotFound"):
        ec2.modify_instance_attribute(InstanceId=instance, Groups=["sg-0123456789abcdef0"])
    ec2.modify_instance_attribute(InstanceId=instance, Groups=[new])
    seen = describe(instance)
    for shown in (seen["SecurityGroups"], seen["NetworkInterfaces"][0]["Groups"]):
        assert [one["GroupId"] for one in shown] == [new]
    ec2.delete_security_group(GroupId=old)


def test_a_group_in_use_stays(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """A group is not deleted while an instance, an interface or a rule of another group needs it."""
    group = ec2.create_security_group(GroupName="web", Description="d")["GroupId"]
    instance = launch(SecurityGroupIds=[group])["InstanceId"]
    control.configure(shutting_down=3600)
    ec2.terminate_instances(InstanceIds=[instance])
    with refused("DependencyViolation", match=group):
        ec2.delete_security_group(GroupId=group)
    control.reset()
    control.configure(shutting_down=0)

    group = ec2.create_security_group(GroupName="web", Description="d")["GroupId"]
    control.terminate(launch(SecurityGroupIds=[group])["InstanceId"])
    other = ec2.create_security_group(GroupName="other", Description="d")["GroupId"]
    rule = {"IpProtocol": "tcp", "FromPort": 1, "ToPort": 1, "UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=other, IpPermissions=[rule])
    with refused("DependencyViolation"):
        ec2.delete_security_group(GroupId=group)
    ec2.delete_security_group(GroupId=other)

    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    interface = ec2.create_network_interface(SubnetId=subnet, Groups=[group])["NetworkInterface"]
    with refused("DependencyViolation"):
        ec2.delete_security_group(GroupId=group)
    ec2.delete_network_interface(NetworkInterfaceId=interface["NetworkInterfaceId"])


def test_a_group_goes_after_its_instance(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """Once its instance is terminated, a group can be deleted; the default group never."""
    group = ec2.create_security_group(GroupName="web", Description="d")["GroupId"]
    ec2.terminate_instances(InstanceIds=[launch(SecurityGroupIds=[group])["InstanceId"]])
    ec2.delete_security_group(GroupId=group)
    default = ec2.describe_security_groups(GroupNames=["default"])["SecurityGroups"][0]["GroupId"]
    with refused("CannotDelete"):
        ec2.delete_security_group(GroupId=default)
