"""What a kubelet would ask of an operator under test."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass

import aiohttp

from runner.testing.cluster import wait_until


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A kubelet."""

    port: int

    async def get(self, path: str) -> tuple[int, str]:
        """Ask; status 0 while nobody listens."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self.port}{path}") as answer,
            ):
                return answer.status, await answer.text()
        except aiohttp.ClientError:
            return 0, ""

    def ask_blocking(self, path: str) -> tuple[int, str]:
        """Ask without letting the event loop turn."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    async def until(self, path: str, *, status: int, text: str = "") -> str:
        """Return the answer as soon as it has *status* and *text*."""

        async def answered() -> str:
            found, body = await self.get(path)
            return body if found == status and text in body else ""

        return await wait_until(answered, what=f"{path} to answer {status} with {text!r}")
