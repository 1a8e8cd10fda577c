"""An informer's sign of life: late only where it neither gets data nor tries again."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from runner.errors import Call
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery, Requests
from runner.kube.objects import Object
from runner.localdev.ports import free_ports
from runner.logs import Logger, RecordingSink
from runner.settings import InformerSettings, KubeSettings
from runner.sources.informer import Informer, State, Target, WatchContext
from runner.testing.clock import FakeClock
from runner.testing.cluster import SECRETS
from runner.testing.kubeconfig import write_kubeconfig
from runner.testing.waiting import ended, eventually


def _paused(informer: Informer, *, clock: FakeClock, errors: int) -> bool:
    return informer.counters.errors >= errors and clock.sleeping > 0


class Silence:
    """An API server that never answers, not even with an error."""

    async def request(self, method: str, path: str, *, call: Call) -> Object:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError((method, path, call))


def _informer(client: KubeClient, *, clock: FakeClock, requests: Requests, settings: InformerSettings) -> Informer:
    context = WatchContext(
        client=client,
        discovery=Discovery(client=requests),
        settings=settings,
        clock=clock,
        logger=Logger(sink=RecordingSink()),
    )
    return Informer(target=Target(gvk=SECRETS.gvk), context=context, on_change=lambda _: None)


async def test_an_informer_that_waits_for_nothing_is_late(tmp_path: Path) -> None:
    """One that hangs without a time-out of its own is late after its stall limit, and not once it was stopped."""
    clock = FakeClock()
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server="http://127.0.0.1:1")
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        informer = _informer(client, clock=clock, requests=Silence(), settings=InformerSettings(stall_timeout=90.0))
        assert informer.overdue < 0
        task = asyncio.create_task(informer.run())
        await clock.advance(90)
        assert informer.overdue <= 0
        await clock.advance(30)
        assert informer.overdue == 30
        await ended(task)
        assert informer.overdue < 0


async def test_an_informer_that_tries_again_is_never_late(tmp_path: Path) -> None:
    """However long nobody answers, the tries go on, and no wait between two of them counts as late."""
    clock = FakeClock()
    server = f"http://127.0.0.1:{free_ports(1)[0]}"
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server=server)
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        settings = InformerSettings(stall_timeout=5.0, backoff_base=60.0, backoff_cap=60.0)
        informer = _informer(client, clock=clock, requests=client, settings=settings)
        task = asyncio.create_task(informer.run())
        for number in range(1, 6):
            await eventually(partial(_paused, informer, clock=clock, errors=number))
            await clock.advance(10)  # more than the stall limit, less than the shortest wait
            assert informer.overdue <= 0
            await clock.advance(60)
        assert informer.state is State.ERROR
        await ended(task)
