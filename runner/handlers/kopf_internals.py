"""What this package needs of kopf that kopf doesn't offer: the only module that touches its private parts.

kopf is made to be embedded, but a registry can't be read from outside, nor can one learn which kinds are served and
when the indexes are complete. Tests hold each piece; pyproject.toml bounds kopf's version.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import Any

import kopf
from kopf._cogs.clients import auth, errors, scanning
from kopf._cogs.structs.credentials import Vault
from kopf._cogs.structs.ids import HandlerId
from kopf._cogs.structs.references import Insights
from kopf._core.actions.execution import Handler
from kopf._core.actions.invocation import is_async_fn
from kopf._core.intents import causes, registries
from kopf._core.intents.handlers import (
    ActivityHandler,
    ChangingHandler,
    DaemonHandler,
    IndexingHandler,
    ResourceHandler,
    TimerHandler,
    WatchingHandler,
    WebhookHandler,
)
from kopf._core.reactor import observation

__all__ = [
    "APIError",
    "Insights",
    "Registered",
    "Vault",
    "add",
    "add_wrapped",
    "is_async_fn",
    "registered",
    "rescan",
    "streams",
    "tell_when_indexed",
    "unresolved",
]

APIError = errors.APIError
"""What kopf raises where the API server refuses."""
_ACTIVITIES = {
    causes.Activity.STARTUP: "on.startup",
    causes.Activity.CLEANUP: "on.cleanup",
    causes.Activity.AUTHENTICATION: "on.login",
    causes.Activity.PROBE: "on.probe",
}
_DECORATORS = {IndexingHandler: "index", WatchingHandler: "on.event", TimerHandler: "timer", DaemonHandler: "daemon"}
_RESCAN_LOG = logging.getLogger("kopf.rescan")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Registered:
    """One handler of a registry."""

    id: str
    decorator: str
    """As it is written behind `@kopf.`: `on.event`, `index`."""
    function: Callable[..., Any]

    @property
    def finalizes(self) -> bool:
        """Tell whether kopf sets a finalizer for it."""
        return self.decorator in {"timer", "daemon"}


def registered(registry: kopf.OperatorRegistry) -> list[Registered]:
    """Return the handlers of *registry*."""
    return [
        Registered(id=str(handler.id), decorator=_decorator(handler), function=handler.fn) for handler in _all(registry)
    ]


def add(registry: kopf.OperatorRegistry, *, to: kopf.OperatorRegistry) -> None:
    """Add the handlers of *registry* to those of another one."""
    for source, target in zip(_parts(registry), _parts(to), strict=True):
        for handler in source.get_all_handlers():
            target.append(handler)


def add_wrapped(
    registry: kopf.OperatorRegistry, *, to: kopf.OperatorRegistry, wrapped: Callable[[Registered], Callable[..., Any]]
) -> None:
    """Add the handlers of *registry* to those of another one, with what *wrapped* makes of their functions.

    A handler that is there twice, for two kinds or filters, gets one and the same, as kopf calls it once for an event.
    The name of an admission handler becomes a path that the API server takes in a configuration: `check-size`.
    """
    functions: dict[tuple[int, str, str], Callable[..., Any]] = {}
    for source, target in zip(_parts(registry), _parts(to), strict=True):
        for handler in source.get_all_handlers():
            told = Registered(id=str(handler.id), decorator=_decorator(handler), function=handler.fn)
            key = (id(handler.fn), told.id, told.decorator)
            if key not in functions:
                functions[key] = wrapped(told)
            changes = {"id": HandlerId(_as_path(told.id))} if isinstance(handler, WebhookHandler) else {}
            target.append(dataclasses.replace(handler, fn=functions[key], **changes))


def tell_when_indexed(
    registry: kopf.OperatorRegistry, *, to: kopf.OperatorRegistry, tell: Callable[[], None], wanted: Callable[[], bool]
) -> None:
    """Add handlers for what *registry* indexes, which *tell* that kopf calls handlers: it does so when all is indexed.

    They come first, as kopf calls the handlers of an object one after the other, and are called as long as *wanted*.
    Where no object of any indexed kind exists they aren't; `streams` tell that no more are to come.
    """

    async def told(**_: object) -> None:
        tell()

    for handler in registry._indexing.get_all_handlers():  # noqa: SLF001 - see the module's docstring
        to._watching.append(  # noqa: SLF001 - see the module's docstring
            WatchingHandler(
                id=HandlerId(f"{handler.id}/indexed"),
                fn=told,
                selector=handler.selector,
                when=lambda **_: wanted(),
                **dict.fromkeys(("param", "errors", "timeout", "retries", "backoff")),
                **dict.fromkeys(("labels", "annotations", "field", "value")),
            )
        )


def streams(insights: Insights) -> frozenset[str] | None:
    """Return the paths by which kopf lists and watches what is indexed; None while it doesn't know yet."""
    if not (insights.ready_resources.is_set() and insights.ready_namespaces.is_set()):
        return None
    return frozenset(
        resource.get_url(namespace=namespace if resource.namespaced else None)
        for resource in insights.indexed_resources
        for namespace in insights.namespaces
    )


def unresolved(insights: Insights, *, registry: kopf.OperatorRegistry) -> list[str]:
    """Return the kinds that handlers are for and that the API server doesn't serve; none while it wasn't asked yet."""
    if not insights.ready_resources.is_set():
        return []
    served = insights.watched_resources | insights.webhook_resources
    selectors = {
        handler.selector
        for handler in _all(registry)
        if isinstance(handler, ResourceHandler) and handler.selector is not None
    }
    return sorted(str(selector) for selector in selectors if not selector.select(served))


async def rescan(
    insights: Insights, *, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings, vault: Vault
) -> None:
    """Ask the API server for its kinds, and serve those that handlers are for and that weren't there before.

    As kopf does when it sees a change of a CustomResourceDefinition; it would need the right to watch these.
    """
    auth.vault_var.set(vault)
    resources = await scanning.scan_resources(settings=settings, logger=_RESCAN_LOG)
    async with insights.revised:
        observation.revise_resources(resources=resources, insights=insights, registry=registry, group=None)
        await insights.backbone.fill(resources=resources)
        insights.revised.notify_all()


def _parts(registry: kopf.OperatorRegistry) -> tuple[registries.GenericRegistry[Any], ...]:
    return (
        registry._activities,  # noqa: SLF001 - see the module's docstring
        registry._indexing,  # noqa: SLF001 - see the module's docstring
        registry._watching,  # noqa: SLF001 - see the module's docstring
        registry._spawning,  # noqa: SLF001 - see the module's docstring
        registry._changing,  # noqa: SLF001 - see the module's docstring
        registry._webhooks,  # noqa: SLF001 - see the module's docstring
    )


def _all(registry: kopf.OperatorRegistry) -> Iterator[Handler]:
    for part in _parts(registry):
        yield from part.get_all_handlers()


def _as_path(name: str) -> str:
    return name.lower().replace("_", "-")


def _decorator(handler: Handler) -> str:
    match handler:
        case WebhookHandler():
            return "on.mutate" if handler.reason is causes.WebhookType.MUTATING else "on.validate"
        case ActivityHandler():
            return _ACTIVITIES.get(handler.activity or causes.Activity.STARTUP, "on.startup")
        case ChangingHandler():
            return _changing(handler)
    return _DECORATORS.get(type(handler), type(handler).__name__)


def _changing(handler: ChangingHandler) -> str:
    if handler.reason is not None:
        return f"on.{handler.reason.value}"
    return "on.resume" if handler.initial else "on.field"
