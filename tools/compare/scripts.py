"""What happens to the objects of each case; `cases` says which watches and content go with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.compare.world import World

_ANNOTATION = "ansible.sdk.operatorframework.io"
_NAMES = (
    "var", "foo_bar", "size_k8s_test", "k8s_var", "sizeK8sBuckets", "ThisShouldHaveUnderscores",
    "_CanYou_Handle_mixedVars",
    "egressIPs", "egressIPsEgress", "IPsegress", "egressIP", "URLegressIPEgressHTTP", "URLsegressIPsEgressHTTPs",
    "FOOBar", "fooBAR2", "foo-dash", "userID", "userIDs", "aB", "aBCDe", "URL", "HTTP", "HTTPSPort", "enableHTTPS",
    "ClusterIP", "IPv4", "VIP", "RECIPE", "ZIPFile", "x1y2", "storageV1Beta1", "oauth2Proxy", "OAuth2", "foo_",
    "foo.dot", "888", "Été",
)  # fmt: skip


def names(world: World) -> None:
    """Create an object whose spec has keys of every spelling, at three depths."""
    spec = {name: f"value of {name}" for name in _NAMES}
    nested = {"outerKey": {"innerURLs": [{"deepHTTPKey": 1, "list": [True, None, 1.5]}]}}
    world.create("names", spec={**spec, **nested, "ansible_port": 99, "emptyMap": {}, "emptyList": []})
    world.settle("names")
    world.observe("created", name="names", files=True)


def playbook(world: World) -> None:
    """Create a cluster-scoped object, then change its spec; the role's variables keep the object's spelling."""
    world.create("global", spec={"camelCase": {"innerKey": 1}, "overridden": "by the spec"})
    world.settle("global")
    world.observe("created", name="global", files=True)
    world.change("global", spec={"camelCase": {"innerKey": 2}, "added": "later"})
    world.settle("global")
    world.observe("changed", name="global")


def unsafe(world: World) -> None:
    """Create objects with templates in spec and metadata, where the watch says markUnsafe and where it doesn't."""
    text = "{{ 1 + 1 }}"
    spec = {"text": text, "nested": {"list": [text, {"deep": text}]}, "number": 3, "nothing": None}
    metadata = {"annotations": {"example.com/note": text}, "labels": {"plain": "label"}}
    for name, kind in (("unsafe", "Unsafe"), ("templated", "Templated")):
        world.create(name, kind=kind, metadata=metadata, spec=spec)
        world.settle(name)
        world.observe(name, name=name)


def finalizer(world: World) -> None:
    """Create and delete objects with finalizers: the watch's own role with variables, and a role of its own."""
    for name, kind in (("same", "Held"), ("other", "Kept")):
        world.create(name, kind=kind, spec={"size": 1})
        world.settle(name)
        world.observe(f"{name} created", name=name)
        world.delete(name)
        world.observe(f"{name} deleted", name=name, files=name == "same")


def repair(world: World) -> None:
    """Create objects whose role fails in three ways, then one whose spec is repaired."""
    for how in ("loop", "no_log", "both"):
        name = how.replace("_", "-")
        world.create(name, spec={"how": how})
        world.settle(name)
        world.observe(f"failing: {how}", name=name)
        world.change(name, spec={"how": "none"})
        world.settle(name, want="Successful")
    world.create("repaired", spec={"how": "plain"})
    world.settle("repaired")
    world.observe("failing: plain", name="repaired")
    world.change("repaired", spec={"how": "none"})
    world.settle("repaired", want="Successful")
    world.await_quiet()
    world.observe("repaired", name="repaired")


def rescue(world: World) -> None:
    """Create objects whose role fails and goes on: in a block with a rescue, and with ignore_errors."""
    for name, kind in (("rescued", "Rescued"), ("ignored", "Ignored")):
        world.create(name, kind=kind, spec={"size": 1})
        world.settle(name)
        world.observe(name, name=name)


def broken(world: World) -> None:
    """Create objects whose play meets an unreachable host, and one whose play cannot start."""
    for name, kind in (("unreachable", "Unreachable"), ("unknown", "Unknown")):
        world.create(name, kind=kind, spec={"size": 1})
        world.settle(name)
        world.observe(name, name=name)


def secrets(world: World) -> None:
    """Create objects with and without the label; change data, labels, and an annotation only."""
    labelled = {"labels": {"compare": "yes"}}
    world.create("without", kind="Secret", stringData={"key": "1"})
    world.create("with", kind="Secret", metadata=labelled, stringData={"key": "1"})
    world.await_runs("with", count=1)
    world.change("with", stringData={"key": "2"})
    world.await_runs("with", count=2)
    world.await_quiet()
    world.observe("data changed", name="with", files=True)
    world.observe("without the label", name="without")
    world.change("without", metadata=labelled)
    world.change("with", stringData={"key": "3"})
    world.await_runs("with", count=3)
    world.await_quiet()
    world.observe("label added", name="without")
    world.change("with", metadata={"annotations": {"only": "this"}})
    world.create("last", kind="Secret", metadata=labelled)
    world.await_runs("last", count=1)
    world.await_quiet()
    world.observe("annotation changed", name="with")
    world.create("late", kind="Labelled", spec={"size": 1})
    world.change("late", metadata=labelled)
    world.create("next", kind="Labelled", metadata=labelled, spec={"size": 1})
    world.settle("next")
    world.await_quiet()
    world.observe("label added where there is a generation", name="late")


def requeue(world: World) -> None:
    """Create an object whose role asks to be run again after two seconds, and one that asks for nonsense."""
    world.create("again", spec={"after": "2s"})
    world.await_runs("again", count=4)
    world.change("again", spec={"after": "10m"})
    world.await_quiet()
    world.observe("asked for 2s, then for 10m", name="again")
    world.create("nonsense", spec={"after": "soon"})
    world.settle("nonsense")
    world.observe("asked for nonsense", name="nonsense")


def tuned(world: World) -> None:
    """Change what an object may say about its runs by annotation, and an annotation of no meaning."""
    world.create(
        "tuned", metadata=_annotated(**{"reconcile-period": "2s", "verbosity": "3", "max-runner-artifacts": "3"})
    )
    world.await_runs("tuned", count=5)
    world.change("tuned", metadata=_annotated(**{"reconcile-period": "0s"}))
    world.settle("tuned")
    world.await_quiet()
    world.observe("period 2s, then 0s", name="tuned", files=True, counted=False)
    world.create("plain", metadata=_annotated(**{"verbosity": "much", "max-runner-artifacts": "many"}), spec={})
    world.settle("plain")
    world.observe("values that are no numbers", name="plain", files=True)
    world.change("plain", metadata={"annotations": {"example.com/other": "1"}})
    world.await_runs("plain", count=2)
    world.await_quiet()
    world.observe("another annotation", name="plain")
    world.create("bad", metadata=_annotated(**{"reconcile-period": "soon"}), spec={})
    world.settle("bad")
    world.observe("a period that is none", name="bad")
    world.change("bad", metadata=_annotated(**{"reconcile-period": "1h"}))
    world.settle("bad", want="Successful")
    world.await_quiet()
    world.observe("the period corrected", name="bad")


def _annotated(**values: str) -> Mapping[str, Any]:
    return {"annotations": {f"{_ANNOTATION}/{key}": value for key, value in values.items()}}
