"""The servers beside the controllers: they run on every instance, leading or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runner.assembly.janitor import JanitorService
from runner.assembly.observability import metrics_server, user_metrics_server
from runner.assembly.parts import Controller, Shared
from runner.assembly.probes import HealthService
from runner.observe.address import split_address
from runner.observe.vitals import Vitals


class Service(Protocol):
    """Something that runs beside the controllers from the first moment to the last."""

    async def start(self) -> None:
        """Begin; raise `ConfigError` where it can't."""
        ...

    async def stop(self) -> None:
        """End; also called where `start` failed."""
        ...


def build_services(controllers: Sequence[Controller], *, shared: Shared, vitals: Vitals) -> tuple[Service, ...]:
    """Return the servers for *controllers*, in the order of their start."""
    settings, metrics, logger = shared.settings.serving, shared.metrics, shared.logger
    return (
        _health(controllers, shared=shared, vitals=vitals),
        metrics_server(metrics, settings=settings, client=shared.client, clock=shared.clock, logger=logger),
        user_metrics_server(metrics, settings=settings, clock=shared.clock, logger=logger),
        JanitorService(controllers=controllers, shared=shared),
    )


def _health(controllers: Sequence[Controller], *, shared: Shared, vitals: Vitals) -> HealthService:
    address = split_address(shared.settings.serving.health_probe_bind_address)
    return HealthService(address=address, controllers=controllers, shared=shared, vitals=vitals)
