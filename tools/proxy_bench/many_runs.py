"""A proxy with many live runs, as a process of its own: `python -m tools.proxy_bench.many_runs KUBECONFIG COUNT`.

Prints one line of JSON (the port, and a value of the header Authorization per run) and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
from pathlib import Path

from runner.assembly.run_access import RunAccess
from runner.execution.executor import Executor
from runner.kube.objects import GVK
from runner.proxy.exchange import Owner
from runner.proxy.kubeconfig import username_of
from runner.testing.cluster import wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator, settings_for

_KIND = GVK("bench.example.com", "v1", "Run")


async def serve(kubeconfig: Path, *, count: int) -> None:
    """Serve *count* runs until the input ends."""
    held: list[RunAccess] = []

    def executor(access: RunAccess) -> Executor:
        held.append(access)
        return ScriptedExecutor()

    async with running_operator([], settings=settings_for(kubeconfig), executor=executor):

        async def listening() -> int | None:
            return held[0].port

        port = await wait_until(listening, what="the proxy")
        with contextlib.ExitStack() as stack:
            headers = [_open(held[0], number=number, stack=stack) for number in range(count)]
            print(json.dumps({"port": port, "authorization": headers}), flush=True)
            await asyncio.to_thread(sys.stdin.read)


def _open(access: RunAccess, *, number: int, stack: contextlib.ExitStack) -> str:
    owner = Owner(gvk=_KIND, namespace="bench", name=f"run-{number}", uid=str(number))
    secret = stack.enter_context(access.runs.open(owner=owner, run=str(number)))
    return f"Basic {base64.b64encode(f'{username_of(owner)}:{secret}'.encode()).decode()}"


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), count=int(sys.argv[2])))
