"""The WSGI application in front of moto: counts, throttles, spoils and answers calls; `/sim/` is the control API's."""

from __future__ import annotations

import io
import re
import socket
import traceback
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Protocol

from runner.localdev.ec2.answers import Answer, Refusal, error_answer
from runner.localdev.ec2.aws_request import Call, parse_call
from runner.localdev.ec2.client_tokens import ParameterMismatch, fingerprint
from runner.localdev.ec2.control_api import ControlApi
from runner.localdev.ec2.faults import Hit
from runner.localdev.ec2.refusals import malformed_id
from runner.localdev.ec2.simulation import Simulation
from runner.logs import Logger

CONTROL_PREFIX = "/sim/"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_CODE = re.compile(rb"<Code>([^<]+)</Code>")
_JSON_CODE = re.compile(rb'"__type":\s*"(?:[^"#]*#)?([^"]+)"')

StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


class TokenKey(Protocol):
    """Tells where a client token holds (`moto_patches.launches.token_key`)."""

    def __call__(self, call: Call) -> tuple[str, str, str]:
        """Return region, zone and token of *call*."""
        ...


class ConnectionDropped(ConnectionError):
    """The connection was closed on purpose; werkzeug takes a `ConnectionError` for a client that went away."""


class Middleware:
    """One emulator's WSGI application."""

    def __init__(self, simulation: Simulation, *, aws: Wsgi, control: ControlApi, token_key: TokenKey) -> None:
        """Answer AWS calls by *aws* (moto) and `/sim/` by *control*."""
        self._simulation = simulation
        self._aws = aws
        self._control = control
        self._token_key = token_key
        self._log = Logger("ec2")

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        body = _read_body(environ)
        path = str(environ.get("PATH_INFO", ""))
        if path.startswith(CONTROL_PREFIX):
            answer = self._control.answer(
                str(environ["REQUEST_METHOD"]), path, query=str(environ.get("QUERY_STRING", "")), body=body
            )
        else:
            answer = self._answer_call(environ, body)
        start_response(f"{answer.status} {_PHRASES.get(answer.status, 'Unknown')}", list(answer.headers))
        return [answer.body]

    def _answer_call(self, environ: dict[str, Any], body: bytes) -> Answer:
        call = parse_call(environ, body)
        sequence = self._simulation.calls.begin(call)
        hit: Hit | None = None
        executed = False
        refusal = self._throttled(call)
        if refusal is None:
            hit = self._simulation.faults.take(call)
            refusal = self._spoiled_before(call, hit)
        if refusal is None:
            refusal = malformed_id(call)
        if refusal is None:
            answer = self._execute(environ, body, call=call)
            executed = answer.status < 400
            if hit is not None and hit.fault.drop:
                self._simulation.calls.end(sequence, status=0, code="", executed=executed)
                _close(environ)
            if hit is not None and hit.fault.after:
                answer = error_answer(hit.fault.refusal, service=call.service)
        else:
            answer = error_answer(refusal, service=call.service)
        self._simulation.calls.end(sequence, status=answer.status, code=_code(answer), executed=executed)
        return answer

    def _throttled(self, call: Call) -> Refusal | None:
        if call.service != "ec2" or self._simulation.bucket.take():
            return None
        return Refusal(code="RequestLimitExceeded", message="Request limit exceeded.")

    def _spoiled_before(self, call: Call, hit: Hit | None) -> Refusal | None:
        if hit is None:
            return None
        hit.hold_up()
        if not hit.fault.code or hit.fault.after:
            return None
        return self._bound(call, hit.fault.refusal)

    def _bound(self, call: Call, refusal: Refusal) -> Refusal:
        """Tie the client token to the parameters where the launch got as far as the search for capacity."""
        if call.action != "RunInstances" or "Capacity" not in refusal.code or not call.params.get("ClientToken"):
            return refusal
        try:
            with self._simulation.carrying_out(call):
                self._simulation.tokens.bind(self._token_key(call), fingerprint(call))
        except ParameterMismatch:
            return Refusal(
                code="IdempotentParameterMismatch",
                message="Arguments on this idempotent request are inconsistent with arguments used in previous "
                "request(s).",
            )
        return refusal

    def _execute(self, environ: dict[str, Any], body: bytes, *, call: Call) -> Answer:
        environ["wsgi.input"] = io.BytesIO(body)
        begun: list[Any] = []

        def keep(status: str, headers: list[tuple[str, str]], *_exc_info: Any) -> None:
            begun[:] = [int(status.split(" ", 1)[0]), tuple(headers)]

        with self._simulation.carrying_out(call):
            try:
                data = _joined(self._aws(environ, keep))
            except Exception as error:  # noqa: BLE001 - moto's bugs are of any kind; the caller needs an AWS answer
                self._log.error("moto failed", action=call.action, error="".join(traceback.format_exception(error)))
                return error_answer(Refusal(code="InternalError", message=f"moto: {error!r}"), service=call.service)
        return Answer(status=begun[0], headers=begun[1], body=data)


def _joined(chunks: Iterable[bytes]) -> bytes:
    try:
        return b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()


def _read_body(environ: Mapping[str, Any]) -> bytes:
    stream = environ["wsgi.input"]
    length = environ.get("CONTENT_LENGTH")
    if length:
        return bytes(stream.read(int(length)))
    # A chunked body has no length; without either there is no body, and reading would wait for ever.
    return bytes(stream.read()) if environ.get("wsgi.input_terminated") else b""


def _close(environ: Mapping[str, Any]) -> None:
    connection: socket.socket = environ["werkzeug.socket"]
    connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionDropped("closed by a fault")


def _code(answer: Answer) -> str:
    if answer.status < 400:
        return ""
    match = _CODE.search(answer.body) or _JSON_CODE.search(answer.body)
    return match[1].decode("utf-8", "replace") if match else ""
