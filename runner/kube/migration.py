"""Brings the stored objects of a kind to the version that its CRD stores today; behind `ansible-operator migrate`.

The API server stores an object anew, in today's version, whenever it is written; objects that nobody writes stay as
they are, and a CRD may not drop a version that is named in its `status.storedVersions`. So each object is patched with
nothing in it, which can undo nobody's change and moves no generation, and then the old versions are taken off the list.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runner.errors import Call, ConfigError, Gone, KubeError, NotFound
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, generation_of, name_of, namespace_of

CRDS = Resource(
    gvk=GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    plural="customresourcedefinitions",
    namespaced=False,
)
_PAGE = 500
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Migration:
    """What is to be done for one CRD."""

    crd: Object = field(repr=False)
    resource: Resource
    """The kind in the version that is stored today."""
    old: tuple[str, ...]
    """Versions in which objects may still be stored; empty: there is nothing to do."""

    @property
    def name(self) -> str:
        """Return the CRD's name."""
        return name_of(self.crd)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What was done, or would be."""

    objects: int
    failures: tuple[str, ...] = ()
    """A sentence for each object that could not be written."""


async def find(kube: KubeClient, kind: str) -> Migration:
    """Return what a migration of *kind* has to do; *kind* is any name that kubectl knows for it, in any case.

    Raises:
        ConfigError: no custom resource has this name, or several have.
    """
    crds = await kube.list(CRDS)
    wanted = kind.lower()
    found = [crd for crd in crds if wanted in _names_of(crd)]
    if not found:
        raise ConfigError(
            f"no custom resource is called {kind!r}; `kubectl get crd` lists them, a name looks like {_example(crds)}"
        )
    if len(found) > 1:
        names = ", ".join(sorted(map(name_of, found)))
        raise ConfigError(f"{kind!r} is the name of several custom resources; give the whole name of one: {names}")
    return _migration_of(found[0])


async def migrate(kube: KubeClient, migration: Migration, *, write: bool, report: Report, page: int = _PAGE) -> Result:
    """Write each object of the kind anew and take the old versions off the CRD's list; without *write* only count.

    *report* gets a sentence for each object that could not be written; *page* objects are listed at once.

    Raises:
        ConfigError: the CRD was changed meanwhile.
        KubeError: objects could not be listed, or the CRD could not be written.
    """
    names, failures = await _all(kube, migration.resource, page=page), list[str]()
    for namespace, name in names if write else ():
        if failure := await _rewrite(kube, name, namespace=namespace, resource=migration.resource):
            report(failure)
            failures.append(failure)
    if write and not failures:
        await _forget_old(kube, migration)
    return Result(objects=len(names), failures=tuple(failures))


def _names_of(crd: Object) -> set[str]:
    names = crd["spec"]["names"]
    given = (names["plural"], names.get("singular", ""), names["kind"], *names.get("shortNames", ()))
    return {name_of(crd), *(name.lower() for name in given if name)}


def _example(crds: list[Object]) -> str:
    return min(map(name_of, crds), default="ec2instances.aws.ansible-operator.io")


def _migration_of(crd: Object) -> Migration:
    spec = crd["spec"]
    stored = next(version["name"] for version in spec["versions"] if version["storage"])
    old = [version for version in crd.get("status", {}).get("storedVersions") or [] if version != stored]
    resource = Resource(
        gvk=GVK(spec["group"], stored, spec["names"]["kind"]),
        plural=spec["names"]["plural"],
        namespaced=spec["scope"] == "Namespaced",
    )
    return Migration(crd=crd, resource=resource, old=tuple(old))


async def _all(kube: KubeClient, resource: Resource, *, page: int) -> Sequence[tuple[str, str]]:
    """Return namespace and name of all objects; a list that expires between its pages begins again.

    They are listed before the first one is written, as that may take longer than a list lives.
    """
    call = Call(verb="list", resource=resource.label())
    found, token = list[tuple[str, str]](), ""
    while True:
        query = [("limit", str(page)), *([("continue", token)] if token else [])]
        try:
            answer = await kube.request("GET", resource.path(), query=query, accept=_METADATA, call=call)
        except Gone:
            if not token:
                raise
            found, token = [], ""
            continue
        found += [(namespace_of(item), name_of(item)) for item in answer.get("items") or []]
        token = answer.get("metadata", {}).get("continue") or ""
        if not token:
            return found


async def _rewrite(kube: KubeClient, name: str, *, namespace: str, resource: Resource) -> str:
    """Write an object as it is; return why that was not possible, empty where it was, or where it has gone."""
    try:
        await kube.patch(resource, namespace=namespace, name=name, body={})
    except NotFound as error:
        # an API server that doesn't know the version yet answers 404 for every object
        return "" if error.names_object else str(error)
    except KubeError as error:
        return str(error)
    return ""


async def _forget_old(kube: KubeClient, migration: Migration) -> None:
    """Take the old versions off the list, unless the CRD has changed: objects may be stored otherwise then."""
    crd = await kube.get(CRDS, name=migration.name)
    if generation_of(crd) != generation_of(migration.crd):
        raise ConfigError(f"the CRD {migration.name} was changed meanwhile; run the migration again")
    status = {**crd["status"], "storedVersions": [migration.resource.gvk.version]}
    await kube.replace(CRDS, body={**crd, "status": status}, subresource="status")
