"""What one process holds, second by second, out of /proc."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.proxy_bench.figures import quarters, slope

_MEBIBYTE = 1024
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One look at a process."""

    seconds: float
    """Since the first look."""
    memory: float
    """Resident, in MiB."""
    files: int
    threads: int
    cpu: float
    """Seconds of processor time so far."""


def look(pid: int, *, begun: float) -> Sample:
    """Return what the process *pid* holds now."""
    folder = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
    times = (folder / "stat").read_text().rpartition(")")[2].split()
    return Sample(
        seconds=time.monotonic() - begun,
        memory=int(status["VmRSS"].split()[0]) / _MEBIBYTE,
        files=len(list((folder / "fd").iterdir())),
        threads=int(status["Threads"]),
        cpu=(int(times[11]) + int(times[12])) / _TICKS,
    )


@contextlib.asynccontextmanager
async def sampled(pid: int, *, interval: float = 1.0) -> AsyncIterator[list[Sample]]:
    """Look at the process every *interval* seconds during the block; the list grows meanwhile."""
    samples: list[Sample] = []
    begun = time.monotonic()

    async def sample() -> None:
        while True:
            samples.append(look(pid, begun=begun))
            await asyncio.sleep(interval)

    task = asyncio.create_task(sample(), name="sampling")
    try:
        yield samples
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def table(samples: Sequence[Sample]) -> Iterator[str]:
    """Return the samples as Markdown: whether what is held grows."""
    yield "| held | first quarter (median) | last quarter (median) | slope per minute | most |"
    yield "|---|---|---|---|---|"
    times = [sample.seconds for sample in samples]
    for name, values in (
        ("memory, MiB", [sample.memory for sample in samples]),
        ("open files", [float(sample.files) for sample in samples]),
        ("threads", [float(sample.threads) for sample in samples]),
    ):
        first, last = quarters(values)
        yield f"| {name} | {first:.1f} | {last:.1f} | {slope(times, values) * 60:+.2f} | {max(values):.1f} |"


def lines(samples: Sequence[Sample]) -> Iterator[str]:
    """Return the samples as CSV."""
    yield "seconds,memory_mib,files,threads,cpu_seconds"
    for one in samples:
        yield f"{one.seconds:.1f},{one.memory:.1f},{one.files},{one.threads},{one.cpu:.2f}"
