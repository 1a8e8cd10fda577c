"""What the API server says about objects of the examples: wrong ones are refused with the field's path."""

from __future__ import annotations

from typing import Any

import pytest

from runner.errors import Invalid
from runner.kube.client import KubeClient
from runner.testing.cluster import install_crd
from tests.integration.examples.example_site import CRON_JOBS, MYAPP, WEBAPP, Example

GOOD: dict[str, dict[str, Any]] = {
    "WebApp": {"replicas": 3, "image": "nginx:1.25-alpine"},
    "MyApp": {"replicaCount": 3, "image": "registry.example.com/my-app:1.0.0"},
}


SCHEDULES = (
    "* * * * *",
    "0 3 * * *",
    "*/15 0-23/2 1,15 * MON-FRI",
    "59 23 31 12 6",
    "5/10 03 ? jan-mar,DEC sun,Wed",
    "0 3 29 2 *",
    "0 3 * jan-jan MON-MON,SUN-sun",
    "0 3 30,31 2,4 *",
    "0 3 3,31 2 *",
    "0 3 31 2-4 *",
    "0 3 30 2 */2",
    "@hourly",
    "@daily",
    "@weekly",
    "@monthly",
    "@yearly",
)


def cron_job(name: str, *, schedule: str) -> dict[str, Any]:
    """Return a suspended CronJob with this schedule."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "backup", "image": "registry.example.com/my-app:1.0.0"}]}
    return {
        "apiVersion": CRON_JOBS.gvk.api_version,
        "kind": CRON_JOBS.gvk.kind,
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "suspend": True, "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }


async def create(kube: KubeClient, namespace: str, example: Example, *, spec: dict[str, Any], name: str = "one") -> Any:
    """Create a good object with *spec* on top; None takes a field away. Return its spec and status as they are read."""
    primary = example.primary
    (definition,) = (example.folder / "crds").glob("*.yaml")
    await install_crd(kube, example.document(f"crds/{definition.name}"))
    merged = {**GOOD[primary.gvk.kind], **spec}
    body = {
        "apiVersion": primary.gvk.api_version,
        "kind": primary.gvk.kind,
        "metadata": {"name": name},
        "spec": {key: value for key, value in merged.items() if value is not None},
    }
    await kube.create(primary, namespace=namespace, body=body)
    found = await kube.get(primary, namespace=namespace, name=name)
    return found["spec"], found["status"]


@pytest.mark.parametrize(
    ("example", "wrong", "sentence"),
    [
        (WEBAPP, {"replicas": "three"}, 'spec.replicas: Invalid value: "string"'),
        (WEBAPP, {"replicas": -1}, "spec.replicas: Invalid value: -1"),
        (WEBAPP, {"image": None}, "spec.image: Required value"),
        (WEBAPP, {"image": "nginx latest"}, "spec.image: Invalid value"),
        (WEBAPP, "a" * 56, "the Service is named after it"),
        (WEBAPP, "1st", "begin with a letter"),
        (MYAPP, {"replicaCount": "three"}, 'spec.replicaCount: Invalid value: "string"'),
        (MYAPP, {"replicaCount": "3"}, 'spec.replicaCount: Invalid value: "string"'),
        (MYAPP, {"replicaCount": -1}, "spec.replicaCount: Invalid value: -1"),
        (MYAPP, {"image": ""}, "spec.image: Invalid value"),
        (MYAPP, {"config": {"log level": "x"}}, "a key of config must be the name of an environment variable"),
        (MYAPP, {"config": {"LEVEL": 3}}, "spec.config.LEVEL: Invalid value"),
        (MYAPP, "a" * 53, "Service and Pods are named after it"),
        (MYAPP, {"replicaCount": 1, "highAvailability": True}, "set replicaCount to 2 or more"),
        (MYAPP, {"replicaCount": None, "highAvailability": True}, "set replicaCount to 2 or more"),
        (MYAPP, {"nodeLostAfterSeconds": 9}, "spec.nodeLostAfterSeconds: Invalid value: 9"),
        (MYAPP, {"backupRetention": 0}, "spec.backupRetention: Invalid value: 0"),
        (MYAPP, {"backupClaim": "My_Claim"}, "spec.backupClaim: Invalid value"),
        (MYAPP, {"backupSchedule": ""}, "five fields with one space between them"),
        (MYAPP, {"backupSchedule": "0 3 * *"}, "five fields with one space between them"),
        (MYAPP, {"backupSchedule": "0 0 3 * * *"}, "five fields with one space between them"),
        (MYAPP, {"backupSchedule": "@every 1h"}, "one of @hourly, @daily"),
        (MYAPP, {"backupSchedule": "TZ=UTC 0 3 * * *"}, "five fields with one space between them"),
        (MYAPP, {"backupSchedule": "60 3 * * *"}, "the minute of backupSchedule"),
        (MYAPP, {"backupSchedule": "*/0 3 * * *"}, "the minute of backupSchedule"),
        (MYAPP, {"backupSchedule": "0 24 * * *"}, "the hour of backupSchedule"),
        (MYAPP, {"backupSchedule": "0 3 32 * *"}, "the day of backupSchedule"),
        (MYAPP, {"backupSchedule": "0 3 * 13 *"}, "the month of backupSchedule"),
        (MYAPP, {"backupSchedule": "0 3 * * 7"}, "the day of the week of backupSchedule"),
        (MYAPP, {"backupSchedule": "0 5-3 * * *"}, "a range of backupSchedule must begin with the smaller value"),
        (MYAPP, {"backupSchedule": "0 3 * * FRI-MON"}, "a range of backupSchedule must begin with the smaller value"),
        (MYAPP, {"backupSchedule": "0 3 30 2 *"}, "names a day that its month doesn't have"),
        (MYAPP, {"backupSchedule": "0 3 30,31 2 *"}, "names a day that its month doesn't have"),
        (MYAPP, {"backupSchedule": "0 3 30-31 feb-FEB,2 ?"}, "names a day that its month doesn't have"),
        (MYAPP, {"backupSchedule": "0 3 31 4,Nov,2 1,*/1"}, "names a day that its month doesn't have"),
        (MYAPP, {"backupSchedule": "0 3 * DEC-JAN *"}, "a range of backupSchedule must begin with the smaller value"),
    ],
)
async def test_a_wrong_object_is_refused(
    kube: KubeClient, namespace: str, example: Example, wrong: dict[str, Any] | str, sentence: str
) -> None:
    """The API server names the field, or says in a sentence what is wrong with it."""
    asked: dict[str, Any] = {"spec": {}, "name": wrong} if isinstance(wrong, str) else {"spec": wrong}
    with pytest.raises(Invalid) as caught:
        await create(kube, namespace, example, **asked)
    assert sentence in str(caught.value)


async def test_a_schedule_that_the_kind_takes_is_one_for_a_cron_job(kube: KubeClient, namespace: str) -> None:
    """What passes the rules of backupSchedule is taken by the API server as a CronJob's schedule, too."""
    for number, schedule in enumerate(SCHEDULES):
        spec, _ = await create(kube, namespace, MYAPP, spec={"backupSchedule": schedule}, name=f"scheduled-{number}")
        assert (spec["backupSchedule"], spec["backupRetention"]) == (schedule, 7)
        await kube.create(CRON_JOBS, namespace=namespace, body=cron_job(f"scheduled-{number}", schedule=schedule))


@pytest.mark.parametrize(
    ("example", "count", "status"),
    [
        (WEBAPP, "replicas", {"phase": "Scaling", "availableReplicas": 0}),
        (MYAPP, "replicaCount", {"phase": "Progressing", "availableReplicas": 0, "updatedReplicas": 0}),
    ],
    ids=["webapp", "myapp"],
)
async def test_the_status_is_there_before_any_run(
    kube: KubeClient, namespace: str, example: Example, count: str, status: dict[str, Any]
) -> None:
    """An object that no operator has seen yet has one replica by default, and phase and counts in its status."""
    spec, found = await create(kube, namespace, example, spec={count: None})
    assert spec[count] == 1
    assert found == status
