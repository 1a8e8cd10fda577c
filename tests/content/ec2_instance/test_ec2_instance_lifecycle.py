"""One machine from its launch through changes from outside and of the spec."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from runner.localdev.ec2.faults import Fault
from tests.content.ec2_instance.role_harness import IMAGE, UID_TAG, Bench


def client(bench: Bench) -> Any:
    """Return a client of the emulator for what the role doesn't do."""
    return boto3.client(
        "ec2",
        region_name="us-east-1",
        endpoint_url=bench.endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


async def test_launched_machine_is_described_and_then_left_alone(bench: Bench) -> None:
    """A machine is launched with its tags, told in the status, and an unchanged one leads to no write at all."""
    obj = await bench.create(tags={"team": "a"}, storage=[{"deviceName": "/dev/xvda", "sizeGiB": 20}])
    first = await bench.settle()
    (machine,) = bench.mine(obj)
    status = first.status
    assert (status["instanceId"], status["state"], status["launchAttempt"]) == (machine.id, "running", 1)
    assert (status["publicIp"], status["availabilityZone"]) == (machine.public_ip, machine.zone)
    assert (status["observedGeneration"], first.ready["reason"]) == (1, "Running")
    uid, namespace = obj["metadata"]["uid"], bench.namespace
    assert machine.tags == {
        "Name": f"{namespace}/web",
        "team": "a",
        UID_TAG: uid,
        "ansible-operator.io/cluster-id": status["clusterId"],
        "ansible-operator.io/namespace": namespace,
        "ansible-operator.io/name": "web",
    }
    volumes = client(bench).describe_volumes(Filters=[{"Name": f"tag:{UID_TAG}", "Values": [uid]}])["Volumes"]
    assert [volume["Size"] for volume in volumes] == [20]
    assert await bench.events() == ["Launched"]

    again = await bench.run()
    assert (again.ok, again.changed, again.writes) == (True, 0, [])
    assert [call.action for call in again.calls] == ["DescribeInstances"]
    moved = {key for key in {*status, *again.status} if status.get(key) != again.status.get(key)}
    assert moved <= {"lastCheckedAt"}
    assert '"period": "2m"' in again.output


async def test_machine_stopped_from_outside_is_started(bench: Bench) -> None:
    """A machine that somebody stopped is told as drift and started again (E2)."""
    obj = await bench.create()
    settled = await bench.settle()
    bench.aws.stop(settled.status["instanceId"])
    repaired = await bench.run()
    assert repaired.writes == ["StartInstances"]
    assert [(item["field"], item["action"]) for item in repaired.status["drift"]] == [("powerState", "Repair")]
    ready = await bench.run()
    assert (ready.status["state"], ready.ready["status"]) == ("running", "True")
    assert "drift" not in ready.status
    assert sorted(await bench.events()) == ["DriftFound", "Launched", "Started"]
    assert [one.id for one in bench.mine(obj)] == [settled.status["instanceId"]]


async def test_machine_terminated_from_outside_is_replaced(bench: Bench) -> None:
    """A machine that somebody terminated is replaced by a new attempt, and the old one is never adopted (E2)."""
    obj = await bench.create()
    settled = await bench.settle()
    bench.aws.terminate(settled.status["instanceId"])
    replaced = await bench.settle()
    (machine,) = bench.mine(obj)
    assert machine.id != settled.status["instanceId"]
    assert (replaced.status["instanceId"], replaced.status["launchAttempt"]) == (machine.id, 2)
    assert "Replaced" in await bench.events()


@pytest.mark.full
async def test_tags_are_kept_in_step(bench: Bench) -> None:
    """Tags of the spec are set and taken away as it changes, and tags that others set stay."""
    obj = await bench.create(tags={"team": "a", "stage": "dev"})
    settled = await bench.settle()
    aws, instance_id = client(bench), settled.status["instanceId"]
    aws.create_tags(Resources=[instance_id], Tags=[{"Key": "theirs", "Value": "1"}, {"Key": "team", "Value": "x"}])
    await bench.patch(tags={"team": "b", "stage": None})
    run = await bench.run()
    (machine,) = bench.mine(obj)
    assert (machine.tags["team"], machine.tags["theirs"]) == ("b", "1")
    assert "stage" not in machine.tags
    assert sorted(run.writes) == ["CreateTags", "DeleteTags"]
    assert (await bench.run()).writes == []


@pytest.mark.full
async def test_type_changes_while_the_machine_is_stopped(bench: Bench) -> None:
    """A type change waits with StopRequired while the machine runs, and is made once it's stopped."""
    await bench.create()
    settled = await bench.settle()
    await bench.patch(instanceType="t3.large")
    waiting = await bench.run()
    assert (waiting.ready["status"], waiting.ready["reason"], waiting.writes) == ("False", "StopRequired", [])
    await bench.patch(powerState="Stopped")
    stopped = await bench.settle()
    machine = bench.aws.instance(settled.status["instanceId"])
    assert (machine.type, machine.state, stopped.ready["reason"]) == ("t3.large", "stopped", "Stopped")


@pytest.mark.full
async def test_immutable_change_is_reported_and_replaced_only_by_policy(bench: Bench) -> None:
    """Another image is named in the condition, and leads to another machine only with OnImmutableChange."""
    obj = await bench.create()
    settled = await bench.settle()
    other = IMAGE[:-1] + "3"
    await bench.patch(imageId=other)
    reported = await bench.run()
    assert (reported.ready["reason"], reported.writes) == ("ImmutableFieldChanged", [])
    assert "imageId" in reported.ready["message"]
    await bench.patch(replacementPolicy="OnImmutableChange")
    await bench.settle()
    (machine,) = bench.mine(obj)
    assert (machine.image, machine.id != settled.status["instanceId"]) == (other, True)


async def test_text_that_looks_like_a_template_arrives_as_it_is(bench: Bench) -> None:
    """Jinja in user data and tags reaches AWS literally, and nothing of it is carried out (P3)."""
    marker = bench.folder / "PWNED"
    text = "{{ lookup('pipe', 'touch " + str(marker) + "') }}{% for i in [1] %}x{% endfor %}"
    obj = await bench.create(userData=text, tags={"note": "{{ 1 + 1 }}"})
    run = await bench.run()
    assert run.ok, run.output[-3000:]
    (machine,) = bench.mine(obj)
    assert bench.aws.user_data(machine.id) == text
    assert machine.tags["note"] == "{{ 1 + 1 }}"
    assert not marker.exists()


@pytest.mark.full
async def test_foreign_machines_stay_untouched(bench: Bench) -> None:
    """Of twenty machines of others, some with a similar name, none is adopted, changed or terminated (E3)."""
    aws = client(bench)
    tags = [{"Key": "Name", "Value": f"{bench.namespace}/web"}, {"Key": "ansible-operator.io/name", "Value": "web"}]
    aws.run_instances(
        ImageId=IMAGE,
        InstanceType="t3.micro",
        MinCount=20,
        MaxCount=20,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    before = {one.id: one for one in bench.aws.instances()}
    obj = await bench.create()
    await bench.settle()
    assert len(bench.mine(obj)) == 1
    finished = await bench.run(finalizing=True)
    assert finished.ok, finished.output[-3000:]
    assert bench.mine(obj) == []
    after = {one.id: one for one in bench.aws.instances() if one.id in before}
    assert len(before) == 20
    assert {key: (one.state, one.tags) for key, one in after.items()} == {
        key: ("running", one.tags) for key, one in before.items()
    }


async def test_an_image_that_is_not_there_is_named_until_the_edit(bench: Bench) -> None:
    """AWS's code for an unknown image is the reason, nothing is launched, and an edit of the image launches it."""
    obj = await bench.create(imageId="ami-0123456789abcdef0")
    refused = await bench.run()
    assert (refused.ok, refused.ready["reason"]) == (False, "InvalidAMIIDNotFound")
    assert "ami-0123456789abcdef0" in refused.ready["message"]
    assert bench.mine(obj) == []
    await bench.patch(imageId="ami-0c0ffee0000000001")
    settled = await bench.settle()
    assert (settled.ready["status"], len(bench.mine(obj))) == ("True", 1)


async def test_failing_aws_ends_the_run_after_three_tries(bench: Bench) -> None:
    """An AWS that answers 500 to everything is asked three times, and then the runtime's back-off takes over."""
    await bench.create()
    bench.aws.add_fault(Fault(action="DescribeInstances", code="InternalError", status=500, times=None))
    run = await bench.run()
    assert [call.action for call in run.calls] == ["DescribeInstances"] * 3
    assert (run.ok, run.ready["reason"]) == (False, "InternalError")
    assert "request id " in run.ready["message"]


@pytest.mark.parametrize(
    ("code", "event"),
    [
        pytest.param("UnauthorizedOperation", "LaunchFailed", marks=pytest.mark.full),
        ("VcpuLimitExceeded", "LaunchFailed"),
        ("InsufficientInstanceCapacity", "WaitingForCapacity"),
    ],
)
async def test_refused_launch_is_told_with_code_and_request_id(bench: Bench, code: str, event: str) -> None:
    """A launch that AWS refuses fails the play, with AWS's code and request id in the condition, and an Event."""
    obj = await bench.create()
    bench.aws.add_fault(Fault(action="RunInstances", code=code, message="not now", times=None))
    run = await bench.run()
    assert not run.ok
    assert (run.ready["status"], run.ready["reason"]) == ("False", code)
    assert f"AWS answered {code}: not now (request id " in run.ready["message"]
    assert "request id unknown" not in run.ready["message"]
    assert await bench.events() == [event]
    bench.aws.clear_faults()
    await bench.settle()
    assert len(bench.mine(obj)) == 1
