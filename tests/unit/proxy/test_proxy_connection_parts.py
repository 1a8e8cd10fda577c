"""The private parts of aiohttp that `runner.proxy.connection` leans on are what it takes them for."""

from __future__ import annotations

import asyncio
import inspect

import aiohttp
import pytest
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from runner.proxy.connection import Server

CHANGED = f"aiohttp {aiohttp.__version__} has other private parts: see runner/proxy/connection.py, then pyproject.toml"


async def _never(_: web.BaseRequest) -> web.StreamResponse:
    raise AssertionError


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_messages", object),
        ("_request_count", int),
        ("_message_tail", bytes),
        ("_reading_paused", bool),
        ("_buffer_paused", bool),
    ],
)
async def test_a_connection_has_its_state_where_it_is_looked_for(name: str, kind: type) -> None:
    """Messages, counts and flags have the names and types that are relied on."""
    connection = Server(_never)()
    assert isinstance(getattr(connection, name, None), kind), f"{CHANGED}: RequestHandler.{name}"
    assert hasattr(RequestHandler(web.Server(_never), loop=asyncio.get_running_loop()), name), f"{CHANGED}: {name}"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("data_received", ["self", "data"]),
        ("eof_received", ["self"]),
        ("connection_lost", ["self", "exc"]),
        ("finish_response", ["self", "request", "resp", "start_time"]),
        ("shutdown", ["self", "timeout"]),
        ("keep_alive", ["self", "val"]),
        ("_drain_helper", ["self"]),
        ("_pause_transport_reading", ["self"]),
        ("_resume_transport_reading", ["self"]),
    ],
)
def test_a_connection_has_its_methods_where_they_are_looked_for(name: str, parameters: list[str]) -> None:
    """What is called and what is overridden have the parameters that are relied on."""
    method = getattr(RequestHandler, name, None)
    assert method is not None, f"{CHANGED}: RequestHandler.{name}"
    assert list(inspect.signature(method).parameters) == parameters, f"{CHANGED}: RequestHandler.{name}"


def test_the_server_makes_connections_from_what_is_looked_for() -> None:
    """`web.Server` keeps the loop and the options of its connections under the names that are relied on."""
    source = inspect.getsource(web.Server)
    for name in ("self._loop", "self._kwargs"):
        assert name in source, f"{CHANGED}: web.Server.{name}"
