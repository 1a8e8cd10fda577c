"""What a cold run starts: the peer's ansible-runner command lines, and the environment around them."""

from __future__ import annotations

import configparser
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template

from runner.errors import ExecutionError
from runner.execution.executor import RunRequest
from runner.execution.processes import MARK, OWNER_MARK
from runner.owner import own_identity
from runner.settings import ExecutionSettings
from runner.watches.model import Content

USER_METRICS = "OPERATOR_USER_METRICS_ADDRESS"
"""Tells `operator_sdk.util.osdk_metric` where this operator takes metrics; empty: nowhere."""
OWN_COLLECTIONS = Path(__file__).resolve().parent.parent / "collections"
_PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_THIS_MACHINE = ("localhost", "127.0.0.1")
_KUBECTL_WEBSOCKETS = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
"""kubectl's WebSocket library refuses a server's URL with a user name, and a run's has one: SPDY takes it."""
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
    """Return the environment of the run: that of all plays, and its own mark."""
    return {**environment_of_plays(settings, scratch=scratch), MARK: request.ident}


def environment_of_plays(settings: ExecutionSettings, *, scratch: Path) -> dict[str, str]:
    """Return what all plays have in common: the operator's own environment, with temporary files in *scratch*."""
    environ = dict(settings.environ)
    programs = str(Path(ansible_python(settings)).parent)
    environ["PATH"] = os.pathsep.join([programs, environ.get("PATH", os.defpath)])
    if settings.roles_path:
        environ["ANSIBLE_ROLES_PATH"] = settings.roles_path
    environ["ANSIBLE_COLLECTIONS_PATH"] = collections_path(settings)
    environ["TMPDIR"] = str(scratch / "tmp")
    environ["KUBECACHEDIR"] = str(scratch / "tmp" / "kube-cache")  # kubectl names folders there after the URL: a secret
    if not _Config(environ).entry("local_tmp"):  # the variable would beat it
        environ.setdefault("ANSIBLE_LOCAL_TEMP", str(scratch / "local"))
    environ.update(_spared(environ))
    for variable in _KUBECTL_WEBSOCKETS:
        environ.setdefault(variable, "false")
    environ[OWNER_MARK] = own_identity()
    return environ


def _spared(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return what keeps requests to the operator's own servers from an HTTP proxy that *environ* names.

    Go's clients never ask a proxy for this machine, Python's and curl do. Some read the one name, some the other.
    """
    if not any(environ.get(name) for name in _PROXY_VARIABLES):
        return {}
    given = {name: environ.get(name, "") for name in ("no_proxy", "NO_PROXY")}
    either = given["no_proxy"] or given["NO_PROXY"]
    return {name: _with_this_machine(value or either) for name, value in given.items()}


def _with_this_machine(hosts: str) -> str:
    named = [host.strip() for host in hosts.split(",") if host.strip()]
    return hosts if "*" in named else ",".join([*named, *(host for host in _THIS_MACHINE if host not in named)])


def config_files(settings: ExecutionSettings) -> list[Path]:
    """Return the paths where a run looks for ansible.cfg, in that order, whether a file is there or not."""
    return _Config(settings.environ).candidates


def collections_path(settings: ExecutionSettings) -> str:
    """Return where collections are looked for: as configured, and last the ones that we bring.

    ansible-core 2.18 reads two spellings of the variable and of the entry in ansible.cfg, the one with `PATH` first;
    2.19 knows that one only. What we set hides all of them, so both are read here, for every version.
    """
    environ = settings.environ
    given = environ.get("ANSIBLE_COLLECTIONS_PATH") or environ.get("ANSIBLE_COLLECTIONS_PATHS")
    configured = settings.collections_path or given
    paths = [configured] if configured else _Config(environ).paths("collections_path", "collections_paths")
    return os.pathsep.join([*(paths or _COLLECTIONS_DEFAULT), str(OWN_COLLECTIONS)])


class _Config:
    """The ansible.cfg that a run will read, for entries that a variable of ours would hide."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.candidates = self._candidates()
        self._path = next((path for path in self.candidates if path.is_file()), None)

    def entry(self, *keys: str) -> str:
        """Return the first of *keys* in `[defaults]` that is set."""
        if self._path is None:
            return ""
        parser = configparser.ConfigParser(interpolation=None, strict=False, inline_comment_prefixes=(";",))
        try:
            parser.read(self._path)
        except (configparser.Error, UnicodeDecodeError):
            return ""  # Ansible itself will say what is wrong with it
        return next((value for key in keys if (value := parser.get("defaults", key, fallback=""))), "")

    def paths(self, *keys: str) -> list[str]:
        """Return the paths of such an entry; what is relative there is relative to the file."""
        parts = [self._expanded(part) for part in self.entry(*keys).split(os.pathsep) if part]
        # what Ansible itself has yet to expand, `~user` and `{{CWD}}`, is left to it
        return [part if part.startswith(("/", "~", "$", "{{")) else self._beside(part) for part in parts]

    def _beside(self, part: str) -> str:
        return str(self._path.parent / part) if self._path is not None else part

    def _candidates(self) -> list[Path]:
        given = self._expanded(self._environ.get("ANSIBLE_CONFIG", ""))
        first = [Path(given), Path(given) / "ansible.cfg"] if given else []
        home = [Path(self._environ["HOME"]) / ".ansible.cfg"] if self._environ.get("HOME") else []
        return [*first, *home, Path("/etc/ansible/ansible.cfg")]

    def _expanded(self, path: str) -> str:
        """Return *path* with variables and the home folder of the run, as Ansible expands them."""
        path = Template(path).safe_substitute(self._environ)
        home = self._environ.get("HOME", "")
        return f"{home}{path[1:]}" if home and (path == "~" or path.startswith("~/")) else path
