"""What one object may change of its runs by annotation: verbosity and the number of artifacts that are kept.

A value that is no number is logged and the watch's own value is used (contract section 3).
"""

from __future__ import annotations

from runner.kube.objects import Object, annotations_of
from runner.logs import Logger

VERBOSITY_ANNOTATION = "ansible.sdk.operatorframework.io/verbosity"
MAX_ARTIFACTS_ANNOTATION = "ansible.sdk.operatorframework.io/max-runner-artifacts"


def verbosity_of(obj: Object, *, default: int, log: Logger) -> int:
    """Return how many `v`s *obj*'s runs get; the annotation is not limited to 7, and below 1 means none."""
    return max(0, _number(obj, VERBOSITY_ANNOTATION, default=default, log=log))


def max_artifacts_of(obj: Object, *, default: int, log: Logger) -> int:
    """Return how many runs' artifacts are kept for *obj*; 0 keeps all, less than that counts as 0."""
    return max(0, _number(obj, MAX_ARTIFACTS_ANNOTATION, default=default, log=log))


def _number(obj: Object, annotation: str, *, default: int, log: Logger) -> int:
    value = annotations_of(obj).get(annotation)
    if value is None:
        return default
    sign, digits = (value[:1], value[1:]) if value[:1] in {"+", "-"} else ("", value)
    if not (digits.isascii() and digits.isdigit()):
        log.info("The annotation is no whole number, the watch's value is used", annotation=annotation, value=value)
        return default
    return int(sign + digits)
