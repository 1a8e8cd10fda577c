"""What this package needs of kopf that kopf doesn't offer: the only module that touches its private parts.

kopf is made to be embedded, but a registry can't be read from outside, nor can one learn which kinds are served and
when the indexes are complete. Tests hold each piece; pyproject.toml bounds kopf's version.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import kopf
from kopf._cogs.clients import auth, scanning
from kopf._cogs.structs.credentials import Vault
from kopf._cogs.structs.ids import HandlerId
from kopf._cogs.structs.references import Insights, Selector
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
    "Insights",
    "Registered",
    "Vault",
    "add",
    "add_wrapped",
    "as_path",
    "is_async_fn",
    "registered",
    "rescan",
    "streams",
    "tell_when_indexed",
    "unresolved",
    "unserved",
]

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
    registry: kopf.OperatorRegistry,
    *,
    to: kopf.OperatorRegistry,
    wrapped: Callable[[Registered], Callable[..., Any]],
    guarded: Callable[[Registered, Callable[..., Any]], Callable[..., Any]],
) -> None:
    """Add the handlers of *registry* to those of another one, with what *wrapped* makes of their functions.

    A handler that is there twice, for two kinds or filters, gets one and the same, as kopf calls it once for an event.
    The name of an admission handler becomes a path that the API server takes in a configuration: `check-size`.

    Filters of handlers that kopf calls for changes become what *guarded* makes of them: where one raises, kopf neither
    indexes the object nor notes that it is done with it, and waits for that before it calls any handler. An admission
    handler's filter may raise, as the answer then is an error, and the failure policy decides.
    """
    functions: dict[tuple[int, str, str], Callable[..., Any]] = {}
    for source, target in zip(_parts(registry), _parts(to), strict=True):
        for handler in source.get_all_handlers():
            told = Registered(id=str(handler.id), decorator=_decorator(handler), function=handler.fn)
            key = (id(handler.fn), told.id, told.decorator)
            if key not in functions:
                functions[key] = wrapped(told)
            changes: dict[str, Any] = {}
            if isinstance(handler, WebhookHandler):
                changes = {"id": HandlerId(as_path(told.id))}
            elif isinstance(handler, ResourceHandler):
                changes = _guarded_filters(handler, told=told, guarded=guarded)
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
    return sorted(_name_of(selector) for selector in _unresolved(insights, registry=registry))


def unserved(insights: Insights, *, registry: kopf.OperatorRegistry) -> dict[str, tuple[str, ...]]:
    """Return the indexes that can't be complete, each with its kinds that aren't served: kopf takes them for empty."""
    found: dict[str, tuple[str, ...]] = {}
    served = insights.indexed_resources & insights.watched_resources  # an ambiguous name is in the first one only
    for handler in registry._indexing.get_all_handlers():  # noqa: SLF001 - see the module's docstring
        if handler.selector is not None and not handler.selector.select(served):
            found[str(handler.id)] = (*found.get(str(handler.id), ()), _name_of(handler.selector))
    return found


async def rescan(
    insights: Insights, *, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings, vault: Vault
) -> None:
    """Ask the API server for its kinds, and serve those that handlers are for and that weren't there before.

    As kopf does when it sees a change of a CustomResourceDefinition; it would need the right to watch these. Only the
    groups of what is missing are asked for, where handlers name them.
    """
    auth.vault_var.set(vault)
    groups = {selector.group for selector in _unresolved(insights, registry=registry)}
    asked = None if None in groups else {group for group in groups if group is not None}
    resources = await scanning.scan_resources(groups=asked, settings=settings, logger=_RESCAN_LOG)
    async with insights.revised:
        for group in [None] if asked is None else sorted(asked):
            some = [resource for resource in resources if group in {None, resource.group}]
            observation.revise_resources(resources=some, insights=insights, registry=registry, group=group)
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


def _unresolved(insights: Insights, *, registry: kopf.OperatorRegistry) -> set[Selector]:
    if not insights.ready_resources.is_set():
        return set()
    served = insights.watched_resources | insights.webhook_resources
    selectors = {
        handler.selector
        for handler in _all(registry)
        if isinstance(handler, ResourceHandler) and handler.selector is not None
    }
    return {selector for selector in selectors if not selector.select(served)}


def _name_of(selector: Selector) -> str:
    """Return the kinds of *selector* as a handler names them: `pods`, `things.v1.example.com`."""
    names = (selector.any_name, selector.plural, selector.kind, selector.singular, selector.shortcut, selector.category)
    name = next((each for each in names if each is not None), None)
    if selector.fn is not None or not isinstance(name, str):
        return str(selector)
    return ".".join(filter(None, (name, selector.version, selector.group)))


def _guarded_filters(
    handler: ResourceHandler,
    *,
    told: Registered,
    guarded: Callable[[Registered, Callable[..., Any]], Callable[..., Any]],
) -> dict[str, Any]:
    """Return the filters of *handler*, those that are functions guarded."""

    def one(value: Any) -> Any:
        return guarded(told, value) if callable(value) else value

    def each(pattern: Mapping[str, Any] | None) -> Any:
        return pattern and {key: one(value) for key, value in pattern.items()}

    return {
        "when": one(handler.when),
        "value": one(handler.value),
        "labels": each(handler.labels),
        "annotations": each(handler.annotations),
    }


def as_path(name: str) -> str:
    """Return the path at which the admission handler *name* answers, without its slash."""
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
