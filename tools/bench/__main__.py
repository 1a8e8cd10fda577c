"""The command: `python -m tools.bench [SECTION ...]`; exit code 1 where a ratio got worse than the recorded one."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from runner.clock import SystemClock
from runner.localdev.cache import kubernetes_version
from runner.localdev.plane import PlaneOptions
from tools.bench import guard, report
from tools.bench.budget import Budget
from tools.bench.catalogue import SECTIONS, Section
from tools.bench.contestants import COLD, FLOOR, PEER, WARM, Contestant, own, the_floor, the_peer
from tools.bench.results import Results, to_json
from tools.bench.stage import Plan, measure_all
from tools.bench.versions import describe
from tools.machine import commit, control_plane, load, moment

_GRACE = 45.0
"""Seconds that a round may take beyond the time, before it is cut."""
_NAMES = [section.name for section in SECTIONS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the table, compare, and return the exit code."""
    options = _parse(arguments)
    sections = [section for section in SECTIONS if section.name in (options.sections or _NAMES)]
    results, before = Results(), load()
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    contestants = _contestants(options, folder=folder)
    about = {one.name: describe(one) for one in contestants}
    try:
        _measure(options, sections=sections, contestants=contestants, folder=folder, results=results)
    except KeyboardInterrupt:
        results.note("The run was cut short.")
        options.cut = True
    if results.notes:
        print(f"the logs of the operators are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    described = report.About(
        command=_command(options), moment=moment(), commit=commit(), kubernetes=kubernetes_version(),
        machine=f"{os.cpu_count()} CPUs", load_before=before, load_after=load(), contestants=about,
    )  # fmt: skip
    lines = list(report.whole(results, about=described))
    print("\n".join(["", *lines]), flush=True)
    if options.record:
        options.record.write_text(to_json(results, about=asdict(described)))
    return _conclude(options, sections=sections, results=results, lines=lines, about=described)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"some of {', '.join(_NAMES)}; all by default")
    parser.add_argument("--only", default="", help=f"contestants, of {FLOOR},{WARM},{COLD},{PEER}; all by default")
    parser.add_argument("--peer", type=Path, help="the peer's ansible-operator; needs the ports 8888 and 5050")
    parser.add_argument(
        "--peer-path", type=Path, action="append", default=[],
        help="a folder to put first in the peer's PATH, with its ansible-runner and ansible-playbook",
    )  # fmt: skip
    parser.add_argument("--peer-env", action="append", default=[], metavar="NAME=VALUE", help="for the peer alone")
    parser.add_argument("--minutes", type=float, default=18.5, help="in which to be done (default 18.5)")
    parser.add_argument("--settle", type=float, default=60.0, help="seconds of rest before idle is measured")
    parser.add_argument("--held", type=int, default=4, help="runs that are held open at once (default 4)")
    parser.add_argument("--rounds", type=int, help="as many at most, and at least none (to try the benchmark itself)")
    parser.add_argument("--plane", type=Path, help="the folder of a running control plane; otherwise one is started")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the raw values there, as JSON")
    parser.add_argument("--accept", action="store_true", help="record the ratios for the guard, whatever they are")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md, complete or not")
    options = parser.parse_args(arguments)
    unknown = set(options.sections) - set(_NAMES)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(_NAMES)}")
    if any("=" not in entry for entry in options.peer_env):
        parser.error("--peer-env takes NAME=VALUE")
    options.cut = False
    options.given = sys.argv[1:] if arguments is None else list(arguments)
    return options


def _wanted(options: argparse.Namespace) -> list[str]:
    return options.only.split(",") if options.only else [FLOOR, WARM, COLD, PEER]


def _contestants(options: argparse.Namespace, *, folder: Path) -> list[Contestant]:
    wanted = _wanted(options)
    found = [the_floor(folder)] if FLOOR in wanted else []
    found += [own(name) for name in (WARM, COLD) if name in wanted]
    if options.peer and PEER in wanted:
        environ = dict(entry.split("=", 1) for entry in options.peer_env)
        found.append(the_peer(options.peer, path=options.peer_path, environ=environ))
    return found


def _measure(
    options: argparse.Namespace,
    *,
    sections: Sequence[Section],
    contestants: Sequence[Contestant],
    folder: Path,
    results: Results,
) -> None:
    shares = {section.name: section.share for section in sections if section.share}
    budget = Budget(seconds=options.minutes * 60, clock=SystemClock(), shares=shares)
    with control_plane(options.plane, options=PlaneOptions(ec2=True)) as plane:
        plan = Plan(
            contestants=contestants, sections=sections, budget=budget, settle=options.settle, held=options.held,
            rounds=options.rounds, plane=plane, own_plane=options.plane is None, folder=folder,
        )  # fmt: skip
        try:
            asyncio.run(asyncio.wait_for(measure_all(plan, results=results), max(0.0, budget.left) + _GRACE))
        except TimeoutError:
            if budget.left > 0:
                raise
            results.note("The time was over before the end: see --minutes.")
            options.cut = True


def _conclude(
    options: argparse.Namespace,
    *,
    sections: Sequence[Section],
    results: Results,
    lines: Sequence[str],
    about: report.About,
) -> int:
    """Write what is to be kept, and tell what got worse."""
    complete = not options.cut and len(sections) == len(SECTIONS) and not options.rounds and not options.only
    if options.write or (complete and (PEER in results.contestants() or not report.has_peer())):
        report.insert(lines)
        print(f"\nwritten: {report.DOCUMENT}")
    elif complete:
        print("\ndocs/benchmarks.md has figures of the peer and this run has none: not written (--write does)")
    if options.accept:
        guard.write(results, about={"recorded": about.moment, "commit": about.commit, "command": about.command})
        print(f"written: {guard.RECORDED}")
        return 0
    recorded = guard.read()
    keys = [figure.key for section in sections for figure in section.figures]
    asked = _wanted(options)
    worse = list(guard.regressions(results, recorded=recorded, keys=[] if options.cut else keys, asked=asked))
    print("\n" + ("\n".join(worse) if worse else _all_well(recorded, asked=asked)), flush=True)
    return int(bool(worse))


def _all_well(recorded: guard.Recorded, *, asked: Sequence[str]) -> str:
    if WARM not in asked:
        return f"guard: without {WARM} there is nothing to compare"
    if not recorded:
        return f"guard: no ratios are recorded yet; --accept writes {json.dumps(guard.RECORDED.name)}"
    return "guard: no ratio is worse than recorded"


def _command(options: argparse.Namespace) -> str:
    """Return the command without the folders of this machine."""
    given = [Path(word).name if word.startswith("/") else word for word in options.given]
    return shlex.join(["python", "-m", "tools.bench", *given])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # so that no operator is left
    sys.exit(main())
