"""The peer's own test operators, on ours: what their tests expect, case by case (contract 12.1)."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from runner.errors import NotFound
from runner.kube.client import KubeClient
from runner.kube.objects import annotations_of, conditions_of, labels_of
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, SECRETS, wait_until
from runner.testing.kubelet import PODS, serving_node
from tests.integration.contract.conftest import Served
from tests.integration.contract.content import SECRET_WORD


def _encoded(**data: str) -> dict[str, Any]:
    return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}}


async def test_ansible_args_reach_every_play(served: Served, kube: KubeClient) -> None:
    """A vault password file from `--ansible-args`, in the quotes that manifests have, opens a vaulted file."""
    await served.create(kube, "VaultCase", name="args", body={"spec": {"field": "value"}})
    await served.successful(kube, "VaultCase", name="args")
    data = await served.data(kube, "args")
    assert data["word"] == SECRET_WORD
    assert data["core"].startswith(f"{served.core}.")


async def test_a_spec_keeps_its_spelling_where_the_watch_says_so(served: Served, kube: KubeClient) -> None:
    """With snakeCaseParameters false the variable is called as in the spec, and only so."""
    await served.create(kube, "SpellingCase", name="spelling", body={"spec": {"camelCase": "yes"}})
    await served.successful(kube, "SpellingCase", name="spelling")
    assert await served.data(kube, "spelling") == {"kept": "yes", "turned": "no"}


async def test_a_role_may_be_that_of_an_installed_collection(served: Served, kube: KubeClient) -> None:
    """`role: acme.contract.writer` is found in ANSIBLE_COLLECTIONS_PATH; an object without a spec runs too."""
    await served.create(kube, "CollectionCase", name="collection")
    await served.successful(kube, "CollectionCase", name="collection")
    assert await served.data(kube, "collection") == {"came_from": "collection"}


async def test_an_inventory_folder_and_a_filter_of_ansible_cfg_are_used(served: Served, kube: KubeClient) -> None:
    """ANSIBLE_INVENTORY's group variables and ANSIBLE_CONFIG's plugins serve a playbook of two plays."""
    annotations = {"ansible.sdk.operatorframework.io/verbosity": "0"}
    body = {"metadata": {"annotations": annotations}, "spec": {"size": 3}}
    await served.create(kube, "InventoryCase", name="inventory", body=body)
    await served.successful(kube, "InventoryCase", name="inventory")
    data = await served.data(kube, "inventory")
    assert data == {"from_group": "vanilla", "filtered": "allinav", "host": "127.0.0.1"}


@pytest.mark.parametrize("turns", [2, pytest.param(5, marks=pytest.mark.full)])
async def test_requeue_after_runs_the_play_until_it_stops_asking(served: Served, kube: KubeClient, turns: int) -> None:
    """A play that asks for another run in a second does so until it has had its turns; no run comes after that one."""
    name = f"requeue-{turns}"
    await served.create(kube, "RequeueCase", name=name, body={"spec": {"turns": turns}})
    last = str(turns)
    assert await served.data(kube, name, until=lambda data: data.get("turn") == last) == {"turn": last}
    found = await served.successful(kube, "RequeueCase", name=name)
    assert {entry["type"]: entry["status"] for entry in conditions_of(found)}["Failure"] == "False"
    barrier = f"barrier-{turns}"  # its second run starts a period after that last run
    await served.create(kube, "RequeueCase", name=barrier, body={"spec": {"turns": 2}})
    await served.data(kube, barrier, until=lambda data: data.get("turn") == "2")
    assert len(served.runs("RequeueCase", name=name)) == turns


async def test_a_main_playbook_that_does_not_load_is_told_and_does_not_block_the_finalizer(
    served: Served, kube: KubeClient
) -> None:
    """The object is deleted at once while its play can't start; the finalizer's playbook runs, and the object goes."""
    await served.create(kube, "FinalizerCase", name="short-lived")
    resource = served.resource("FinalizerCase")

    async def held() -> bool:
        found = await kube.get(resource, namespace=served.namespace, name="short-lived")
        return bool(found["metadata"].get("finalizers"))

    await wait_until(held, what=f"the finalizer to be set; {served.operator.tail(40)}", limit=300)
    await kube.delete(resource, namespace=served.namespace, name="short-lived")
    results = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "finalizer-results"}}
    await kube.create(CONFIG_MAPS, namespace=served.namespace, body=results)

    async def gone() -> bool:
        try:
            await kube.get(resource, namespace=served.namespace, name="short-lived")
        except NotFound:
            return True
        return False

    await wait_until(gone, what=f"the object to be gone; {served.operator.tail(40)}", limit=300)
    assert await served.data(kube, "finalizer-results") == {"finalizer": "done"}


async def test_secrets_are_watched_by_their_label_and_mirrored(served: Served, kube: KubeClient) -> None:
    """A kind of the core group, without a generation or a status: its creation and its update both run the play."""
    head = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mirrored", "labels": {"mirror": "yes"}}}
    await kube.create(SECRETS, namespace=served.namespace, body={**head, **_encoded(first="one")})
    unlabelled = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "unlabelled"}, **_encoded(first="one")}
    await kube.create(SECRETS, namespace=served.namespace, body=unlabelled)
    assert await served.data(kube, "mirrored") == {"first": "one"}
    await kube.patch(SECRETS, namespace=served.namespace, name="mirrored", body=_encoded(second="two"))
    data = await served.data(kube, "mirrored", until=lambda data: "second" in data)
    assert data == {"first": "one", "second": "two"}
    assert await served.config_map(kube, "unlabelled") is None


async def test_a_selector_decides_which_objects_run(served: Served, kube: KubeClient) -> None:
    """An object without the label is left alone while a later one with it runs; once labelled, it runs too."""
    await served.create(kube, "SelectorCase", name="not-chosen")
    await served.create(kube, "SelectorCase", name="chosen", body={"metadata": {"labels": {"chosen": "true"}}})
    await served.successful(kube, "SelectorCase", name="chosen")
    assert await served.data(kube, "chosen") == {"hello": "world"}
    assert await served.config_map(kube, "not-chosen") is None
    resource = served.resource("SelectorCase")
    labels = {"metadata": {"labels": {"chosen": "true"}}}
    await kube.patch(resource, namespace=served.namespace, name="not-chosen", body=labels)
    await served.successful(kube, "SelectorCase", name="not-chosen")


async def test_what_is_made_elsewhere_is_annotated_and_put_back(served: Served, kube: KubeClient) -> None:
    """A Namespace and an object in it name their owner by annotations; a label changed by hand is changed back."""
    place = f"{served.namespace}-made"
    await served.create(kube, "AnnotationCase", name="sample", body={"spec": {"place": place}})
    try:
        await served.successful(kube, "AnnotationCase", name="sample")
        for obj in (
            await kube.get(CONFIG_MAPS, namespace=place, name="sample"),
            await kube.get(NAMESPACES, name=place),
        ):
            annotations = annotations_of(obj)
            assert annotations["operator-sdk/primary-resource"] == f"{served.namespace}/sample"
            assert annotations["operator-sdk/primary-resource-type"] == f"AnnotationCase.{served.group}"
            assert "ownerReferences" not in obj["metadata"]
        await kube.patch(NAMESPACES, name=place, body={"metadata": {"labels": {"case": "changed"}}})

        async def put_back() -> bool:
            return labels_of(await kube.get(NAMESPACES, name=place))["case"] == "made"

        await wait_until(put_back, what=f"the label to be changed back; {served.operator.tail(40)}", limit=300)
    finally:
        await kube.delete(NAMESPACES, name=place)


async def test_a_play_enters_a_pod_and_reads_its_log(
    served: Served, kube: KubeClient, plane: ControlPlane, tmp_path: Path
) -> None:
    """k8s_exec and k8s_log reach the kubelet through the proxy, and k8s_status keeps what they brought."""
    async with serving_node(plane, kube=kube, folder=tmp_path) as node:
        node.say("Running as told")
        spec = {
            "nodeName": node.name,
            "execCommand": "sh -c 'echo hello world; echo alas >&2'",
            "ownerVersion": f"{served.group}/v1alpha1",
        }
        await served.create(kube, "EnteredCase", name="entered", body={"spec": spec})
        found = await served.successful(kube, "EnteredCase", name="entered")
        pod = await kube.get(PODS, namespace=served.namespace, name="entered-pod")
        await kube.delete(served.resource("EnteredCase"), namespace=served.namespace, name="entered")  # no further run
        with contextlib.suppress(NotFound):  # collected already
            await kube.delete(PODS, namespace=served.namespace, name="entered-pod")
    status = found["status"]
    assert (status["stdout"], status["stderr"]) == ("hello world\n", "alas\n")
    assert status["log"] == "Running as told\n"
    assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [found["metadata"]["uid"]]


async def test_the_start_log_names_the_environment_of_the_plays(served: Served) -> None:
    """One record of `cmd` has the versions of Ansible, its runner and the Kubernetes client where plays run."""
    log = (served.folder.parent / "operator.log").read_text().splitlines()
    records = [json.loads(line) for line in log if line.startswith("{")]
    (record,) = [record for record in records if record["msg"] == "Versions"]
    assert record["logger"] == "cmd"
    assert record["ansible-core"].startswith(f"{served.core}.")
    assert record["kubernetes"].startswith("33." if served.core == "2.18" else "37.")
