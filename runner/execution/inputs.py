"""Inputs of a run: the private data directory that ansible-runner reads, written anew before each run.

One directory per object, at the peer's path. Nothing of an object goes into an argument list: ansible-runner would
pass variables there (and keep old ones in `env/extravars`), so `parameters` go into that file by our own hand.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.errors import ExecutionError
from runner.execution.executor import RunRequest
from runner.execution.files import private_folder, private_subfolder, write_private
from runner.execution.parameters import parameters_for
from runner.kube.objects import name_of, namespace_of
from runner.settings import ExecutionSettings

FACT_CACHE = "fact_cache"


@dataclass(frozen=True, kw_only=True)
class RunDirectory:
    """A directory that is ready to run."""

    path: Path
    notes: tuple[str, ...] = ()
    """What the log should tell about the variables."""

    @property
    def artifacts(self) -> Path:
        """Return the folder that holds one folder per run."""
        return self.path / "artifacts"


def prepare(request: RunRequest, *, settings: ExecutionSettings, kubeconfig: Path, scratch: Path) -> RunDirectory:
    """Write everything that the run of *request* reads; what an earlier run left there plays no part.

    Gathered facts, which hold the environment, are cached in *scratch*: they serve no later run, and go with it.

    Raises:
        ExecutionError: the directory cannot be written, an inventory is missing, or the object cannot be variables.
    """
    parameters = parameters_for(request, cluster_id=settings.cluster_id)
    path = private_folder(directory_of(request, root=settings.runner_dir))
    try:
        env, project, _ = (private_subfolder(path / name) for name in ("env", "project", "artifacts"))
        access = {"K8S_AUTH_KUBECONFIG": str(kubeconfig), "KUBECONFIG": str(kubeconfig)}
        write_private(env / "envvars", json.dumps(access))
        write_private(env / "extravars", _json_not_yaml(parameters.variables))
        # the peer's own settings in a directory that it left would send events to a socket that is gone
        own = {"pexpect_timeout": 1, "fact_cache": str(scratch.absolute() / FACT_CACHE)}
        write_private(env / "settings", json.dumps(own))
        _write_cmdline(env / "cmdline", settings.ansible_args)
        _write_project(project, request.watch.content.playbook)
        _write_inventory(path / "inventory", settings=settings)
    except OSError as error:
        raise ExecutionError(f"cannot prepare the run directory {path}: {error}; check its disk and rights") from error
    return RunDirectory(path=path, notes=parameters.notes)


def directory_of(request: RunRequest, *, root: Path) -> Path:
    """Return `root/group/version/Kind/namespace/name`; an empty group or namespace vanishes."""
    gvk, obj = request.watch.gvk, request.obj
    parts = [part for part in (gvk.group, gvk.version, gvk.kind, namespace_of(obj), name_of(obj)) if part]
    if any("/" in part or part in {".", ".."} for part in parts):
        raise ExecutionError(f"{parts} cannot be a path; the API server gives no object such a name")
    return root.joinpath(*parts)


def _json_not_yaml(variables: Mapping[str, object]) -> str:
    """Return JSON with each colon on a new line, which JSON allows and YAML doesn't.

    Ansible reads a file that it can't read as JSON again as YAML, where marks of unsafe text are ordinary maps and
    the text is a template. With this it reports an error instead.
    """
    return json.dumps(variables, separators=(", ", "\n: "), default=str)


def _write_cmdline(path: Path, arguments: str) -> None:
    quoted = len(arguments) > 1 and arguments.startswith("'") and arguments.endswith("'")
    arguments = arguments[1:-1] if quoted else arguments
    if arguments:
        write_private(path, arguments)
    else:
        path.unlink(missing_ok=True)


def _write_project(path: Path, playbook: Path | None) -> None:
    """Leave a copy of the main playbook, for people; ansible-runner's own throw-away playbooks of killed runs go."""
    for stale in path.iterdir():
        if not stale.is_dir():
            stale.unlink()
    if playbook is not None and playbook.is_file():
        write_private(path / "playbook.yaml", playbook.read_bytes())


def _write_inventory(path: Path, *, settings: ExecutionSettings) -> None:
    """Copy $ANSIBLE_INVENTORY, modes too (an inventory may be a program), else name localhost only."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    given = settings.environ.get("ANSIBLE_INVENTORY", "")
    source = Path(given)
    if given and not source.exists():
        raise ExecutionError(f"ANSIBLE_INVENTORY names {given}, which does not exist; correct or unset it")
    if given and source.is_dir():
        shutil.copytree(source, path)
        path.chmod(0o700)
        return
    private_subfolder(path)
    if given:
        shutil.copy2(source, path / "hosts")
        return
    # the operator's own environment, which is not that of plays where another interpreter is named
    venv = "" if settings.ansible_python else settings.environ.get("VIRTUAL_ENV", "")
    interpreter = f"{venv}/bin/python3" if venv else "{{ansible_playbook_python}}"
    write_private(path / "hosts", f"localhost ansible_connection=local ansible_python_interpreter={interpreter}")
