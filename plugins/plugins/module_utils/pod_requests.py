"""What a pod asks of its node, counted as kube-scheduler counts it. Pure.

Containers run together, so they add up. Init containers run one after the other, so the greatest counts; a restartable
one (a sidecar: `restartPolicy: Always`) keeps running beside everything that starts after it. What the pod asks for as
a whole (`spec.resources`) stands in place of the containers' sum, and the runtime class's overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.quantities import parse, rounded

_Exact = dict[str, Fraction]


def requests_of(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return the amounts that a node has to have free for *pod*, itself as one of `pods` included."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    asked = _together(spec, status)
    for name, value in _of_the_pod(spec, asked).items():
        asked[name] = value
    _add(asked, _exact(spec.get("overhead")))
    return {**{name: rounded(name, value) for name, value in asked.items() if value > 0}, "pods": 1}


def _together(spec: Mapping[str, Any], status: Mapping[str, Any]) -> _Exact:
    """Return what the containers ask for: while all run, or while one of the init containers does."""
    running = _running(spec.get("containers") or [], statuses=status.get("containerStatuses") or [])
    sidecars: _Exact = {}
    starting: _Exact = {}
    for container in spec.get("initContainers") or []:
        asked = _container(container)
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
            _add(sidecars, asked)
            _raise(starting, sidecars)
        else:
            _add(asked, sidecars)
            _raise(starting, asked)
    _raise(running, starting)
    return running


def _running(containers: Sequence[Mapping[str, Any]], *, statuses: Sequence[Mapping[str, Any]]) -> _Exact:
    """Add the containers up; one that is being resized holds the greater of what it has and what it wants."""
    by_name = {item.get("name"): item for item in statuses}
    summed: _Exact = {}
    for container in containers:
        asked = _container(container)
        held = by_name.get(container.get("name")) or {}
        _raise(asked, _exact(held.get("allocatedResources")))
        _raise(asked, _exact((held.get("resources") or {}).get("requests")))
        _add(summed, asked)
    return summed


def _container(container: Mapping[str, Any]) -> _Exact:
    """Return one container's requests; where only a limit is given, the API server makes it the request."""
    resources = container.get("resources") or {}
    return {**_exact(resources.get("limits")), **_exact(resources.get("requests"))}


def _of_the_pod(spec: Mapping[str, Any], asked: _Exact) -> _Exact:
    """Return the requests of the pod as a whole; a limit alone counts where no container asks for the resource."""
    resources = spec.get("resources") or {}
    limits = {name: value for name, value in _exact(resources.get("limits")).items() if name not in asked}
    whole = {**limits, **_exact(resources.get("requests"))}
    return {name: value for name, value in whole.items() if _is_pod_level(name)}


def _is_pod_level(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _exact(quantities: Mapping[str, object] | None) -> _Exact:
    return {name: parse(quantity) for name, quantity in (quantities or {}).items()}


def _add(to: _Exact, more: _Exact) -> None:
    for name, value in more.items():
        to[name] = to.get(name, Fraction(0)) + value


def _raise(to: _Exact, least: _Exact) -> None:
    for name, value in least.items():
        to[name] = max(to.get(name, Fraction(0)), value)
