"""RunInstances: client tokens, names that EC2 doesn't know, and what a launch brings along."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.faults import Fault
from tests.integration.ec2.conftest import ARM_IMAGE, IMAGE, Client, Launch, refused


def test_the_same_token_gives_the_same_instance(control: Ec2Control, launch: Launch) -> None:
    """A repeated launch answers with the first one's instance, in its present state."""
    control.configure(pending=3600)
    first = launch(ClientToken="one")
    again = launch(ClientToken="one")
    assert again["InstanceId"] == first["InstanceId"]
    assert again["ClientToken"] == "one"
    assert len(control.instances()) == 1


def test_a_repeated_launch_shows_the_present_state(control: Ec2Control, launch: Launch) -> None:
    """What was stopped since is told as stopped by the repeated launch."""
    instance = launch(ClientToken="one")["InstanceId"]
    control.stop(instance)
    assert launch(ClientToken="one")["State"]["Name"] == "stopped"


def test_the_same_token_at_the_same_moment(control: Ec2Control, launch: Launch) -> None:
    """Of launches with one token that come together, all get one instance."""
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: launch(ClientToken="one")["InstanceId"], range(16)))
    assert ids == {one.id for one in control.instances()}
    assert len(ids) == 1


def test_launches_at_the_same_moment(control: Ec2Control, launch: Launch) -> None:
    """Launches with tokens of their own that come together get as many instances, each with its own address."""
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda number: launch(ClientToken=f"t{number}")["InstanceId"], range(16)))
    there = control.instances()
    assert len(ids) == len({one.private_ip for one in there}) == len(there) == 16


def test_other_parameters(control: Ec2Control, launch: Launch) -> None:
    """The token of another request is refused and launches nothing."""
    launch(ClientToken="one")
    with refused("IdempotentParameterMismatch"):
        launch(ClientToken="one", InstanceType="t3.small")
    assert len(control.instances()) == 1


