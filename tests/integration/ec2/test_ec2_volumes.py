"""EBS volumes as callers of the AWS API see them: made once per token, not free at once, changed seldom."""

from __future__ import annotations

from typing import Any

import pytest

from runner.localdev.ec2.control import Ec2Control
from tests.integration.ec2.conftest import Launch, refused

FOR_EVER = 3600.0
REQUEST = {"AvailabilityZone": "us-east-1a", "Size": 10, "VolumeType": "gp3"}


@pytest.fixture
def volume_id(ec2: Any, control: Ec2Control) -> str:
    """Give a volume that is available."""
    control.configure(creating=0, pending=0)
    return str(ec2.create_volume(**REQUEST)["VolumeId"])


def test_one_token_is_one_volume(ec2: Any) -> None:
    """The same request with the same token is the same volume; another request with it is refused."""
    first = ec2.create_volume(**REQUEST, ClientToken="t-1")
    assert ec2.create_volume(**REQUEST, ClientToken="t-1")["VolumeId"] == first["VolumeId"]
    assert ec2.create_volume(**REQUEST)["VolumeId"] != first["VolumeId"]
    with refused("IdempotentParameterMismatch"):
        ec2.create_volume(**{**REQUEST, "Size": 11}, ClientToken="t-1")


def test_zone_that_there_is_none_of_is_refused(ec2: Any) -> None:
    """A volume is made only in a zone of the region."""
    with refused("InvalidZone.NotFound"):
        ec2.create_volume(**{**REQUEST, "AvailabilityZone": "us-east-1z"})


def test_young_volume_cannot_be_attached(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """A volume is creating for the configured time, and attached only after it."""
    control.configure(creating=FOR_EVER, pending=0)
    volume, instance = ec2.create_volume(**REQUEST), launch()
    assert volume["State"] == "creating"
    hang = {"VolumeId": volume["VolumeId"], "InstanceId": instance["InstanceId"], "Device": "/dev/sdf"}
    with refused("IncorrectState"):
        ec2.attach_volume(**hang)
    control.configure(creating=0)
    ec2.attach_volume(**hang)
    with refused("VolumeInUse"):
        ec2.attach_volume(**hang)


def test_device_in_use_is_refused(ec2: Any, launch: Launch, volume_id: str) -> None:
    """Two volumes don't hang on one device."""
    instance = launch()
    hang = {"InstanceId": instance["InstanceId"], "Device": "/dev/sdf"}
    ec2.attach_volume(VolumeId=volume_id, **hang)
    with refused("InvalidParameterValue"):
        ec2.attach_volume(VolumeId=ec2.create_volume(**REQUEST)["VolumeId"], **hang)


def test_volume_of_another_zone_is_refused(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """A volume hangs only on an instance of its zone."""
    control.configure(creating=0, pending=0)
    instance = launch(Placement={"AvailabilityZone": "us-east-1b"})
    volume = ec2.create_volume(**REQUEST)
    with refused("InvalidVolume.ZoneMismatch"):
        ec2.attach_volume(VolumeId=volume["VolumeId"], InstanceId=instance["InstanceId"], Device="/dev/sdf")


def test_volume_grows_once_in_a_while(ec2: Any, control: Ec2Control, volume_id: str) -> None:
    """A volume never shrinks, and is changed again only after the configured pause."""
    ec2.modify_volume(VolumeId=volume_id, Size=20)
    with refused("VolumeModificationRateExceeded"):
        ec2.modify_volume(VolumeId=volume_id, Size=30)
    control.configure(modification_pause=0)
    with refused("InvalidParameterValue"):
        ec2.modify_volume(VolumeId=volume_id, Size=5)
    assert ec2.modify_volume(VolumeId=volume_id, Size=30)["VolumeModification"]["TargetSize"] == 30
