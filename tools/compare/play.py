"""Plays one case with one operator: project, processes, script, and the normalised observation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tools.compare.cluster import GROUP, VERSION, Cluster
from tools.compare.normalise import normalise
from tools.compare.world import Case, World
from tools.operators import Side, environment, running


def play(case: Case, *, side: Side, cluster: Cluster, folder: Path, namespace: str) -> Any:
    """Return what *side* did in *case*, comparable; logs and the observation stay in *folder*."""
    project = _write_project(case, folder=folder)
    runs_of_ours = (GROUP, f"{VERSION}/Secret/{namespace}")
    side.clear_runs(*runs_of_ours)
    world = World(
        cluster=cluster,
        kinds=case.kinds,
        namespace=namespace,
        runs=side.runs_in(folder / "tmp"),
        seen=folder / "seen",
    )
    extra = {"WATCH_NAMESPACE": namespace, "COMPARE_SEEN": str(folder / "seen"), **case.environ}
    environ = environment(side, folder=folder, kubeconfig=cluster.kubeconfig, extra=extra)
    log = folder / "operator.log"
    with cluster.namespace(namespace), world.watched():
        with running(side, project=project, environ=environ, arguments=case.arguments, log=log) as operator:
            _run_script(case, world=world)
        (ended,) = operator.ended
        world.stages["end of the operator"] = {"exit code": ended.code, "killed": ended.killed}
    side.clear_runs(*runs_of_ours)
    names = {namespace: "NAMESPACE", str(world.runs): "RUNS", str(folder): "FOLDER", **_programs(side)}
    observed = normalise(world.stages, names=names)
    (folder / "observed.json").write_text(json.dumps(observed, indent=2, ensure_ascii=False))
    return observed


def _write_project(case: Case, *, folder: Path) -> Path:
    project = folder / "project"
    for name in ("home", "tmp", "seen"):
        (folder / name).mkdir(parents=True)
    for path, content in {"watches.yaml": list(case.watches), **case.files}.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return project


def _run_script(case: Case, *, world: World) -> None:
    """Play the script; a wait in vain is an observation too, and the stages before it are kept."""
    try:
        case.script(world)
    except (TimeoutError, IndexError) as error:
        world.stages["broken off"] = str(error)


def _programs(side: Side) -> dict[str, str]:
    return {str(folder): "BIN" for folder in side.path}
