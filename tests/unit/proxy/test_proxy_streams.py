"""How the two directions of a tunnel end, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from runner.proxy.streams import splice

_Step = bytes | OSError | asyncio.Event


@dataclass(kw_only=True)
class _End:
    """One end, which has said what it says and takes what it gets."""

    says: Sequence[_Step]
    """In turn: bytes, the end (empty), an error, or an event to wait for before the next step."""
    takes: bool = True
    got: list[bytes] = field(default_factory=list)
    refused: asyncio.Event = field(default_factory=asyncio.Event)
    at: int = 0

    async def read(self, limit: int) -> bytes:
        """Return or raise the next step."""
        step = self.says[self.at]
        self.at += 1
        if isinstance(step, asyncio.Event):
            await step.wait()
            return await self.read(limit)
        if isinstance(step, OSError):
            raise step
        return step

    async def write(self, data: bytes) -> None:
        """Take *data*, or break."""
        if not self.takes:
            self.refused.set()
            raise BrokenPipeError
        self.got.append(data)

    async def write_eof(self) -> None:
        """Take the end."""
        self.got.append(b"")


async def _splice(client: _End, server: _End) -> None:
    async with asyncio.timeout(30):
        await splice(client, server)


async def test_a_server_that_takes_no_more_has_its_last_words_delivered() -> None:
    """An API server that refuses and closes resets the connection while its answer is still on the way."""
    server = _End(says=[], takes=False)
    server.says = [server.refused, b"too", b" much", b""]
    client = _End(says=[b"data"])
    await _splice(client, server)
    assert client.got == [b"too", b" much", b""]


async def test_a_client_that_broke_ends_a_silent_server() -> None:
    """Nothing waits for an answer that nobody would get."""
    await _splice(_End(says=[b"data", ConnectionResetError()]), _End(says=[asyncio.Event()]))


async def test_a_client_that_takes_no_more_ends_a_server_that_goes_on() -> None:
    """A program that was killed in the middle of an endless answer ends it."""
    server = _End(says=[b"x"] * 100)
    client = _End(says=[b""], takes=False)
    await _splice(client, server)
    assert server.at == 1


async def test_a_server_that_broke_ends_a_silent_client() -> None:
    """An API server that died isn't waited for."""
    await _splice(_End(says=[asyncio.Event()]), _End(says=[b"data", ConnectionResetError()]))


async def test_each_side_gets_all_and_the_end() -> None:
    """In an orderly tunnel both directions are complete."""
    client, server = _End(says=[b"a", b"b", b""]), _End(says=[b"c", b"d", b""])
    await _splice(client, server)
    assert (server.got, client.got) == ([b"a", b"b", b""], [b"c", b"d", b""])
