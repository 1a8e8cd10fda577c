"""`ansible-operator migrate` against the real API server: what it tells, writes and refuses."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.errors import ConfigError, Invalid, NotFound
from runner.kube import migration
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, generation_of, resource_version_of
from runner.localdev.plane import ControlPlane
from runner.settings import KubeSettings, environment
from runner.testing.cluster import CRDS, crd, install_crd, wait_until
from runner.testing.faults import HttpFaultProxy, Rule

ROOT = Path(__file__).parents[3]
SIZED: Object = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A CRD of two versions, and objects that were stored in the first one."""

    kube: KubeClient
    kubeconfig: Path
    namespace: str
    name: str
    """The CRD's."""
    resource: Resource
    """In the old version."""

    async def objects(self) -> list[Object]:
        """Return the objects."""
        return await self.kube.list(self.resource, namespace=self.namespace)

    async def stored(self) -> list[str]:
        """Return the versions that the CRD has objects in."""
        versions: list[str] = (await self.kube.get(CRDS, name=self.name))["status"]["storedVersions"]
        return versions

    async def define(self, *versions: str, schema: Object | None = None) -> None:
        """Have the CRD serve *versions*, and store the first one."""
        kind, group = self.resource.gvk.kind, self.resource.gvk.group
        spec = crd(kind, group=group, versions=versions, schema=schema)["spec"]
        found = await self.kube.get(CRDS, name=self.name)
        await self.kube.replace(CRDS, body={**found, "spec": spec})
        await wait_until(lambda: self._knows(versions[0]), what=f"{versions[0]} to be stored")

    async def command(self, *arguments: str) -> tuple[int, str]:
        """Run `ansible-operator migrate`, and return its exit code and what it printed."""
        environ = {**environment(), "KUBECONFIG": str(self.kubeconfig)}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "runner", "migrate", *arguments),
            cwd=ROOT,
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, printed.decode()

    async def _knows(self, version: str) -> bool:
        """Tell whether a new object is stored as *version*: the server notices its CRDs a moment later."""
        return version in await self.stored()


@pytest.fixture
async def scene(kube: KubeClient, plane: ControlPlane, namespace: str) -> Scene:
    """Give three objects of v1alpha1, after which v1beta1 became the version that is stored."""
    kind = f"Old{secrets.token_hex(3)}"
    group = "migration.example.com"
    resource = await install_crd(kube, crd(kind, group=group, versions=("v1alpha1", "v1beta1"), schema=SIZED))
    found = Scene(
        kube=kube,
        kubeconfig=plane.kubeconfig,
        namespace=namespace,
        name=f"{resource.plural}.{group}",
        resource=resource,
    )
    for number in range(3):
        body = {
            "apiVersion": resource.gvk.api_version,
            "kind": kind,
            "metadata": {"name": f"o{number}"},
            "spec": {"size": number},
        }
        await kube.create(resource, namespace=namespace, body=body)
    await found.define("v1beta1", "v1alpha1", schema=SIZED)
    return found


async def test_a_dry_run_tells_and_changes_nothing(scene: Scene) -> None:
    """Without --write the objects and the CRD stay as they are."""
    before = await scene.objects()
    code, told = await scene.command(scene.name)
    assert code == 0
    assert "would write 3 objects anew as v1beta1, and take v1alpha1 off" in told
    assert await scene.objects() == before
    assert await scene.stored() == ["v1alpha1", "v1beta1"]


async def test_objects_are_stored_anew_and_nothing_of_them_changes(scene: Scene) -> None:
    """Each object is written once, in the new version, without a new generation; the old version can go then."""
    before = await scene.objects()
    with pytest.raises(Invalid, match="storedVersions"):
        await scene.define("v1beta1")
    code, told = await scene.command(scene.resource.gvk.kind.upper(), "--write")
    assert (code, told.count("wrote 3 objects anew as v1beta1")) == (0, 1), told
    after = await scene.objects()
    assert [obj["spec"] for obj in after] == [obj["spec"] for obj in before]
    assert [generation_of(obj) for obj in after] == [1, 1, 1]
    assert not {resource_version_of(obj) for obj in before} & {resource_version_of(obj) for obj in after}
    assert await scene.stored() == ["v1beta1"]
    code, told = await scene.command(scene.name, "--write")
    assert (code, "there is nothing to do" in told) == (0, True)
    assert await scene.objects() == after
    await scene.define("v1beta1")


async def test_all_pages_of_a_long_list_are_written(scene: Scene, kube: KubeClient) -> None:
    """A list that comes in several pages is written whole."""
    plan = await migration.find(kube, scene.name)
    result = await migration.migrate(kube, plan, write=True, report=print, page=2)
    assert result == migration.Result(objects=3)
    assert await scene.stored() == ["v1beta1"]


async def test_an_object_that_is_refused_keeps_the_old_version_listed(scene: Scene) -> None:
    """Where the new schema refuses an object, its name and the reason are told, the others are written, exit code 1."""
    rule = {"rule": "!has(self.spec) || self.spec.size != 1", "message": "one is not a size"}
    refusing = {**SIZED, "x-kubernetes-validations": [rule]}
    await scene.define("v1beta1", "v1alpha1", schema=refusing)
    await wait_until(lambda: _is_refused(scene), what="the new rule to be known")
    code, told = await scene.command(scene.name, "--write")
    assert code == 1
    assert "o1" in told
    assert "one is not a size" in told
    assert "1 of 3 objects could not be written" in told
    assert await scene.stored() == ["v1alpha1", "v1beta1"]


