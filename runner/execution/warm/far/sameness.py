"""What a forked play takes over from the server's imports, and so must be the same: variables, ansible.cfg, folder.

Asked before a run is forked (`runner_child`) and before its playbook is (`spawn`): where anything differs that isn't
known to be refreshed, the run or its playbook is started as a new process, and is the same as ever.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

OF_A_RUN = frozenset({
    "ANSIBLE_OPERATOR_RUN",
    "ANSIBLE_OPERATOR_PROCESS",
    "OPERATOR_USER_METRICS_ADDRESS",
    "TMPDIR",
    "KUBECACHEDIR",
    "ANSIBLE_LOCAL_TEMP",
})
"""Variables that the operator gives each run, and that nothing reads at import, or that are refreshed."""
OF_A_PLAYBOOK = OF_A_RUN | {
    "KUBECONFIG",
    "K8S_AUTH_KUBECONFIG",
    "AWX_ISOLATED_DATA_DIR",
    "ANSIBLE_CACHE_PLUGIN_CONNECTION",
    "ANSIBLE_ROLES_PATH",
}
"""Variables that ansible-runner adds or changes besides."""
REFRESHED = ("DEFAULT_LOCAL_TMP", "DEFAULT_ROLES_PATH", "CACHE_PLUGIN_CONNECTION")
"""Settings of ansible-core that those are read into at import."""

_ENTRY = re.compile(rb"^\s*from ansible\.cli\.playbook import main\s*$", re.MULTILINE)
_INTERPRETER = re.compile(rb"""\A#!(?:/bin/sh\s+'''exec' )?"?(?P<path>/[^\s"]+)""")


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The surroundings in which the server imported Ansible."""

    environ: Mapping[str, str] = field(repr=False)
    """As ansible-runner made it."""
    config: str | None = None
    """The ansible.cfg that was read."""
    config_state: tuple[int, int, int] | None = None
    of_folder: tuple[str, ...] = ()
    """Settings that depend on the working directory."""
    said: bytes = b""
    """What the import wrote to its terminal: each playbook would have."""

    def why_not(self, environ: Mapping[str, str], *, cwd: str) -> str | None:
        """Return why a playbook with *environ* in *cwd* can't be forked; None where it can."""
        if names := differing(environ, self.environ, known=OF_A_PLAYBOOK):
            return f"variables differ from the fork server's: {', '.join(names)}"
        if self.of_folder:
            return f"settings depend on the working directory: {', '.join(self.of_folder)}"
        own = str(Path(cwd) / "ansible.cfg")
        if own != self.config and Path(own).exists():
            return f"there is {own}"
        if self.config is not None and state_of(self.config) != self.config_state:
            return f"{self.config} changed"
        return None


def differing(environ: Mapping[str, str], other: Mapping[str, str], *, known: frozenset[str]) -> list[str]:
    """Return the names of the variables that differ, *known* ones left out; never a value, which may be secret."""
    names = (environ.keys() | other.keys()) - known
    return sorted(name for name in names if environ.get(name) != other.get(name))


def state_of(path: str) -> tuple[int, int, int] | None:
    """Return what changes when the file at *path* does, or None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - once per run
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def interpreter_of_playbook(program: str) -> str | None:
    """Return the interpreter that *program* names in its first line, if it is ansible-playbook on this Python's.

    The path is as the program spells it, since plays see that: `ansible_playbook_python`.
    """
    try:
        text = Path(program).read_bytes()
    except OSError:
        return None
    found = _INTERPRETER.match(text)
    if found is None or not _ENTRY.search(text):
        return None
    interpreter = Path(os.fsdecode(found["path"]))
    own = Path(sys.executable)
    same = interpreter.parent == own.parent and _same_file(interpreter, own)
    return str(interpreter) if same else None


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
