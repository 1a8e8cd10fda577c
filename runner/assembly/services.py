"""The servers beside the controllers: they run on every instance, leading or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from runner.assembly.dependents import DependentParts
from runner.assembly.janitor import JanitorService
from runner.assembly.observability import metrics_server, user_metrics_server
from runner.assembly.parts import Controller, Shared
from runner.assembly.probes import HealthService
from runner.assembly.proxy import build_proxy
from runner.execution.gate import Gate
from runner.execution.reaping import Reaper
from runner.observe.address import split_address
from runner.observe.vitals import Vitals
from runner.sources.dependents import DependentSources


@runtime_checkable
class Service(Protocol):
    """Something that runs beside the controllers from the first moment to the last."""

    async def start(self) -> None:
        """Begin; raise `ConfigError` where it can't."""
        ...

    async def stop(self) -> None:
        """End; also called where `start` failed."""
        ...


def build_services(
    controllers: Sequence[Controller],
    *,
    dependents: DependentParts,
    shared: Shared,
    gate: Gate,
    vitals: Vitals,
    fenced: Callable[[], bool],
) -> tuple[Service, ...]:
    """Return the servers for *controllers*, in the order of their start; the proxy writes nothing while *fenced*.

    An executor that has a server of its own is one of them.
    """
    settings, metrics, logger = shared.settings.serving, shared.metrics, shared.logger
    return (
        _health(controllers, dependents=dependents.sources, shared=shared, gate=gate, vitals=vitals),
        *([shared.executor] if isinstance(shared.executor, Service) else []),
        build_proxy(shared=shared, fenced=fenced, dependents=dependents.sources, own_writes=dependents.own_writes),
        metrics_server(metrics, settings=settings, client=shared.client, clock=shared.clock, logger=logger),
        user_metrics_server(metrics, settings=settings, clock=shared.clock, logger=logger),
        JanitorService(controllers=controllers, shared=shared),
        Reaper(clock=shared.clock, logger=logger),
    )


def _health(
    controllers: Sequence[Controller], *, dependents: DependentSources, shared: Shared, gate: Gate, vitals: Vitals
) -> HealthService:
    address = split_address(shared.settings.serving.health_probe_bind_address)
    return HealthService(
        address=address, controllers=controllers, dependents=dependents, shared=shared, gate=gate, vitals=vitals
    )
