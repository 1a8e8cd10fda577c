"""What a volume hangs on: waits for its EC2Instance, is attached, let go, and left alone where others attached it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runner.testing.faults import HttpFaultProxy, Rule
from tests.content.ebs_volume.volume_bench import client, launch, machine, reference, volumes
from tests.content.ec2_instance.role_harness import Bench


async def test_volume_waits_for_its_instance_and_is_attached(bench: Bench) -> None:
    """Each thing that is missing has its own reason; once the instance runs, the volume hangs on a free device."""
    obj = await bench.create(attachTo=reference())
    await bench.run()
    missing = await bench.run()
    assert (missing.ok, missing.ready["reason"], missing.writes) == (True, "InstanceNotFound", [])
    assert "there is no EC2Instance web in this namespace" in missing.ready["message"]
    await machine(bench)
    assert (await bench.run()).ready["reason"] == "InstanceNotReady"
    instance_id = launch(bench)
    await machine(bench, name="far", instanceId=instance_id, state="running", availabilityZone="us-east-1b")
    await bench.patch(attachTo=reference("far"))
    elsewhere = await bench.run()
    assert (elsewhere.ready["reason"], elsewhere.writes) == ("ZoneMismatch", [])
    await machine(bench, name="near", instanceId=instance_id, state="running", availabilityZone="us-east-1a")
    await bench.patch(attachTo=reference("near"))
    attaching = await bench.run()
    assert (attaching.writes, attaching.ready["reason"]) == (["AttachVolume"], "Attaching")
    settled = await bench.settle()
    assert (settled.ready["reason"], settled.status["state"]) == ("Attached", "in-use")
    assert (settled.status["instanceId"], settled.status["device"]) == (instance_id, "/dev/sdf")
    again = await bench.run()
    assert (again.changed, again.writes) == (0, [])

    await bench.patch(attachTo=None)
    leaving = await bench.run()
    assert (leaving.writes, leaving.ready["reason"]) == (["DetachVolume"], "Detaching")
    free = await bench.settle()
    assert (free.ready["reason"], "instanceId" in free.status, "attachRequestedFor" in free.status) == (
        "Available",
        False,
        False,
    )
    assert [one["State"] for one in volumes(bench, obj)] == ["available"]
    assert {"InstanceNotFound", "ZoneMismatch", "Attached", "Detached"} <= set(await bench.events())


async def test_instance_that_cannot_be_read_is_not_missing(bench: Bench, tmp_path: Path) -> None:
    """An attached volume stays where it is while the API server, as it starts, answers 404 for its EC2Instance."""
    instance_id = launch(bench)
    await machine(bench, instanceId=instance_id, state="running", availabilityZone="us-east-1a")
    await bench.create(attachTo=reference())
    assert (await bench.settle()).ready["reason"] == "Attached"
    async with HttpFaultProxy(upstream_kubeconfig=bench.kubeconfig) as proxy:
        through = replace(bench, kubeconfig=proxy.kubeconfig(tmp_path / "through"))
        proxy.rule(Rule(method="GET", path="/ec2instances/web", status=404, body=b"404 page not found"))
        run = await through.run()
    assert (run.ok, run.ready["reason"], run.writes) == (False, "ReadFailed", [])


async def test_foreign_attachment_is_left_alone(bench: Bench) -> None:
    """A volume without attachTo that somebody attached stays there; the status says where."""
    await bench.create()
    settled = await bench.settle()
    instance_id = launch(bench)
    client(bench).attach_volume(VolumeId=settled.status["volumeId"], InstanceId=instance_id, Device="/dev/sdh")
    run = await bench.run()
    assert (run.writes, run.ready["reason"], run.status["instanceId"]) == ([], "Attached", instance_id)


async def test_deleted_object_takes_its_volume_along(bench: Bench) -> None:
    """With deletionPolicy Delete the finalizer detaches and deletes, and ends when the volume is seen gone."""
    instance_id = launch(bench)
    await machine(bench, instanceId=instance_id, state="running", availabilityZone="us-east-1a")
    obj = await bench.create(attachTo=reference(deviceName="/dev/sdk"), deletionPolicy="Delete")
    settled = await bench.settle()
    assert settled.status["device"] == "/dev/sdk"
    run = await bench.run(finalizing=True)
    assert run.ok, run.output[-3000:]
    assert run.writes == ["DetachVolume", "DeleteVolume"]
    assert '"period"' not in run.output
    assert volumes(bench, obj) == []
    assert "Deleted" in await bench.events()


async def test_retained_volume_stays_and_aws_is_not_asked(bench: Bench) -> None:
    """By default the volume stays as it is, and the object goes even where its credentials are gone."""
    obj = await bench.create()
    await bench.settle()
    await bench.patch(credentialsSecretRef={"name": "nowhere"})
    run = await bench.run(finalizing=True)
    assert (run.ok, list(run.calls)) == (True, [])
    assert len(volumes(bench, obj)) == 1
    assert "Retained" in await bench.events()


async def test_object_without_any_creation_goes_without_aws(bench: Bench) -> None:
    """An object whose credentials never existed goes at once as long as no creation is recorded; else it stays."""
    await bench.create(credentialsSecretRef={"name": "nowhere"}, deletionPolicy="Delete")
    gone = await bench.run(finalizing=True)
    assert (gone.ok, list(gone.calls)) == (True, [])
    await bench.patch_status(createAttempt=1, createRequestedAt="2026-11-29T12:00:00Z")
    stays = await bench.run(finalizing=True)
    assert (stays.ok, stays.ready["reason"]) == (False, "CredentialsSecretNotFound")
