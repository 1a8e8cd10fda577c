"""What handlers hand to runs of Ansible: functions that a handler file marks with `published`.

    from runner.handlers import published

    @kopf.index("pods", when=is_unschedulable)
    def unschedulable(namespace, name, **_):
        return {namespace: name}

    @published
    def unschedulable_pods(*, unschedulable, spec, **_):
        return [name for key in spec["namespaces"] for name in unschedulable.get(key, [])]

A run of an entry that names the file has the variable `ansible_operator_handlers.unschedulable_pods`. The function is
called on the handlers' event loop right before the run, with the file's indexes by their names, and with `body`,
`spec`, `namespace` and `name` of the object that the run is for. It must be quick, and return what JSON can say.

While a file is loaded its functions are collected here; imported by a test, they are plain functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Publisher = Callable[..., Any]
_F = TypeVar("_F", bound=Publisher)
_collecting: list[list[Publisher]] = []
"""The lists of the files that are being loaded, the innermost last."""


def published(function: _F) -> _F:
    """Mark *function* as one whose result runs get, under its name; return it as it is."""
    if _collecting:
        _collecting[-1].append(function)
    return function


@contextlib.contextmanager
def collecting() -> Iterator[list[Publisher]]:
    """Collect what is marked during the block."""
    found: list[Publisher] = []
    _collecting.append(found)
    try:
        yield found
    finally:
        _collecting.pop()
