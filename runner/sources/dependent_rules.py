"""Which watch wants to know what of which kind of dependents, as its entry in watches.yaml says. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.proxy.ownership import may_be_dependent
from runner.watches.model import Watch


@dataclass(frozen=True, kw_only=True)
class Interest:
    """What one watch wants to know of one kind."""

    content: bool
    """Changes of spec and metadata, and deletions: `watchDependentResources`, and not on the `blacklist`."""
    fields: frozenset[str]
    """Paths whose values count: `watchDependentStatus`."""

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return self.content or bool(self.fields)


def interest_of(watch: Watch, gvk: GVK) -> Interest:
    """Return what *watch* wants to know of *gvk*."""
    return Interest(
        content=watch.watch_dependent_resources and gvk not in watch.blacklist,
        fields=frozenset(field for entry in watch.watch_dependent_status if entry.gvk == gvk for field in entry.fields),
    )


def reason_against(
    watch: Watch | None, resource: Resource, *, owner_namespaced: bool, namespace: str, namespaces: Iterable[str]
) -> str:
    """Return why dependents of *resource* in *namespace* are not watched for an owner of *watch*; empty where they are.

    Args:
        watch: the entry with the owner's own GVK; None where there is none.
        resource: the dependents' kind.
        owner_namespaced: whether the owner is in a namespace.
        namespace: where the dependent is; empty for cluster scope.
        namespaces: those that the operator watches; none means all.
    """
    watched = frozenset(namespaces)
    if watch is None:
        return "the owner's kind is not in watches.yaml"
    hidden = not resource.namespaced and owner_namespaced and not watch.watch_cluster_scoped_resources
    reasons = {
        "watchDependentResources is false": not watch.watch_dependent_resources,
        "Events expire by themselves": not may_be_dependent(resource.gvk),
        "the kind is on the blacklist": resource.gvk in watch.blacklist,
        "the namespace is not watched": resource.namespaced and bool(watched) and namespace not in watched,
        "watchClusterScopedResources is false": hidden,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
