"""Around each call of a handler: failures are counted, and results reach no object. Filters that raise end nothing.

kopf writes what an event handler, a timer or a daemon returns into `status.<name of the function>` of the object.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import kopf

from runner.handlers.kopf_internals import Registered, is_async_fn
from runner.handlers.loading import place_of

_RESULTS_DROPPED = frozenset({"on.event", "timer", "daemon"})
_log = logging.getLogger("kopf.results")
_filters_log = logging.getLogger("kopf.filters")


class Calls:
    """Wraps the functions of handlers."""

    def __init__(self, *, failed: Callable[[str], None]) -> None:
        """Tell *failed* the handler of each call that raised something; a refusal by admission is no failure."""
        self._failed = failed
        self._warned: set[str] = set()

    def wrapped(self, handler: Registered) -> Callable[..., Any]:
        """Return the function of *handler* as kopf shall call it."""
        function = handler.function
        if is_async_fn(function):

            @functools.wraps(function)
            async def awaited(**kwargs: Any) -> Any:
                try:
                    return self._kept(await function(**kwargs), handler=handler)
                except Exception as error:
                    self._note(error, handler=handler)
                    raise

            return awaited

        @functools.wraps(function)
        def called(**kwargs: Any) -> Any:
            try:
                return self._kept(function(**kwargs), handler=handler)
            except Exception as error:
                self._note(error, handler=handler)
                raise

        return called

    def guarded(self, handler: Registered, check: Callable[..., Any]) -> Callable[..., Any]:
        """Return *check*, a filter of *handler*, as kopf shall call it: one that raises lets the object not through."""

        @functools.wraps(check)
        def asked(*args: Any, **kwargs: Any) -> Any:
            try:
                return check(*args, **kwargs)
            except Exception as error:  # a filter is a user's, and may raise whatever it likes
                self._failed(handler.id)
                logger = kwargs.get("logger") or _filters_log
                logger.error(
                    "A filter of the handler %s failed, which is not called for the object: %s",
                    handler.id,
                    place_of(check),
                    exc_info=error,
                )
                return False

        return asked

    def _kept(self, result: Any, *, handler: Registered) -> Any:
        if handler.decorator not in _RESULTS_DROPPED or result is None:
            return result
        if handler.id not in self._warned:
            self._warned.add(handler.id)
            _log.warning(
                "What the handler %s returns is not written to the object; set fields of patch.status", handler.id
            )
        return None

    def _note(self, error: Exception, *, handler: Registered) -> None:
        if not isinstance(error, kopf.AdmissionError):
            self._failed(handler.id)
