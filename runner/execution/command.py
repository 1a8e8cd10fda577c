"""What a cold run starts: the peer's ansible-runner command lines, and the environment around them."""

from __future__ import annotations

import configparser
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from runner.errors import ExecutionError
from runner.execution.executor import RunRequest
from runner.execution.processes import MARK, OWNER_MARK, own_identity
from runner.settings import ExecutionSettings
from runner.watches.model import Content

OWN_COLLECTIONS = Path(__file__).resolve().parent.parent / "collections"
_COLLECTIONS_DEFAULT = ("~/.ansible/collections", "/usr/share/ansible/collections")


def ansible_python(settings: ExecutionSettings) -> str:
    """Return the path of the interpreter that has Ansible.

    Raises:
        ExecutionError: there is no such program.
    """
    wanted = settings.ansible_python or sys.executable
    found = shutil.which(wanted, path=settings.environ.get("PATH", os.defpath))
    if found is None:
        raise ExecutionError(
            f"there is no Python interpreter {wanted}; set --ansible-python to one that has ansible-core and "
            "ansible-runner"
        )
    return found


def content_of(request: RunRequest) -> Content:
    """Return what runs: a finalizer's own playbook or role where it has one, else the watch's."""
    finalizer = request.watch.finalizer
    if request.finalizing and finalizer is not None and (finalizer.content.playbook or finalizer.content.role):
        return finalizer.content
    return request.watch.content


def command_line(request: RunRequest, *, directory: Path, settings: ExecutionSettings) -> list[str]:
    """Return the arguments that run *request* in *directory*.

    The rotation is switched off there: ansible-runner's own removes a link as if it were a folder, and crashes.
    """
    content = content_of(request)
    # -P: a module in the operator's working directory must not stand in for one of Python's
    start = [ansible_python(settings), "-P", "-m", "ansible_runner", "run", str(directory), "--rotate-artifacts", "0"]
    verbosity = [f"-{'v' * request.verbosity}"] if request.verbosity > 0 else []
    if content.playbook is not None:
        return [*start, "-p", str(content.playbook), "-i", request.ident, *verbosity]
    if content.role is None:
        raise ExecutionError(f"the watch of {request.watch.gvk} names neither a playbook nor a role; add one")
    role = ["--role", content.role.name, "--roles-path", str(content.role.parent), "--hosts", "localhost"]
    skip_facts = ["--role-skip-facts"] if settings.environ.get("ANSIBLE_GATHERING") == "explicit" else []
    return [*start, *role, "-i", request.ident, *verbosity, *skip_facts]


def environment_for(request: RunRequest, *, settings: ExecutionSettings, scratch: Path) -> dict[str, str]:
    """Return the environment of the run: the operator's own, with temporary files in *scratch*."""
    environ = dict(settings.environ)
    programs = str(Path(ansible_python(settings)).parent)
    environ["PATH"] = os.pathsep.join([programs, environ.get("PATH", os.defpath)])
    if settings.roles_path:
        environ["ANSIBLE_ROLES_PATH"] = settings.roles_path
    environ["ANSIBLE_COLLECTIONS_PATH"] = collections_path(settings)
    environ["TMPDIR"] = str(scratch / "tmp")
    environ.setdefault("ANSIBLE_LOCAL_TEMP", str(scratch / "local"))
    environ[MARK] = request.ident
    environ[OWNER_MARK] = own_identity()
    return environ


def collections_path(settings: ExecutionSettings) -> str:
    """Return where collections are looked for: as configured, and last the ones that we bring."""
    environ = settings.environ
    configured = settings.collections_path or environ.get("ANSIBLE_COLLECTIONS_PATH", "")
    paths = [configured] if configured else _configured_in_file(environ) or list(_COLLECTIONS_DEFAULT)
    return os.pathsep.join([*paths, str(OWN_COLLECTIONS)])


def _configured_in_file(environ: Mapping[str, str]) -> list[str]:
    """Return `collections_path` of the ansible.cfg that a run will read: the variable would hide that entry."""
    given = environ.get("ANSIBLE_CONFIG", "")
    first = [Path(given), Path(given) / "ansible.cfg"] if given else []
    home = [Path(environ["HOME"]) / ".ansible.cfg"] if environ.get("HOME") else []
    for path in [*first, *home, Path("/etc/ansible/ansible.cfg")]:
        if path.is_file():
            return _collections_in(path)
    return []


def _collections_in(path: Path) -> list[str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False, inline_comment_prefixes=(";",))
    try:
        parser.read(path)
    except (configparser.Error, UnicodeDecodeError):
        return []  # Ansible itself will say what is wrong with it
    entry = parser.get("defaults", "collections_path", fallback="")
    return [str(path.parent / Path(part).expanduser()) for part in entry.split(os.pathsep) if part]