def test_after_the_termination(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """The token of a terminated instance is refused for good."""
    instance = launch(ClientToken="one")["InstanceId"]
    control.configure(shutting_down=3600)
    ec2.terminate_instances(InstanceIds=[instance])
    assert launch(ClientToken="one")["State"]["Name"] == "shutting-down"
    control.reset()
    instance = launch(ClientToken="one")["InstanceId"]
    control.configure(shutting_down=0)
    control.terminate(instance)
    with refused("IdempotentInstanceTerminated"):
        launch(ClientToken="one")
    assert len(control.instances()) == 1


def test_a_token_holds_in_its_region_and_zone(client: Client, control: Ec2Control, launch: Launch) -> None:
    """Another region, and another zone that the request names, is another launch."""
    west = client("ec2", "eu-west-1")
    launch(ClientToken="one")
    west.run_instances(ImageId=IMAGE, InstanceType="t3.micro", MinCount=1, MaxCount=1, ClientToken="one")
    for zone in ("us-east-1a", "us-east-1b", "us-east-1b"):
        launch(ClientToken="one", Placement={"AvailabilityZone": zone})
    assert [one.zone for one in control.instances()].count("us-east-1b") == 1
    assert len(control.instances()) == 4


def test_a_subnet_names_its_zone(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """A token holds for the zone of the request's subnet; another subnet there is another parameter."""
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    default = ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": ["us-east-1b"]}])["Subnets"][0]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="172.31.200.0/24", AvailabilityZone="us-east-1b")["Subnet"]
    launch(ClientToken="one", SubnetId=default["SubnetId"])
    with refused("IdempotentParameterMismatch"):
        launch(ClientToken="one", SubnetId=made["SubnetId"])
    assert len(control.instances()) == 1


def test_no_capacity_uses_up_the_parameters(control: Ec2Control, launch: Launch) -> None:
    """After a lack of capacity the token is good for the same request only."""
    control.add_fault(Fault(action="RunInstances", code="InsufficientInstanceCapacity"))
    with refused("InsufficientInstanceCapacity", status=500):
        launch(ClientToken="one")
    with refused("IdempotentParameterMismatch"):
        launch(ClientToken="one", InstanceType="t3.small")
    assert launch(ClientToken="one")["InstanceId"] == control.instances()[0].id


def test_a_refused_launch_leaves_the_token_free(launch: Launch) -> None:
    """A token whose request was wrong is good for the mended request."""
    with refused("InvalidAMIID.NotFound"):
        launch(ClientToken="one", ImageId="ami-0123456789abcdef0")
    launch(ClientToken="one")


def _found(ec2: Any, *tokens: str) -> list[str]:
    answer = ec2.describe_instances(Filters=[{"Name": "client-token", "Values": [*tokens]}])
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    return sorted(one["InstanceId"] for reservation in answer["Reservations"] for one in reservation["Instances"])


def test_an_instance_is_found_by_its_token(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """A filter by client token finds what was launched with it, terminated or not, and nothing else."""
    one, two = (launch(ClientToken=token)["InstanceId"] for token in ("one", "two"))
    launch()
    launch(ClientToken="one")
    assert _found(ec2, "one") == [one]
    assert _found(ec2, "one", "two", "three") == sorted([one, two])
    control.terminate(one)
    assert _found(ec2, "one") == [one]


def test_a_failed_launch_is_not_found_by_its_token(ec2: Any, launch: Launch) -> None:
    """A filter by the token of a launch that was refused finds nothing, beside other instances."""
    launch(ClientToken="other")
    launch()
    with refused("InvalidAMIID.NotFound"):
        launch(ClientToken="one", ImageId="ami-0123456789abcdef0")
    with refused("InvalidKeyPair.NotFound"):
        launch(ClientToken="one", KeyName="nobody")
    assert _found(ec2, "one") == []


def test_the_token_of_a_young_instance(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """An instance that callers don't see yet isn't found by its token either."""
    control.configure(visible_after=3600)
    launch(ClientToken="one")
    assert _found(ec2, "one") == []


def test_dry_run(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """A dry run tells that the request is right, launches nothing and takes no token."""
    with refused("DryRunOperation", status=412):
        launch(ClientToken="one", DryRun=True)
    assert control.instances() == []
    assert [call.write for call in control.calls()] == [False]
    instance = launch(ClientToken="one", InstanceType="t3.small")["InstanceId"]
    with refused("DryRunOperation", status=412):
        ec2.terminate_instances(InstanceIds=[instance], DryRun=True)
    assert control.instance(instance).state == "running"


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"InstanceType": "t3.gigantic"}, "InvalidParameterValue"),
        ({"InstanceType": "t4g.micro"}, "InvalidParameterValue"),
        ({"InstanceType": "t3.micro", "Placement": {"AvailabilityZone": "us-east-1e"}}, "Unsupported"),
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "ami-1"}, "InvalidAMIID.Malformed"),
        ({"ImageId": "debian"}, "InvalidAMIID.Malformed"),
        ({"KeyName": "nobody"}, "InvalidKeyPair.NotFound"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"SecurityGroups": ["nobody"]}, "InvalidGroup.NotFound"),
        ({"NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-0123456789abcdef0"]}]}, "InvalidGroup.NotFound"),
        ({"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({"IamInstanceProfile": {"Arn": "arn:aws:iam::123456789012:instance-profile/no"}}, "InvalidParameterValue"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value),
)
def test_unknown_names(ec2: Any, control: Ec2Control, launch: Launch, parameters: dict[str, Any], code: str) -> None:
    """A launch that names what isn't there is refused with EC2's own code and leaves nothing behind."""
    with refused(code):
        launch(**parameters)
    assert control.instances() == []
    assert ec2.describe_instances()["Reservations"] == []


def test_known_names(ec2: Any, client: Client, launch: Launch, describe: Any) -> None:
    """A launch with names that are there is carried out with them."""
    iam = client("iam")
    iam.create_instance_profile(InstanceProfileName="node")
    ec2.create_key_pair(KeyName="mine")
    group = ec2.create_security_group(GroupName="web", Description="web")["GroupId"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    made = launch(
        ImageId=ARM_IMAGE,
        InstanceType="t4g.micro",
        KeyName="mine",
        IamInstanceProfile={"Name": "node"},
        NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": subnet, "Groups": [group]}],
    )
    seen = describe(made["InstanceId"])
    assert (seen["KeyName"], seen["SubnetId"], seen["Architecture"]) == ("mine", subnet, "arm64")
    assert [one["GroupId"] for one in seen["SecurityGroups"]] == [group]
    assert seen["IamInstanceProfile"]["Arn"].endswith(":instance-profile/node")


def test_the_default_group(ec2: Any, launch: Launch) -> None:
    """A launch that names no group shows the network's default one."""
    assert [one["GroupName"] for one in launch()["SecurityGroups"]] == ["default"]


def test_max_count(launch: Launch, control: Ec2Control) -> None:
    """As many instances are launched as the request takes at most."""
    launch(MinCount=1, MaxCount=3)
    assert len(control.instances()) == 3


def test_the_root_volume(ec2: Any, launch: Launch, describe: Any) -> None:
    """The root volume is where the image says, tagged, and deleted with its instance, named in the request or not."""
    data = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 5, "DeleteOnTermination": True}}
    root = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20}}
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "k", "Value": "v"}]}]
    for mappings in ([], [data], [root, data]):
        request = {"BlockDeviceMappings": mappings} if mappings else {}
        seen = describe(launch(TagSpecifications=tags, **request)["InstanceId"])
        devices = {one["DeviceName"]: one["Ebs"]["DeleteOnTermination"] for one in seen["BlockDeviceMappings"]}
        assert devices[seen["RootDeviceName"]] is True
        assert len(devices) == max(1, len({"/dev/xvda", *(one["DeviceName"] for one in mappings)}))
        assert all(one["Tags"] for one in ec2.describe_volumes()["Volumes"])
        ec2.terminate_instances(InstanceIds=[seen["InstanceId"]])
        assert ec2.describe_volumes()["Volumes"] == []


def test_the_image_catalogue(ec2: Any, client: Client) -> None:
    """The documented images are found by id, by owner and by name, in every region."""
    images = ec2.describe_images()["Images"]
    assert [one["ImageId"] for one in images] == [f"ami-0c0ffee000000000{number}" for number in range(1, 8)]
    debian = client("ec2", "eu-central-1").describe_images(
        Owners=["136693071363"],
        Filters=[{"Name": "name", "Values": ["debian-12-*"]}, {"Name": "architecture", "Values": ["arm64"]}],
    )["Images"]
    assert [one["ImageId"] for one in debian] == ["ami-0c0ffee0000000006"]
