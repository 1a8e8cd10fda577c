"""A request for a module survives the way to the module server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from runner.execution.warm.far import PACKAGE
from runner.execution.warm.far.module_child import (
    Request,
    RequestError,
    own_limits,
    own_modules,
    read_request,
    write_request,
)
from runner.execution.warm.far.shell import Shells


def request(*, script: str | None, source: bytes) -> Request:
    """Return a request with an environment that is hard to write down."""
    return Request(
        mark="1",
        interpreter="/usr/bin/python",
        script=script,
        shells=Shells(outer="/bin/sh", inner="/bin/bash"),
        environ={"A": "a\nb", "B": os.fsdecode(b"\xff")},
        cwd="/",
        umask=0o27,
        nice=3,
        limits=own_limits(),
        source=source,
    )


def sent(wanted: Request) -> Request:
    """Return *wanted* as the server reads it."""
    descriptor = os.memfd_create("test")
    try:
        write_request(wanted, descriptor)
        return read_request(descriptor)
    finally:
        os.close(descriptor)


def test_a_request_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Nothing is lost on the way, and a payload in a file is read from there."""
    by_input = request(script=None, source=b"one\ntwo\xff")
    assert sent(by_input) == by_input
    script = tmp_path / "AnsiballZ_x.py"
    script.write_bytes(b"text")
    by_file = request(script=str(script), source=b"")
    assert sent(by_file) == request(script=str(script), source=b"text")


def test_a_secret_is_not_in_the_text_of_a_request() -> None:
    """The environment and the payload are left out of what is printed."""
    text = repr(request(script=None, source=b"secret payload"))
    assert "secret" not in text
    assert "a\\nb" not in text


def test_what_cannot_be_read_goes_the_ordinary_way(tmp_path: Path) -> None:
    """A payload that is missing, or no file, is refused with a reason."""
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(RequestError, match="payload"):
            sent(request(script=str(path), source=b""))


def test_a_module_of_the_server_that_is_loaded_later_is_known_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are taken out of a module's sight, whenever their names were looked for before."""
    others = own_modules()
    name = f"{PACKAGE}.late"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert own_modules() == (*others, name)
    monkeypatch.delitem(sys.modules, name)
    assert own_modules() == others
