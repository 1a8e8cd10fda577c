"""`examples/02-myapp` with a backupSchedule: its CronJob, and what the status tells of the last backup."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from runner.kube.objects import Object, conditions_of, name_of, uid_of
from runner.testing.cluster import wait_until
from tests.integration.examples.example_site import CRON_JOBS, JOBS, LIMIT, STATEFUL_SETS, Objects, owners

IMAGE = "registry.example.com/my-app:1.0.0"
YEARLY = "0 3 1 1 *"


async def scheduled(myapps: Objects, name: str, **spec: Any) -> Object:
    """Create a MyApp of no Pods with backups, and return its CronJob when its run is through."""
    await myapps.create(name, **{"replicaCount": 0, "image": IMAGE, "backupSchedule": YEARLY, **spec})
    await myapps.reaches(name)
    return await myapps.get(name, of=CRON_JOBS)


def foreign_cron_job(name: str) -> Object:
    """Return a suspended CronJob of somebody who has nothing to do with the operator."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "theirs", "image": IMAGE}]}
    return {
        "apiVersion": CRON_JOBS.gvk.api_version,
        "kind": CRON_JOBS.gvk.kind,
        "metadata": {"name": name},
        "spec": {"schedule": YEARLY, "suspend": True, "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }


async def backed_up(myapps: Objects, name: str, *, reason: str) -> Object:
    """Return the MyApp when its condition BackedUp has this reason."""

    async def look() -> Object | None:
        found = await myapps.get(name)
        reasons = [entry["reason"] for entry in conditions_of(found) if entry["type"] == "BackedUp"]
        return found if reasons == [reason] else None

    found = await wait_until(look, what=f"{name} to say {reason}", limit=LIMIT)
    assert found is not None
    return found


async def suspended(myapps: Objects, name: str, *, is_so: bool) -> Object:
    """Return the CronJob when it is suspended, or is not."""

    async def look() -> Object | None:
        found = await myapps.get(name, of=CRON_JOBS)
        return found if found["spec"]["suspend"] is is_so else None

    found = await wait_until(look, what=f"suspend of {name} to be {is_so}", limit=LIMIT)
    assert found is not None
    return found


async def start_one_that_fails(myapps: Objects, cron_job: Object) -> None:
    """Do what the CronJob's controller does at the minute, with a Job that finds no Node and may last a second."""
    template = cron_job["spec"]["jobTemplate"]
    job_spec = {**template["spec"], "activeDeadlineSeconds": 1}
    pod = {**job_spec["template"], "spec": {**job_spec["template"]["spec"], "nodeSelector": {"no": "node"}}}
    owner = {
        "apiVersion": CRON_JOBS.gvk.api_version,
        "kind": "CronJob",
        "name": name_of(cron_job),
        "uid": uid_of(cron_job),
        "controller": True,
    }
    body: Object = {
        "apiVersion": JOBS.gvk.api_version,
        "kind": JOBS.gvk.kind,
        "metadata": {**template["metadata"], "name": f"{name_of(cron_job)}-fails", "ownerReferences": [owner]},
        "spec": {**job_spec, "template": pod},
    }
    job = await myapps.kube.create(JOBS, namespace=myapps.namespace, body=body)
    active = {"apiVersion": body["apiVersion"], "kind": "Job", "name": name_of(job), "namespace": myapps.namespace}
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"active": [{**active, "uid": uid_of(job)}], "lastScheduleTime": now}
    await myapps.patch(name_of(cron_job), {"status": status}, of=CRON_JOBS, subresource="status")


async def test_a_schedule_is_a_cron_job(myapps: Objects) -> None:
    """Schedule, retention and claim reach an owned CronJob, whose Pods are none of the application's."""
    cron_job = await scheduled(myapps, "nightly", backupRetention=3, backupClaim="vault")
    spec = cron_job["spec"]
    assert (spec["schedule"], spec["timeZone"], spec["suspend"]) == (YEARLY, "Etc/UTC", False)
    assert (spec["concurrencyPolicy"], spec["successfulJobsHistoryLimit"]) == ("Forbid", 3)
    pod = spec["jobTemplate"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert (container["image"], container["args"]) == (IMAGE, ["backup"])
    assert container["env"] == [{"name": "BACKUP_RETENTION", "value": "3"}]
    assert container["volumeMounts"] == [{"name": "backup", "mountPath": "/backup"}]
    (volume,) = pod["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "vault"}
    obj = await backed_up(myapps, "nightly", reason="NoBackupYet")
    assert owners(cron_job) == [("MyApp", uid_of(obj))]
    selected = (await myapps.get("nightly", of=STATEFUL_SETS))["spec"]["selector"]["matchLabels"]
    assert not selected.items() <= pod["metadata"]["labels"].items()


async def test_the_status_tells_how_the_last_backup_ended(myapps: Objects) -> None:
    """Time and outcome follow each Job without an edit, a failure keeps the last good time; then it is switched off."""
    cron_job = await scheduled(myapps, "told")
    await myapps.kubectl("create", "job", "--from=cronjob/told", "told-by-hand")
    good = (await backed_up(myapps, "told", reason="BackupSucceeded"))["status"]
    job = await myapps.get("told-by-hand", of=JOBS)
    assert good["lastBackupOutcome"] == "Succeeded"
    assert good["lastBackupTime"] == good["lastSuccessfulBackupTime"] == job["status"]["completionTime"]
    assert "went well" in await myapps.event("told", reason="BackupSucceeded")
    await start_one_that_fails(myapps, cron_job)
    obj = await backed_up(myapps, "told", reason="BackupFailed")
    assert obj["status"]["lastBackupOutcome"] == "Failed"
    assert obj["status"]["lastSuccessfulBackupTime"] == good["lastSuccessfulBackupTime"]
    assert obj["status"]["lastBackupTime"] > good["lastBackupTime"]
    assert "longer than specified deadline" in await myapps.event("told", reason="BackupFailed")
    await myapps.patch("told", {"spec": {"backupSchedule": None}})
    await backed_up(myapps, "told", reason="BackupSuspended")
    off = await myapps.get("told", of=CRON_JOBS)
    assert (off["spec"]["suspend"], uid_of(off)) == (True, uid_of(cron_job))
    await myapps.delete("told")
    await myapps.gone("told", of=CRON_JOBS)
    await myapps.gone("told-by-hand", of=JOBS)


async def test_a_cron_job_that_somebody_else_made_is_left_alone(myapps: Objects) -> None:
    """One of the object's name keeps its spec, the condition says so, and when it goes the role makes its own."""
    made = await myapps.kube.create(CRON_JOBS, namespace=myapps.namespace, body=foreign_cron_job("taken"))
    await scheduled(myapps, "taken")
    obj = await backed_up(myapps, "taken", reason="CronJobNotOwned")
    (entry,) = [entry for entry in conditions_of(obj) if entry["type"] == "BackedUp"]
    assert (entry["status"], "delete it" in entry["message"]) == ("False", True)
    left = await myapps.get("taken", of=CRON_JOBS)
    assert (uid_of(left), left["spec"]) == (uid_of(made), made["spec"])
    await myapps.delete("taken", of=CRON_JOBS)
    await myapps.patch("taken", {"spec": {"backupRetention": 3}})
    await backed_up(myapps, "taken", reason="NoBackupYet")
    assert owners(await myapps.get("taken", of=CRON_JOBS)) == [("MyApp", uid_of(obj))]


@pytest.mark.full
async def test_a_schedule_that_is_back_resumes(myapps: Objects) -> None:
    """A CronJob that was suspended for want of a schedule goes on with the new one, without the claim that went."""
    cron_job = await scheduled(myapps, "resumed", backupClaim="vault")
    await myapps.patch("resumed", {"spec": {"backupSchedule": None}})
    await suspended(myapps, "resumed", is_so=True)
    await myapps.patch("resumed", {"spec": {"backupSchedule": "@daily", "backupClaim": None}})
    again = await suspended(myapps, "resumed", is_so=False)
    assert (again["spec"]["schedule"], uid_of(again)) == ("@daily", uid_of(cron_job))
    assert "volumes" not in again["spec"]["jobTemplate"]["spec"]["template"]["spec"]


@pytest.mark.full
async def test_the_schedule_itself_makes_a_backup(myapps: Objects) -> None:
    """With a schedule of each minute a backup has ended well within two, and the status says so."""
    await scheduled(myapps, "minutely", backupSchedule="* * * * *")
    obj = await backed_up(myapps, "minutely", reason="BackupSucceeded")
    assert obj["status"]["lastBackupOutcome"] == "Succeeded"
