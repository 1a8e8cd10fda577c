"""Reads an HTTP/1.1 answer from a raw stream: its head as it came, and its body where there is one.

`tunnel` needs the head before anybody knows whether HTTP goes on, and the bytes behind it as they are, which no HTTP
client gives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import hdrs
from multidict import CIMultiDict

from runner.proxy.streams import CHUNK, UpstreamStream

HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_LONGEST_HEAD = 256 * 1024
_BODILESS = frozenset({204, 304})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The head of an answer, and the connection behind it."""

    stream: UpstreamStream
    head: bytes
    """As it came, with the empty line at its end."""
    early: bytes
    """What came behind it in the same read."""
    status: int
    reason: str
    headers: CIMultiDict[str]


async def read_answer(stream: UpstreamStream) -> Answer:
    """Read a head, past those that are only interim.

    Raises:
        OSError: the connection broke, or what came is no HTTP/1.1.
    """
    source = _Source(stream)
    while True:
        head = await source.through(HEAD_END)
        status, reason, headers = _parse(head)
        if status == 101 or status >= 200:
            return Answer(stream=stream, head=head, early=source.data, status=status, reason=reason, headers=headers)


async def pass_body(answer: Answer, *, method: str, sink: Callable[[bytes], Awaitable[None]]) -> None:
    """Give *sink* the body of the answer to a request by *method*, as it comes and without its framing.

    Raises:
        OSError: the connection broke before the body's end.
    """
    source = _Source(answer.stream, answer.early)
    if method == hdrs.METH_HEAD or answer.status in _BODILESS:
        return
    if answer.headers.get(hdrs.TRANSFER_ENCODING, "").lower() == "chunked":
        while size := _number((await source.through(_LINE_END)).partition(b";")[0], base=16):
            await source.give(sink, length=size)
            await source.through(_LINE_END)
    elif length := answer.headers.get(hdrs.CONTENT_LENGTH):
        await source.give(sink, length=_number(length, base=10))
    else:
        while data := source.data or await answer.stream.read(CHUNK):
            source.data = b""
            await sink(data)


class _Source:
    """A stream with what was read too much of it."""

    def __init__(self, stream: UpstreamStream, data: bytes = b"") -> None:
        self._stream = stream
        self.data = data

    async def through(self, mark: bytes) -> bytes:
        """Return everything through the next *mark*."""
        while (at := self.data.find(mark)) < 0:
            if len(self.data) > _LONGEST_HEAD:
                raise ConnectionResetError("the API server's answer has no end of its head")
            await self._more()
        end = at + len(mark)
        found, self.data = self.data[:end], self.data[end:]
        return found

    async def give(self, sink: Callable[[bytes], Awaitable[None]], *, length: int) -> None:
        """Give *sink* the next *length* bytes in pieces."""
        while length:
            if not self.data:
                await self._more()
            part, self.data = self.data[:length], self.data[length:]
            length -= len(part)
            await sink(part)

    async def _more(self) -> None:
        data = await self._stream.read(CHUNK)
        if not data:
            raise ConnectionResetError("the API server closed the connection in the middle of its answer")
        self.data += data


def _parse(head: bytes) -> tuple[int, str, CIMultiDict[str]]:
    first, *lines = head.decode("utf-8", "replace").rstrip("\r\n").split("\r\n")
    protocol, _, rest = first.partition(" ")
    status, _, reason = rest.partition(" ")
    if not protocol.startswith("HTTP/1.") or not status.isdecimal():
        raise ConnectionResetError("the API server's answer is no HTTP/1.1")
    pairs = [line.partition(":") for line in lines]
    return int(status), reason, CIMultiDict((name, value.strip()) for name, _, value in pairs)


def _number(text: bytes | str, *, base: int) -> int:
    try:
        return int(text, base)
    except ValueError as error:
        raise ConnectionResetError("the API server's answer has no length that can be read") from error
