"""What one object may change of its runs by annotation: verbosity, how many artifacts are kept, and the time limit.

A value that cannot be read is logged and the watch's own value is used (contract section 3).
"""

from __future__ import annotations

from datetime import timedelta

from runner.kube.objects import Object, annotations_of
from runner.logs import Logger
from runner.settings import MOST_VERBOSE
from runner.watches.durations import parse_duration

VERBOSITY_ANNOTATION = "ansible.sdk.operatorframework.io/verbosity"
MAX_ARTIFACTS_ANNOTATION = "ansible.sdk.operatorframework.io/max-runner-artifacts"
RUN_TIMEOUT_ANNOTATION = "ansible-operator.io/run-timeout"
_BEYOND = 2**63
"""The first number that Go's int cannot hold."""
_VALUE_SHOWN = 64


def verbosity_of(obj: Object, *, default: int, log: Logger) -> int:
    """Return how many `v`s *obj*'s runs get: 7 at most, as more tell Ansible nothing, and below 1 means none."""
    asked = _number(obj, VERBOSITY_ANNOTATION, default=default, log=log)
    if asked > MOST_VERBOSE:
        log.debug("More verbosity than Ansible knows", asked=asked, using=MOST_VERBOSE)
    return min(max(0, asked), MOST_VERBOSE)


def max_artifacts_of(obj: Object, *, default: int, log: Logger) -> int:
    """Return how many runs' artifacts are kept for *obj*; 0 keeps all, less than that counts as 0."""
    return max(0, _number(obj, MAX_ARTIFACTS_ANNOTATION, default=default, log=log))


def run_timeout_of(obj: Object, *, default: timedelta, log: Logger) -> timedelta:
    """Return the longest that one of *obj*'s runs may take; zero for no limit."""
    value = annotations_of(obj).get(RUN_TIMEOUT_ANNOTATION)
    if value is None:
        return default
    try:
        limit = parse_duration(value)
    except ValueError:
        limit = timedelta(-1)
    if limit < timedelta():
        _tell(RUN_TIMEOUT_ANNOTATION, value, wanted="duration such as 15m, or 0s for no limit", log=log)
        return default
    return limit


def _number(obj: Object, annotation: str, *, default: int, log: Logger) -> int:
    value = annotations_of(obj).get(annotation)
    if value is None:
        return default
    number = whole_number(value)
    if number is None:
        _tell(annotation, value, wanted="whole number", log=log)
        return default
    return number


def _tell(annotation: str, value: str, *, wanted: str, log: Logger) -> None:
    shown = value if len(value) <= _VALUE_SHOWN else f"{value[:_VALUE_SHOWN]}..."
    log.info(f"The annotation is no {wanted}, the watch's value is used", annotation=annotation, value=shown)


def whole_number(text: str) -> int | None:
    """Return the number that *text* says, None where it is none: as the peer reads it, without blanks and `_`.

    What doesn't fit in 64 bits is no number either.
    """
    sign, digits = (text[:1], text[1:]) if text[:1] in {"+", "-"} else ("", text)
    if not (digits.isascii() and digits.isdigit()):
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > len(str(_BEYOND)):  # thousands of them, which Python would not convert
        return None
    number = int(sign + digits)
    return number if -_BEYOND <= number < _BEYOND else None
