"""The code of an AnsiballZ payload, compiled without compiling again what all payloads have in common.

A payload is Ansible's wrapper, with a zip of the module as one long literal and the arguments as another. What the
interpreter would make of the file is made here of its parts: the wrapper's functions, compiled once, with the literals
put back in as constants, and the call at the end, which is short. `module_server` does this before it forks.
"""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from types import CodeType

_KEPT = 64
"""Wrappers; there is one per release of ansible-core with 2.19, and one per module before."""
_CALL = re.compile(rb"^if __name__ == ['\"]__main__['\"]:$", re.MULTILINE)
_LITERALS = re.compile(
    rb"(?<==)(?P<space> ?)(?:(?P<zip>'[A-Za-z0-9+/=]{256,}')|(?P<params>(?<=ANSIBALLZ_PARAMS = )'(?:[^'\\\n]|\\.)*'))"
)
_DATE = re.compile(rb"(?<=zinfo\.date_time = )\(\d+(?:, \d+){5}\)")
_DATE_STAND_IN = (1980, 1, 2, 3, 4, 5)
_STAND_IN = "literal {} of a payload"


class NoPayload(Exception):
    """The text is not what Ansible generates."""


class Payloads:
    """Code of payloads."""

    def __init__(self) -> None:
        self._wrappers: OrderedDict[bytes, CodeType] = OrderedDict()

    def code(self, source: bytes, *, filename: str) -> tuple[CodeType, ...]:
        """Return what to execute one after another, in one namespace, to do what *source* in *filename* does.

        Raises:
            NoPayload: *source* is not known to be the sum of its parts.
        """
        found = list(_CALL.finditer(source))
        if len(found) != 1 or b"_ANSIBALLZ_WRAPPER = True" not in source[: found[0].start()]:
            raise NoPayload
        start = found[0].start()
        wrapper = self._part(source[:start], filename=filename, keep=True)
        call = self._part(source[start:], filename=filename, after=source.count(b"\n", 0, start))
        return wrapper, call

    def _part(self, text: bytes, *, filename: str, keep: bool = False, after: int = 0) -> CodeType:
        """Compile *text* (the call with its first line moved down by *after*), its long literals put in afterwards."""
        literals: dict[object, object] = {}

        def put_aside(match: re.Match[bytes]) -> bytes:
            stand_in = _STAND_IN.format(len(literals))
            literals[stand_in] = ast.literal_eval((match["zip"] or match["params"]).decode())
            return match["space"] + repr(stand_in).encode()

        def put_date_aside(match: re.Match[bytes]) -> bytes:
            literals[_DATE_STAND_IN] = ast.literal_eval(match[0].decode())
            return repr(_DATE_STAND_IN).encode()

        short = _DATE.sub(put_date_aside, _LITERALS.sub(put_aside, text))
        code = self._wrappers.get(short) if keep else None
        if code is None:
            try:
                code = compile(b"\n" * after + short, "payload", "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                raise NoPayload from error
            if keep:
                self._keep(short, code)
        return _complete(code, literals=literals, filename=filename)

    def _keep(self, text: bytes, code: CodeType) -> None:
        self._wrappers[text] = code
        while len(self._wrappers) > _KEPT:
            self._wrappers.popitem(last=False)


def _complete(code: CodeType, *, literals: dict[object, object], filename: str) -> CodeType:
    constants = tuple(
        _complete(value, literals=literals, filename=filename)
        if isinstance(value, CodeType)
        else literals.get(value, value)
        if isinstance(value, str | tuple)
        else value
        for value in code.co_consts
    )
    return code.replace(co_consts=constants, co_filename=filename)
