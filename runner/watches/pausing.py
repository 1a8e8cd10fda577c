"""The brake that a person puts on one object: an annotation, and no run of any kind until it is taken away.

Read by the predicates, which let its changes pass, and by the step that stops a reconcile.
"""

from __future__ import annotations

from runner.kube.objects import Object, annotations_of

PAUSED_ANNOTATION = "ansible-operator.io/paused"
_RUNS = frozenset({"0", "f", "F", "false", "False", "FALSE"})
"""Go's words for false. Any other value is a brake: who puts it on in a hurry must not fail for a spelling."""


def is_paused(obj: Object) -> bool:
    """Tell whether a person stopped the runs of *obj*."""
    value = annotations_of(obj).get(PAUSED_ANNOTATION)
    return value is not None and value not in _RUNS
