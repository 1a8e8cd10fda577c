"""Whether an object is one that a watch serves: label selectors, and the exception for objects in deletion.

Pure. Used by the predicates of `runner.sources` when something changes, and by `runner.reconcile` when a key's turn
comes, because labels may have changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runner.errors import ConfigError
from runner.kube.objects import Object, finalizers_of, is_deleting, labels_of
from runner.watches.model import LabelRequirement, Watch


def matches(selector: Iterable[LabelRequirement], *, labels: Mapping[str, str]) -> bool:
    """Tell whether *labels* meet every requirement; an empty selector takes everything."""
    return all(_meets(requirement, labels) for requirement in selector)


def serves(watch: Watch, obj: Object) -> bool:
    """Tell whether *watch* is responsible for *obj*.

    That is: the selector matches, or the object is being deleted and still carries the watch's finalizer, which
    nobody else would ever take away.
    """
    return matches(watch.selector, labels=labels_of(obj)) or (is_deleting(obj) and holds(watch, obj))


def holds(watch: Watch, obj: Object) -> bool:
    """Tell whether *obj* carries the finalizer of *watch*."""
    return watch.finalizer is not None and watch.finalizer.name in finalizers_of(obj)


def _meets(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":  # as in Kubernetes: an object without the label meets it
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ConfigError(
        f"selector: operator {requirement.operator!r} of key {requirement.key!r} is unknown; "
        "use In, NotIn, Exists or DoesNotExist"
    )
