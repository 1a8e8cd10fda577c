"""The command: `python -m tools.proxy_bench replay|latency|discovery|soak`; exit code 1 where a replay differs."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.machine import commit, control_plane, head
from tools.proxy_bench import discovery, latency, sampling, soak
from tools.proxy_bench.cases_reads import READS
from tools.proxy_bench.cases_writes import WRITES
from tools.proxy_bench.operators import Place, held_run, place
from tools.proxy_bench.replay import replay, table
from tools.proxy_bench.stage import Stage, build, look, many_config_maps
from tools.proxy_bench.target import Sent, Target, Way, anonymous, direct, opened, through

_OBJECTS = 500
_LISTED = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands and return the exit code."""
    options = _parse(arguments)
    commands = {"replay": _replay, "latency": _latency, "discovery": _discovery, "soak": _soak}
    with control_plane(options.plane) as plane, tempfile.TemporaryDirectory(prefix="proxy-bench-") as folder:
        return asyncio.run(commands[options.command](options, Bench(kubeconfig=plane.kubeconfig, folder=Path(folder))))


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The cluster, and a folder for files of the moment."""

    kubeconfig: Path
    folder: Path


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.proxy_bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--plane", type=Path, help="the folder of a running control plane; otherwise one is started")
    ways = argparse.ArgumentParser(add_help=False)
    ways.add_argument("--proxy", help="the URL of a running proxy, instead of an operator that is started")
    ways.add_argument("--peer", type=Path, help="the peer's ansible-operator; needs the ports 8888 and 5050")
    ways.add_argument(
        "--peer-path", type=Path, action="append", default=[],
        help="a folder to put first in the peer's PATH: an ansible-runner with its event plugin",
    )  # fmt: skip
    one = commands.add_parser("replay", parents=[shared, ways], help="compare the answers to varied requests")
    one.add_argument("--anonymous", action="store_true", help="send no credentials, so that nothing is injected")
    two = commands.add_parser("latency", parents=[shared, ways], help="measure rate and latency, in turns")
    two.add_argument("--requests", type=int, default=2000, help="of each kind on each way (default 2000)")
    two.add_argument("--connections", type=int, nargs="+", default=[1, 16], help="at once (default 1 16)")
    four = commands.add_parser("discovery", parents=[shared], help="measure what discovery costs a run")
    four.add_argument("--runs", type=int, default=500, help="that ask for it (default 500)")
    three = commands.add_parser("soak", parents=[shared], help="load the operator and watch what it holds")
    three.add_argument("--requests", type=int, default=10_000, help="through the proxy (default 10000)")
    three.add_argument("--changes", type=int, default=50, help="of dependents, a second (default 50)")
    three.add_argument("--seconds", type=float, default=120.0, help="over which both are spread (default 120)")
    three.add_argument("--samples", type=Path, help="a file for every sample, as CSV")
    return parser.parse_args(arguments)


async def _replay(options: argparse.Namespace, bench: Bench) -> int:
    async with (
        place(bench.kubeconfig, folder=bench.folder) as where,
        _given_or_held(options, where=where, program=options.peer) as target,
        opened(await direct(bench.kubeconfig)) as plain,
        opened(anonymous(target) if options.anonymous else target) as proxy,
    ):
        stage = await _stage(plain, proxy=proxy, where=where)
        owned = "Authorization" in proxy.target.headers
        results = await replay((*READS, *WRITES), plain, proxy, stage=stage, owned=owned)
        await _print_head(plain, title=f"Replay of {len(results)} requests: {proxy.target.name} against direct")
        print("\n".join(table(results)))
    return int(any(result.differences for result in results))


async def _latency(options: argparse.Namespace, bench: Bench) -> int:
    async with contextlib.AsyncExitStack() as stack:
        plain = await stack.enter_async_context(opened(await direct(bench.kubeconfig)))
        lanes = await _lanes(options, bench, plain=plain, stack=stack)
        await _print_head(plain, title="Rate and latency, in turns of one run")
        print("\n".join(latency.HEADING), flush=True)
        for work, connections in itertools.product(latency.WORKS, options.connections):
            series = await latency.measure(work, lanes, connections=connections, requests=options.requests)
            print("\n".join(latency.rows(work.name, connections=connections, series=series)), flush=True)
            for lane in lanes:
                await plain.send(lane.sweep())
        delays = await latency.watch_delays(lanes, changes=max(20, options.requests // 10))
        print("\n".join(latency.delay_rows(delays)))
    return 0


async def _lanes(
    options: argparse.Namespace, bench: Bench, *, plain: Way, stack: contextlib.AsyncExitStack
) -> list[latency.Lane]:
    """Return the direct way first, then ours, then the peer's where one is given, in a namespace of its own."""
    lanes: list[latency.Lane] = []
    for program in (None, *([options.peer] if options.peer else [])):
        folder = bench.folder / ("peer" if program else "ours")
        folder.mkdir()
        where = await stack.enter_async_context(place(bench.kubeconfig, folder=folder))
        await many_config_maps(plain, namespace=where.namespace, count=_LISTED)
        target = await stack.enter_async_context(_given_or_held(options, where=where, program=program))
        way = await stack.enter_async_context(opened(target))
        ways = [way] if lanes else [plain, way]
        lanes += [latency.Lane(way=one, namespace=where.namespace) for one in ways]
    return lanes


async def _discovery(options: argparse.Namespace, bench: Bench) -> int:
    async with opened(await direct(bench.kubeconfig)) as plain:
        await _print_head(plain, title="Discovery of a run, in turns")
        print(
            "\n".join(discovery.table(await discovery.measure(plain, kubeconfig=bench.kubeconfig, runs=options.runs)))
        )
    return 0


async def _soak(options: argparse.Namespace, bench: Bench) -> int:
    load = soak.Load(requests=options.requests, changes=options.changes, seconds=options.seconds)
    async with (
        place(bench.kubeconfig, folder=bench.folder) as where,
        held_run(where) as held,
        opened(await direct(bench.kubeconfig)) as plain,
        opened(held.target) as proxy,
    ):
        stage = await _stage(plain, proxy=proxy, where=where, objects=_LISTED)
        await soak.dependents(proxy, namespace=where.namespace)
        soaked = await soak.soak(proxy, direct=plain, stage=stage, load=load, pid=held.pid)
        await _print_head(plain, title="Soak")
        print("\n".join([*soak.summary(soaked), "", *sampling.table(soaked.samples)]))
    if options.samples:
        options.samples.write_text("\n".join(sampling.lines(soaked.samples)) + "\n")
    return 0


async def _stage(plain: Way, *, proxy: Way, where: Place, objects: int = _OBJECTS) -> Stage:
    await build(plain, namespace=where.namespace, objects=objects)
    return await look(plain, proxy, namespace=where.namespace)


@contextlib.asynccontextmanager
async def _given_or_held(options: argparse.Namespace, *, where: Place, program: Path | None) -> AsyncIterator[Target]:
    """Give the proxy that was named, else that of an operator of our own (or the peer) with a run of it."""
    if options.proxy and program is None:
        yield through(options.proxy)
        return
    async with held_run(where, program=program, path=options.peer_path) as held:
        yield held.target


async def _print_head(plain: Way, *, title: str) -> None:
    answer = await plain.send(Sent(target="/version"))
    kubernetes = answer.body.decode().partition('"gitVersion": "')[2].partition('"')[0]
    print(f"## {title}\n\n{head(kubernetes)}; commit {commit()}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
