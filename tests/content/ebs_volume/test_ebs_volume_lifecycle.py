"""One volume from its creation through edits and changes from outside."""

from __future__ import annotations

from runner.localdev.ec2.faults import Fault
from tests.content.ebs_volume.volume_bench import client, tags_of, volumes
from tests.content.ec2_instance.role_harness import UID_TAG, Bench


async def test_created_volume_is_told_and_then_left_alone(bench: Bench) -> None:
    """A volume is created with its tags in the same call, and an unchanged one leads to one read and no write."""
    obj = await bench.create(tags={"team": "a"}, throughput=200)
    first = await bench.settle()
    (volume,) = volumes(bench, obj)
    status = first.status
    assert (status["volumeId"], status["state"], status["sizeGiB"]) == (volume["VolumeId"], "available", 10)
    assert (status["createAttempt"], status["encrypted"], first.ready["reason"]) == (1, True, "Available")
    assert (volume["VolumeType"], volume["Throughput"], volume["AvailabilityZone"]) == ("gp3", 200, "us-east-1a")
    uid, namespace = obj["metadata"]["uid"], bench.namespace
    assert tags_of(volume) == {
        "Name": f"{namespace}/web",
        "team": "a",
        UID_TAG: uid,
        "ansible-operator.io/cluster-id": status["clusterId"],
        "ansible-operator.io/namespace": namespace,
        "ansible-operator.io/name": "web",
    }
    assert [call.action for call in bench.aws.calls() if call.write] == ["CreateVolume"]
    assert await bench.events() == ["Created"]

    again = await bench.run()
    assert (again.ok, again.changed, [call.action for call in again.calls]) == (True, 0, ["DescribeVolumes"])
    moved = {key for key in {*status, *again.status} if status.get(key) != again.status.get(key)}
    assert moved <= {"lastCheckedAt"}
    assert '"period": "2m"' in again.output


async def test_lost_answer_leaves_one_volume(bench: Bench) -> None:
    """CreateVolume that was carried out without an answer is asked again with its token, and there is one volume."""
    obj = await bench.create()
    bench.aws.add_fault(Fault(action="CreateVolume", code="InternalError", status=500, times=None, after=True))
    failed = await bench.run()
    assert (failed.ok, failed.ready["reason"], failed.status["createAttempt"]) == (False, "InternalError", 1)
    bench.aws.clear_faults()
    # As if DescribeVolumes didn't show it yet: the tag that finds it is hidden.
    (volume,) = volumes(bench, obj)
    client(bench).delete_tags(Resources=[volume["VolumeId"]], Tags=[{"Key": UID_TAG}])
    repeated = await bench.run()
    assert repeated.ok, repeated.output[-3000:]
    assert repeated.status["volumeId"] == volume["VolumeId"]
    assert len(client(bench).describe_volumes()["Volumes"]) == 1
    settled = await bench.settle()  # the tag is put back, as the volume is known by its id
    assert [one["VolumeId"] for one in volumes(bench, obj)] == [settled.status["volumeId"]]


async def test_volume_grows_in_place_and_a_second_change_waits(bench: Bench) -> None:
    """A larger size is one ModifyVolume; the next change within six hours is told and not asked for at each look."""
    obj = await bench.create()
    await bench.settle()
    await bench.patch(sizeGiB=20, iops=4000)
    grown = await bench.run()
    assert (grown.writes, grown.ready["reason"]) == (["ModifyVolume"], "Modifying")
    settled = await bench.settle()
    assert (settled.status["sizeGiB"], settled.status["iops"], settled.writes) == (20, 4000, [])
    assert [one["Size"] for one in volumes(bench, obj)] == [20]

    await bench.patch(sizeGiB=30)
    refused = await bench.run()
    assert (refused.ok, refused.writes, refused.ready["reason"]) == (True, ["ModifyVolume"], "ModificationRefused")
    message = refused.ready["message"]
    assert "sizeGiB: the spec says 30, the volume has 20" in message
    assert "VolumeModificationRateExceeded" in message
    assert "request id" in message
    held = await bench.run()
    assert (held.writes, held.ready["message"], held.changed) == ([], message, 0)
    assert '"period": "2m"' in held.output
    bench.aws.configure(modification_pause=0)
    asked = await bench.with_variables(ebs_volume_modification_pause=0).run()
    assert asked.writes == ["ModifyVolume"]
    assert (await bench.settle()).status["sizeGiB"] == 30


async def test_change_from_outside_is_repaired_or_told(bench: Bench) -> None:
    """Foreign tags stay and ours come back; a volume that somebody grew is told, as nothing can shrink it."""
    obj = await bench.create(tags={"team": "a"})
    settled = await bench.settle()
    aws, volume_id = client(bench), settled.status["volumeId"]
    aws.create_tags(Resources=[volume_id], Tags=[{"Key": "theirs", "Value": "1"}, {"Key": "team", "Value": "x"}])
    repaired = await bench.run()
    assert repaired.writes == ["CreateTags"]
    (volume,) = volumes(bench, obj)
    assert (tags_of(volume)["team"], tags_of(volume)["theirs"]) == ("a", "1")
    assert {"DriftFound", "DriftRepaired"} <= set(await bench.events())
    await bench.settle()
    aws.modify_volume(VolumeId=volume_id, Size=40)
    larger = await bench.run()
    assert (larger.ready["reason"], larger.writes) == ("VolumeTooLarge", [])
    assert "sizeGiB: the spec says 10, the volume has 40" in larger.ready["message"]


async def test_deleted_volume_is_told_and_not_replaced(bench: Bench) -> None:
    """A volume that somebody deleted is told as lost, with what to do; no empty one takes its place."""
    await bench.create()
    settled = await bench.settle()
    client(bench).delete_volume(VolumeId=settled.status["volumeId"])
    hidden = await bench.run()
    assert (hidden.ready["reason"], hidden.writes) == ("NotVisible", [])
    lost = await bench.with_variables(ebs_volume_grace=0).run()
    assert (lost.ok, lost.ready["reason"], lost.writes) == (True, "VolumeLost", [])
    assert "delete this object and create another" in lost.ready["message"]
    assert "VolumeLost" in await bench.events()


async def test_wrong_credentials_are_told_with_the_code(bench: Bench) -> None:
    """Credentials that AWS refuses end in a condition with AWS's code and request id, and in no second try."""
    await bench.create()
    bench.aws.add_fault(Fault(action="*", code="AuthFailure", message="AWS was not able to validate", times=None))
    run = await bench.run()
    assert (run.ok, run.ready["status"], run.ready["reason"]) == (False, "False", "AuthFailure")
    assert "AWS answered AuthFailure: AWS was not able to validate (request id " in run.ready["message"]
    assert len(run.calls) == 1
    assert await bench.events() == ["AuthFailure"]