async def test_a_server_that_lacks_the_version_yet_keeps_the_old_one_listed(scene: Scene, tmp_path: Path) -> None:
    """A 404 that is about no object, as of an API server that doesn't serve the version, is no object that has gone."""
    async with HttpFaultProxy(upstream_kubeconfig=scene.kubeconfig) as proxy:
        proxy.rule(Rule(method="PATCH", path="/v1beta1/", status=404))
        settings = KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig")))
        async with KubeClient(settings=settings) as kube:
            plan = await migration.find(kube, scene.name)
            result = await migration.migrate(kube, plan, write=True, report=print)
    assert (result.objects, len(result.failures)) == (3, 3)
    assert await scene.stored() == ["v1alpha1", "v1beta1"]


async def test_a_crd_that_changes_meanwhile_keeps_its_list(scene: Scene, kube: KubeClient) -> None:
    """Where another version becomes the stored one meanwhile, the list is left alone, and the error says so."""
    plan = await migration.find(kube, scene.name)
    await scene.define("v1alpha1", "v1beta1", schema=SIZED)
    with pytest.raises(ConfigError, match="changed meanwhile; run the migration again"):
        await migration.migrate(kube, plan, write=True, report=print)
    assert "v1alpha1" in await scene.stored()


@pytest.mark.parametrize(
    ("name", "said"),
    [("nobody-has-this", "no custom resource is called 'nobody-has-this'"), ("twins", "give the whole name of one")],
)
async def test_a_name_that_is_none_or_of_several_is_refused(
    scene: Scene, kube: KubeClient, name: str, said: str
) -> None:
    """The answer says how to find the right name."""
    for group in ("one.migration.example.com", "two.migration.example.com"):
        await install_crd(kube, crd("Twin", group=group))
    code, told = await scene.command(name)
    assert (code, said in told) == (1, True), told


async def test_an_ec2instance_of_v1alpha1_loses_nothing_by_v1beta1(kube: KubeClient, namespace: str) -> None:
    """What was stored as v1alpha1 is read as either version, before and after it is stored as v1beta1."""
    group = f"upgrade-{secrets.token_hex(3)}.example.com"
    new = _in_group(yaml.safe_load((ROOT / "crds" / "ec2instances.yaml").read_text()), group=group)
    old = deepcopy(new)
    old["spec"]["versions"] = [
        {**entry, "storage": True} for entry in new["spec"]["versions"] if entry["name"] == "v1alpha1"
    ]
    alpha = await install_crd(kube, old)
    beta = Resource(gvk=GVK(group, "v1beta1", "EC2Instance"), plural="ec2instances")
    body = {
        "apiVersion": alpha.gvk.api_version,
        "kind": "EC2Instance",
        "metadata": {"name": "web"},
        "spec": {"imageId": "ami-0c0ffee0000000001", "instanceType": "t3.micro", "tags": {"team": "blue"}},
    }
    await kube.create(alpha, namespace=namespace, body=body)
    status = {"status": {"instanceId": "i-0c0ffee0000000001", "state": "running", "launchAttempt": 1}}
    stored = await kube.patch(alpha, namespace=namespace, name="web", body=status, subresource="status")
    found = await kube.get(CRDS, name=f"ec2instances.{group}")
    await kube.replace(CRDS, body={**found, "spec": new["spec"]})
    await wait_until(lambda: _reads(kube, beta, namespace=namespace), what="v1beta1 to be served")
    assert _content(await kube.get(beta, namespace=namespace, name="web")) == _content(stored)
    plan = await migration.find(kube, f"ec2instances.{group}")
    assert await migration.migrate(kube, plan, write=True, report=print) == migration.Result(objects=1)
    for resource in (alpha, beta):
        assert _content(await kube.get(resource, namespace=namespace, name="web")) == _content(stored)
    changed = await kube.patch(alpha, namespace=namespace, name="web", body={"spec": {"tags": {"team": "red"}}})
    assert generation_of(changed) == 2
    assert (await kube.get(beta, namespace=namespace, name="web"))["spec"] == changed["spec"]


def _in_group(body: dict[str, Any], *, group: str) -> dict[str, Any]:
    return {
        **body,
        "metadata": {"name": f"{body['spec']['names']['plural']}.{group}"},
        "spec": {**body["spec"], "group": group},
    }


def _content(obj: Object) -> Mapping[str, Any]:
    return {"spec": obj["spec"], "status": obj["status"], "uid": obj["metadata"]["uid"]}


async def _reads(kube: KubeClient, resource: Resource, *, namespace: str) -> bool:
    try:
        return bool(await kube.list(resource, namespace=namespace))
    except NotFound:
        return False


async def _is_refused(scene: Scene) -> bool:
    body = {
        "apiVersion": scene.resource.gvk.api_version,
        "kind": scene.resource.gvk.kind,
        "metadata": {"generateName": "probe-"},
        "spec": {"size": 1},
    }
    try:
        made = await scene.kube.create(scene.resource, namespace=scene.namespace, body=body)
    except Invalid:
        return True
    await scene.kube.delete(scene.resource, namespace=scene.namespace, name=made["metadata"]["name"])
    return False
