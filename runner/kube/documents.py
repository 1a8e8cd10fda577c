"""What a response, or the lack of one, says: JSON read whole, and the reason of a failure in words for everybody."""

from __future__ import annotations

import json
import re
from typing import Any

import aiohttp
from yarl import URL

from runner.errors import Call, ConnectionFailed, ServerError

_USER = re.compile(r"://[^\s/]*@")


async def read_json(response: aiohttp.ClientResponse, *, call: Call) -> Any:
    """Return the document in the body of *response*.

    Raises:
        ConnectionFailed: the body did not come whole.
        ServerError: it is no JSON.
    """
    try:
        raw = await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ConnectionFailed(reason_of(error), call=call) from error
    try:
        return json.loads(raw)
    except ValueError as error:
        raise ServerError(f"the answer is no JSON: {error}", call=call, status=response.status) from error


def reason_of(error: BaseException) -> str:
    """Return the error's text in one line, or its class where the text is empty (TimeoutError).

    Of a URL no user and password are told: that of an HTTP proxy may have them, and the HTTP library repeats it.
    """
    match error:
        case aiohttp.ClientHttpProxyError():
            return f"the proxy {_origin(error.request_info.real_url)} answered {error.status} {error.message}".rstrip()
        case aiohttp.ClientResponseError():
            return f"{_origin(error.request_info.real_url)} answered {error.status} {error.message}".rstrip()
        case aiohttp.InvalidURL():
            return "the URL of the API server, or of the proxy on the way to it, is none"
    return _USER.sub("://", " ".join(str(error).split())) or type(error).__name__


def _origin(url: URL) -> str:
    return str(url.origin()) if url.absolute else "there"
