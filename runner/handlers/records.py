"""What kopf and handlers log, as records of the operator's own log.

Handlers speak at their own levels, with the object that they are called for. What kopf says of its work is for a
developer, but for warnings and errors; what it says of an object's handler comes with the traceback.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kopf

from runner.handlers.loading import PACKAGE
from runner.kube.objects import GVK
from runner.logs import Logger, level_number

_KOPF = str(Path(kopf.__file__).parent)
_ADAPTERS = str(Path(_KOPF, "_core", "actions", "loggers.py"))
_NOISE = ("OS signals are ignored",)
"""Warnings that tell what is wanted here."""
_PASSING = ("Request attempt",)
"""Errors that are tried again."""


class Records(logging.Handler):
    """Writes the records of kopf and of handlers to a `Logger`."""

    def __init__(self, logger: Logger) -> None:
        """Write to *logger*."""
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record*."""
        try:
            sentence = record.getMessage()
        except (TypeError, ValueError, KeyError):
            sentence = str(record.msg)
        level = record.levelno
        of_kopf = _speaker().startswith(_KOPF)
        if of_kopf and (level < logging.WARNING or sentence.startswith(_NOISE)):
            level = logging.DEBUG
        elif of_kopf and sentence.startswith(_PASSING):
            level = logging.WARNING
        logger = self._logger if record.name.startswith("kopf") else self._logger.named(record.name)
        keys = _object_of(record)
        if record.exc_info and record.exc_info[1] is not None:
            keys["error"] = record.exc_info[1]
        _method(logger, level)(sentence, **keys)


@contextlib.contextmanager
def records_of_handlers(logger: Logger, *, level: str) -> Iterator[None]:
    """Send what kopf and handlers log to *logger* during the block, from the operator's *level* on."""
    handler = Records(logger)
    lowest = logging.DEBUG if level_number(level) < 0 else logging.INFO
    loggers = [logging.getLogger(name) for name in ("kopf", PACKAGE)]
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(lowest)
        each.propagate = False
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(handler)
            each.propagate = not each.handlers  # another operator of this process may still listen


def _speaker() -> str:
    """Return the file of who logs: the first frame outside of `logging` and of kopf's loggers."""
    frame = sys._getframe(2)  # noqa: SLF001 - as `logging` itself finds out who called
    while frame.f_back is not None and frame.f_code.co_filename in {logging.__file__, _ADAPTERS}:
        frame = frame.f_back
    return frame.f_code.co_filename


def _object_of(record: logging.LogRecord) -> dict[str, Any]:
    told = getattr(record, "k8s_ref", None)
    if not isinstance(told, Mapping):
        return {}
    group, _, version = str(told.get("apiVersion") or "").rpartition("/")
    gvk = GVK(group, version, str(told.get("kind") or ""))
    return {"gvk": str(gvk), "name": told.get("name") or "", "namespace": told.get("namespace") or ""}


def _method(logger: Logger, level: int) -> Any:
    if level >= logging.ERROR:
        return logger.error
    if level >= logging.WARNING:
        return logger.warning
    return logger.info if level >= logging.INFO else logger.debug
