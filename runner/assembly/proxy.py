"""The proxy put together: its layers in the order in which a request passes them, and the service around them.

- `hosts`: only programs of this machine;
- `identify`: a live run, nobody in particular, or 403;
- `fence`: no writes once the leadership is lost;
- `discovery_cache`: each run asks for discovery anew, and the API server is spared that;
- `inject`: what a run makes gets its owner, and is watched;
- `record`: what runs write is told, so that it starts no further run;
- `forward` or `tunnel`: on to the API server, with the operator's rights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from runner.assembly.parts import Shared
from runner.assembly.run_access import RunAccess
from runner.errors import KubeError
from runner.kube.access import AccessSource
from runner.kube.discovery import Resource
from runner.kube.mapping import Mapper
from runner.logs import Logger
from runner.proxy.dependents import Dependents, OwnWrites
from runner.proxy.discovery_cache import DiscoveryCache
from runner.proxy.exchange import Handler, Layer
from runner.proxy.fence import Fence
from runner.proxy.forward import Forward
from runner.proxy.hosts import refuse_foreign_hosts
from runner.proxy.identify import identify
from runner.proxy.inject import OwnerInjection
from runner.proxy.record import LookUp, recording
from runner.proxy.request_info import RequestInfo
from runner.proxy.server import ProxyServer
from runner.proxy.tunnel import Tunnel, Upgradeable


class ProxyService:
    """The proxy as a service: it listens before the first run, and until the last one has ended."""

    def __init__(self, *, server: ProxyServer, forward: Forward, access: RunAccess, logger: Logger) -> None:
        """Serve with *server*, and tell *access* where."""
        self._server = server
        self._forward = forward
        self._access = access
        self._logger = logger

    async def start(self) -> None:
        """Listen; raise `ConfigError` where the port is taken."""
        await self._server.start()
        self._access.port = self._server.port
        self._logger.info(
            "Serving the proxy for Ansible's modules. Without credentials, too, each program of this machine (in a "
            "cluster: of the Pod) reaches the API server through it with the operator's rights; "
            "ansible_operator_proxy_requests_total counts them as caller none",
            port=self._server.port,
        )

    async def stop(self) -> None:
        """Stop listening."""
        self._access.port = None
        await self._server.stop()
        await self._forward.close()


def build_proxy(
    *, shared: Shared, fenced: Callable[[], bool], dependents: Dependents, own_writes: OwnWrites
) -> ProxyService:
    """Return the proxy of one operator.

    Args:
        shared: what all controllers use together.
        fenced: tells whether this instance led, and may not write any more.
        dependents: told of each object that a run makes, before it is made.
        own_writes: told of each write of a run.
    """
    logger = shared.logger.named("proxy")
    access = AccessSource(settings=shared.settings.kube)
    fence = Fence(fenced=fenced)
    forward = Forward(access=access, fence=fence, observe=shared.metrics.api_request)
    mapper = Mapper(client=shared.client, clock=shared.clock)
    layers: list[Layer] = [
        refuse_foreign_hosts,
        identify(runs=shared.access.runs, count=shared.metrics.proxy_request),
        fence,
        DiscoveryCache(clock=shared.clock, lives=shared.access.runs.lives),
    ]
    if shared.settings.proxy.inject_owner_references:  # without it there are no watches on dependents either
        layers += [
            OwnerInjection(mapper=mapper, client=shared.client, dependents=dependents, logger=logger),
            recording(own_writes, dependents=dependents, look_up=_look_up(mapper)),
        ]
    tunnel = Tunnel(access=access, fence=fence, observe=shared.metrics.api_request)
    server = ProxyServer(
        handler=through(layers, Upgradeable(forward=forward, tunnel=tunnel)),
        port=shared.settings.proxy.port,
        logger=logger,
        clock=shared.clock,
    )
    return ProxyService(server=server, forward=forward, access=shared.access, logger=logger)


def through(layers: Sequence[Layer], handler: Handler) -> Handler:
    """Return *handler* behind *layers*, the first one outermost."""
    return reduce(lambda inner, layer: layer(inner), reversed(layers), handler)


def _look_up(mapper: Mapper) -> LookUp:
    async def look_up(info: RequestInfo) -> Resource | None:
        try:
            found = await mapper.find(
                info.group, info.version, plural=info.resource, namespaced=info.namespaced, max_age=1.0
            )
        except KubeError:
            return None
        return found.resource if found else None

    return look_up
