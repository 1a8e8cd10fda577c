"""What happens to instances without a call, the truth about them, and reset."""

from __future__ import annotations

from typing import Any

import pytest

from runner.errors import ConfigError
from runner.localdev.ec2.config import SimConfig
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.faults import Fault
from tests.integration.ec2.conftest import IMAGE, Client, Launch


def test_changes_behind_the_callers_back(control: Ec2Control, launch: Launch, describe: Any) -> None:
    """Stop, start and terminate beside the API show in Describe and are no calls, protection or not."""
    instance = launch(DisableApiTermination=True)["InstanceId"]
    control.clear_calls()
    assert control.stop(instance).state == "stopped"
    assert control.calls() == []
    assert describe(instance)["State"]["Name"] == "stopped"
    assert control.start(instance).state == "running"
    assert control.terminate(instance).state == "terminated"
    assert describe(instance)["State"]["Name"] == "terminated"


def test_transitions_take_time_here_too(control: Ec2Control, launch: Launch, describe: Any) -> None:
    """A stop beside the API goes through stopping."""
    instance = launch()["InstanceId"]
    control.configure(stopping=3600)
    assert control.stop(instance).state == "stopping"
    assert describe(instance)["State"]["Name"] == "stopping"


def test_a_spot_instance_is_taken_away(control: Ec2Control, launch: Launch, describe: Any) -> None:
    """An interrupted spot instance is terminated with EC2's reason."""
    instance = launch(InstanceMarketOptions={"MarketType": "spot"})["InstanceId"]
    assert control.interrupt(instance).lifecycle == "spot"
    seen = describe(instance)
    assert seen["InstanceLifecycle"] == "spot"
    assert seen["State"]["Name"] == "terminated"
    assert seen["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert seen["StateTransitionReason"].startswith("Server.SpotInstanceTermination")


def test_verbs_that_do_not_fit(control: Ec2Control, launch: Launch) -> None:
    """A verb that doesn't go with the instance is refused with the reason."""
    instance = launch()["InstanceId"]
    with pytest.raises(ConfigError, match="no spot instance"):
        control.interrupt(instance)
    with pytest.raises(ConfigError, match="is running; it must be stopped"):
        control.start(instance)


def test_the_truth(client: Client, control: Ec2Control, launch: Launch) -> None:
    """All instances of all regions are told with their tags, whatever callers see."""
    control.configure(visible_after=3600, pending=3600)
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "owner", "Value": "me"}]}]
    here = launch(TagSpecifications=tags, ClientToken="one")["InstanceId"]
    client("ec2", "eu-west-1").run_instances(ImageId=IMAGE, InstanceType="t3.micro", MinCount=1, MaxCount=1)
    told = control.instance(here)
    assert (told.region, told.state, told.type, told.image) == ("us-east-1", "pending", "t3.micro", IMAGE)
    assert (told.tags, told.client_token, told.public_ip) == ({"owner": "me"}, "one", "")
    assert {one.region for one in control.instances()} == {"us-east-1", "eu-west-1"}


def test_reset(ec2: Any, client: Client, control: Ec2Control, launch: Launch) -> None:
    """A reset forgets resources, faults, calls, tokens and settings."""
    old = launch(ClientToken="one")["InstanceId"]
    client("s3").create_bucket(Bucket="data")
    control.add_fault(Fault(action="*", code="Oops"))
    control.reset()
    assert (control.faults(), control.calls(), control.instances()) == ([], [], [])
    assert control.config() == SimConfig()
    assert client("s3").list_buckets()["Buckets"] == []
    assert launch(ClientToken="one", InstanceType="t3.small")["InstanceId"] != old
    assert ec2.describe_images()["Images"]
