"""The servers beside the controllers: they run on every instance, leading or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from runner.assembly.parts import Controller, Shared
from runner.observe.health import Check, HealthServer, parse_bind_address
from runner.sources.informer import State
from runner.sources.primary import PrimarySource


class Service(Protocol):
    """Something that runs beside the controllers from the first moment to the last."""

    async def start(self) -> None:
        """Begin; raise `ConfigError` where it can't."""
        ...

    async def stop(self) -> None:
        """End; also called where `start` failed."""
        ...


def build_services(controllers: Sequence[Controller], *, shared: Shared) -> tuple[Service, ...]:
    """Return the servers for *controllers*, in the order of their start."""
    return (_health(controllers, shared=shared),)


def _health(controllers: Sequence[Controller], *, shared: Shared) -> HealthServer:
    address = parse_bind_address(shared.settings.serving.health_probe_bind_address, flag="--health-probe-bind-address")
    return HealthServer(address=address, checks=_checks(controllers), logger=shared.logger.named("health"))


def _checks(controllers: Sequence[Controller]) -> Mapping[str, Check]:
    return {f"watch {c.watch.gvk}": partial(_unready_reason, c.source) for c in controllers}


def _unready_reason(source: PrimarySource) -> str | None:
    """Return what keeps *source* from serving its kind; a kind that does not exist (yet) keeps nobody from anything."""
    troubled = {name: state for name, state in source.states().items() if state not in {State.SYNCED, State.MISSING}}
    return ", ".join(f"{state.value} (namespace {name or '*'})" for name, state in troubled.items()) or None
