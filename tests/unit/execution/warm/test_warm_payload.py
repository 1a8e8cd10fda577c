"""Payloads compiled in parts do what the whole does."""

from __future__ import annotations

import base64
import traceback
from typing import Any

import pytest

from runner.execution.warm.far.payload import NoPayload, Payloads

ZIP = base64.b64encode(bytes(range(256)) * 3).decode()
NEW = """#!/usr/bin/python
from __future__ import annotations
import datetime
_ANSIBALLZ_WRAPPER = True

def _ansiballz_main(**given):
    def inner():
        seen.append((given, inner.__code__.co_filename))
    inner()
    1 / given["divisor"]


if __name__ == "__main__":
    _ansiballz_main(
date_time=datetime.datetime(2026, 11, 30, 2, 59, 47, 392866, tzinfo=datetime.timezone.utc),
params='{"a": "it\\'s =\\'%s"}',
zip_data='%s',
divisor=%d,
)
"""
OLD = """#!/usr/bin/python
# -*- coding: utf-8 -*-
_ANSIBALLZ_WRAPPER = True
def _ansiballz_main():
    class zinfo: pass
    ZIPDATA = '%s'
    def inner():
        zinfo.date_time = (2026, 11, 30, 2, 59, 47)
        return zinfo.date_time
    ANSIBALLZ_PARAMS = '{"a": "it\\'s %s ü"}'
    seen.append((ZIPDATA, inner(), ANSIBALLZ_PARAMS))
    1 / %d
if __name__ == '__main__':
    _ansiballz_main()
"""


def run(code: Any, *, filename: str) -> tuple[list[Any], str]:
    """Execute *code*; return what it saw, and the traceback it ended with, if any."""
    namespace: dict[str, Any] = {"__name__": "__main__", "seen": []}
    try:
        for part in code:
            exec(part, namespace)  # noqa: S102 - what is tested is code
    except ZeroDivisionError:
        lines = [line for line in traceback.format_exc().splitlines() if filename in line]
        return namespace["seen"], "\n".join(lines)
    return namespace["seen"], ""


@pytest.mark.parametrize("divisor", [1, 0])
@pytest.mark.parametrize("argument", ["first", "second"])
@pytest.mark.parametrize("template", ["2.19", "2.18"])
def test_parts_do_what_the_whole_does(template: str, argument: str, divisor: int) -> None:
    """Arguments, zip, dates and tracebacks are those of the payload compiled as a whole."""
    payloads = Payloads()
    text = NEW % ("x", ZIP, divisor) if template == "2.19" else OLD % (ZIP, argument, divisor)
    before = NEW % ("y", ZIP, 1) if template == "2.19" else OLD % (ZIP[4:], "before", divisor)
    run(payloads.code(before.encode(), filename="/other.py"), filename="/other.py")
    whole = run([compile(text.encode(), "/p.py", "exec", dont_inherit=True)], filename="/p.py")
    assert run(payloads.code(text.encode(), filename="/p.py"), filename="/p.py") == whole
    assert bool(whole[1]) == (divisor == 0)


@pytest.mark.parametrize("text", [b"print(1)\n", b"_ANSIBALLZ_WRAPPER = True\nif x:\n  pass\n", b"\xff\xfe"])
def test_what_ansible_did_not_write_is_refused(text: bytes) -> None:
    """Anything but a payload is left to the interpreter."""
    with pytest.raises(NoPayload):
        Payloads().code(text, filename="/p.py")
