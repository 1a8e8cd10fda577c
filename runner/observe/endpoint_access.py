"""Access to `/metrics` by RBAC: the API server says who a token belongs to, and whether that one may read.

TokenReview, then SubjectAccessReview of the verb on the path, as in controller-runtime. The answers are kept for a
short while, so that a scraper costs the API server two requests a minute, and one bad token at most six. Each new
token costs a TokenReview, as with the peer: who can reach the port can make us ask.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from runner.clock import Clock
from runner.errors import Call, OperatorError
from runner.kube.objects import Object
from runner.logs import Logger

_ALLOWED_FOR = 60.0
_REFUSED_FOR = 10.0
_MOST_KEPT = 1000
_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Requests(Protocol):
    """The one verb of `runner.kube.client.KubeClient` that this needs."""

    async def request(self, method: str, path: str, *, call: Call, body: object = None) -> Object:
        """Send one request."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Verdict:
    status: int
    text: str = ""
    until: float = 0.0


class Access:
    """Lets through who may; a `Guard` of the metrics server."""

    def __init__(self, *, client: Requests, clock: Clock, logger: Logger) -> None:
        """Ask through *client*; its identity needs to create token reviews and subject access reviews."""
        self._client = client
        self._clock = clock
        self._logger = logger
        self._kept: dict[tuple[str, str, str], _Verdict] = {}

    async def refusal(self, request: web.Request) -> web.Response | None:
        """Return 401 for who is unknown, 403 for who may not, 500 where nobody can tell; None for who may."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip() or not _is_utf8(token):
            return _answer(_Verdict(status=401, text="Unauthorized"))
        verdict = await self._verdict(token.strip(), verb=request.method.lower(), path=request.path)
        return None if verdict.status == 200 else _answer(verdict)

    async def _verdict(self, token: str, *, verb: str, path: str) -> _Verdict:
        key = (hashlib.sha256(token.encode()).hexdigest(), verb, path)  # tokens themselves are not kept
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() < kept.until:
            return kept
        status, text = await self._ask(token, verb=verb, path=path)
        if status == 500:
            return _Verdict(status=status, text=text)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        lasts = _ALLOWED_FOR if status == 200 else _REFUSED_FOR
        verdict = self._kept[key] = _Verdict(status=status, text=text, until=self._clock.monotonic() + lasts)
        return verdict

    async def _ask(self, token: str, *, verb: str, path: str) -> tuple[int, str]:
        try:
            found = await self._create(_TOKEN_REVIEWS, kind="TokenReview", spec={"token": token})
        except OperatorError as error:
            self._logger.error("Authentication failed", error=str(error))
            return 500, "Authentication failed"
        user = found.get("user") or {}
        name = user.get("username", "")
        if not found.get("authenticated"):
            return 401, "Unauthorized"
        asked = {key: user[key] for key in ("uid", "groups", "extra") if user.get(key)}
        spec = {"user": name, **asked, "nonResourceAttributes": {"path": path, "verb": verb}}
        try:
            decision = await self._create(_ACCESS_REVIEWS, kind="SubjectAccessReview", spec=spec)
        except OperatorError as error:
            self._logger.error("Authorization failed", user=name, error=str(error))
            return 500, f"Authorization for user {name} failed"
        if not decision.get("allowed") or decision.get("denied"):
            return 403, f"Authorization denied for user {name}"
        return 200, ""

    async def _create(self, path: str, *, kind: str, spec: dict[str, Any]) -> Object:
        """Create a review and return its status; reviews are answers, nothing of them is stored."""
        group_version = path.removeprefix("/apis/").rpartition("/")[0]
        call = Call(verb="create", resource=f"{path.rpartition('/')[2]}.{group_version.partition('/')[0]}")
        body = {"apiVersion": group_version, "kind": kind, "spec": spec}
        status = (await self._client.request("POST", path, call=call, body=body)).get("status")
        return status if isinstance(status, dict) else {}


def _is_utf8(token: str) -> bool:
    """Tell whether *token* came as UTF-8; other bytes became surrogates, and are in no token that anybody issued."""
    try:
        token.encode()
    except UnicodeEncodeError:
        return False
    return True


def _answer(verdict: _Verdict) -> web.Response:
    return web.Response(status=verdict.status, text=f"{verdict.text}\n")
