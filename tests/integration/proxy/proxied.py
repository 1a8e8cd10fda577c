"""The proxy of an operator without watches, inside a test's loop, and runs of it without a play."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.assembly.run_access import RunAccess
from runner.execution.executor import Executor
from runner.kube.client import KubeClient
from runner.kube.objects import uid_of
from runner.proxy.exchange import Owner
from runner.proxy.kubeconfig import username_of
from runner.testing.cluster import CONFIG_MAPS
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator, settings_for
from runner.testing.waiting import eventually
from tools.proxy_bench.case import config_map
from tools.proxy_bench.target import Answer, Sent, Target, opened, through


@dataclass(frozen=True, kw_only=True)
class Proxied:
    """The proxy of an operator without watches, and the runs that it knows."""

    access: RunAccess
    owner: Owner

    @property
    def url(self) -> str:
        """Return where the proxy listens."""
        return f"http://127.0.0.1:{self.access.port}"

    @contextlib.contextmanager
    def run(self, name: str) -> Iterator[Target]:
        """Give the way of a live run of the owner."""
        with self.access.runs.open(owner=self.owner, run=name) as secret:
            yield through(self.url.replace("//", f"//{username_of(self.owner)}:{secret}@"))

    async def ask(self, name: str, *requests: Sent) -> list[Answer]:
        """Send requests as the run *name*, which ends with the last one."""
        with self.run(name) as target:
            async with opened(target) as way:
                return [await way.send(request) for request in requests]


@contextlib.asynccontextmanager
async def proxied(kubeconfig: Path, *, kube: KubeClient, namespace: str) -> AsyncIterator[Proxied]:
    """Run an operator against the API server of *kubeconfig*; the owner of its runs is a ConfigMap."""
    held: list[RunAccess] = []

    def executor(access: RunAccess) -> Executor:
        held.append(access)
        return ScriptedExecutor()

    made = await kube.create(CONFIG_MAPS, namespace=namespace, body=config_map("owner"))
    owner = Owner(gvk=CONFIG_MAPS.gvk, namespace=namespace, name="owner", uid=uid_of(made))
    async with running_operator([], settings=settings_for(kubeconfig), executor=executor):
        (access,) = held
        await eventually(lambda: access.port is not None)
        yield Proxied(access=access, owner=owner)
