"""The command: `python -m tools.compare --peer BINARY --out FOLDER`; exit code 1 where a difference is unexplained."""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.compare.cases import CASES
from tools.compare.cluster import Cluster
from tools.compare.diffs import Explained, compare, explain
from tools.compare.known import KNOWN
from tools.compare.play import play
from tools.compare.report import UNEXPLAINED, render
from tools.compare.world import Case
from tools.machine import control_plane
from tools.operators import Side, ours, peer, refuse_busy_ports


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison and return the exit code."""
    options = _parse(arguments)
    cases = [case for case in CASES if not options.case or case.name[:2] in options.case]
    if options.replay:
        return _report(cases, out=options.out)
    sides = [ours()] if options.peer is None else [peer(options.peer, path=options.peer_path), ours()]
    refuse_busy_ports()
    with _cluster(options.plane) as cluster:
        _observe(cases, sides=sides, cluster=cluster, out=options.out)
    if options.peer is None:
        print(f"observed ours alone: {options.out}")
        return 0
    return _report(cases, out=options.out)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.compare", description=__doc__)
    parser.add_argument("--peer", type=Path, help="the peer's ansible-operator; without it ours runs alone")
    parser.add_argument(
        "--peer-path", type=Path, action="append", default=[],
        help="a folder to put first in the peer's PATH: an ansible-runner with its event plugin",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, help="where logs, observations and report.md go")
    parser.add_argument("--plane", type=Path, help="the folder of a running control plane; otherwise one is started")
    parser.add_argument("--case", action="append", default=[], help="two digits: only this case (more than once)")
    parser.add_argument("--replay", action="store_true", help="compare what --out has, and run nothing")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def _cluster(folder: Path | None) -> Iterator[Cluster]:
    """Give a control plane: the running one in *folder*, else one of our own that ends with us."""
    with control_plane(folder) as plane:
        cluster = Cluster(plane.kubeconfig)
        try:
            yield cluster
        finally:
            if folder is not None:
                cluster.remove_kinds()


def _observe(cases: Sequence[Case], *, sides: Sequence[Side], cluster: Cluster, out: Path) -> None:
    run = secrets.token_hex(2)
    print(f"Kubernetes {cluster.version()}", flush=True)
    for case in cases:
        for kind in case.kinds:
            if not kind.core:
                cluster.install(kind.name, namespaced=kind.namespaced)
        for side in sides:
            folder = out.absolute() / case.name / side.name
            shutil.rmtree(folder, ignore_errors=True)
            print(f"{case.name} with {side.name}", flush=True)
            play(
                case, side=side, cluster=cluster, folder=folder, namespace=f"compare-{run}-{case.name[:2]}-{side.name}"
            )


def _report(cases: Sequence[Case], *, out: Path) -> int:
    results: dict[str, list[Explained]] = {}
    for case in cases:
        observed = [_read(out / case.name / side / "observed.json") for side in ("peer", "ours")]
        results[case.name] = explain(compare(*observed), case=case.name, known=KNOWN)
    text = render(results, titles={case.name: case.title for case in cases})
    (out / "report.md").write_text(text)
    print(f"written: {out / 'report.md'}")
    return int(UNEXPLAINED in text)


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


if __name__ == "__main__":
    sys.exit(main())
