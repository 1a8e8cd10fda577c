"""The RunInstances request."""

from __future__ import annotations

from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.launch import run_instances_request

BASE: dict[str, Any] = {
    "image_id": "ami-00000001",
    "instance_type": "t3.micro",
    "client_token": "t-1",
    "tags": {"b": "2", "a": "1"},
}


def test_request_asks_for_one_instance_with_token_and_tags() -> None:
    """The least request has exactly one instance, the token, and the tags of instance and volumes."""
    request = run_instances_request(BASE)
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    assert request == {
        "ImageId": "ami-00000001",
        "InstanceType": "t3.micro",
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": "t-1",
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}, {"ResourceType": "volume", "Tags": tags}],
    }


def test_request_is_equal_for_equal_parameters() -> None:
    """AWS takes a token again only with an equal request, so the order of tags doesn't matter (E1)."""
    assert run_instances_request(BASE) == run_instances_request({**BASE, "tags": {"a": "1", "b": "2"}})


def test_devices_carry_what_is_given() -> None:
    """A block device has the given fields, false ones included, and no others."""
    device = {"device_name": "/dev/xvda", "size_gib": 9, "encrypted": False, "iops": None}
    request = run_instances_request({**BASE, "storage": [device]})
    assert request["BlockDeviceMappings"] == [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 9, "Encrypted": False}}]


def test_public_address_moves_the_network_into_an_interface() -> None:
    """With associatePublicIp, subnet and groups are those of the interface, as AWS wants it."""
    network = {"subnet_id": "subnet-1", "security_group_ids": ["sg-1"]}
    plain = run_instances_request({**BASE, **network})
    assert (plain["SubnetId"], plain["SecurityGroupIds"]) == ("subnet-1", ["sg-1"])
    request = run_instances_request({**BASE, **network, "associate_public_ip": False})
    assert "SubnetId" not in request
    assert request["NetworkInterfaces"] == [
        {"DeviceIndex": 0, "AssociatePublicIpAddress": False, "SubnetId": "subnet-1", "Groups": ["sg-1"]}
    ]


def test_profile_by_name_or_arn() -> None:
    """A profile is named as AWS wants it."""
    assert run_instances_request({**BASE, "iam_instance_profile": "web"})["IamInstanceProfile"] == {"Name": "web"}
    arn = "arn:aws:iam::1:instance-profile/web"
    assert run_instances_request({**BASE, "iam_instance_profile": arn})["IamInstanceProfile"] == {"Arn": arn}
