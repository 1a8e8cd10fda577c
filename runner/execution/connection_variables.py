"""Which names a spec may not set: the variables by which Ansible decides where, as whom and by what it runs.

Extra variables beat the inventory, so a spec key of such a name would take a run out of the operator's hands. The
rule, applied to the name after its conversion: every variable that a connection, become or shell plugin of
ansible-core reads (a test compares them with the plugins that are installed), the whole family of each kind of
connection or become plugin known (`ansible_ssh_*`, `ansible_winrm_*`, ...), and whatever names an interpreter
(`ansible_*_interpreter`). Every other name passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runner.execution.snake_case import to_snake

_NAMES = frozenset(
    f"ansible_{name}"
    for name in (
        "admin_users", "async_dir", "become", "command_timeout", "common_remote_group", "connect_timeout",
        "connection", "connection_path", "connection_user", "control_path", "delegated_vars", "executable", "host",
        "host_key_checking", "interpreter_python_fallback", "module_compression", "paramiko", "password",
        "pipelining", "playbook_python", "port", "private_key", "private_key_file", "private_key_passphrase",
        "remote_tmp", "shell", "ssh", "sshpass_prompt", "system_tmpdirs", "timeout", "user",
    )
)  # fmt: skip
_FAMILIES = tuple(
    f"ansible_{family}_"
    for family in (
        "aws_ssm", "become", "buildah", "chroot", "control_path", "doas", "docker", "dzdo", "httpapi", "jail",
        "kubectl", "ksu", "libssh", "libvirt_lxc", "local_become", "lxc", "lxd", "machinectl", "netconf", "network",
        "oc", "paramiko", "pbrun", "persistent", "pfexec", "podman", "pmrun", "psrp", "qubes", "runas", "scp", "sesu",
        "sftp", "shell", "ssh", "su", "sudo", "transport", "winrm", "zone",
    )
)  # fmt: skip
_OTHER_NAME = "inventory_hostname"
"""The machine that a connection goes to, where nothing else says it."""
_DEBUGGERS = "_ansible_ansiballz_"
"""Variables that make a module load a debugger into its interpreter."""


def is_connection_variable(name: str) -> bool:
    """Tell whether Ansible takes the variable *name* for a connection, its user or an interpreter."""
    return (
        name in _NAMES
        or name == _OTHER_NAME
        or name.startswith((*_FAMILIES, _DEBUGGERS))
        or (name.startswith("ansible_") and name.endswith("_interpreter"))
    )


def dropped_keys(spec: object, *, snake_case: bool) -> tuple[str, ...]:
    """Return the keys of *spec*, as its author wrote them, that reach no run because of their names."""
    keys: Iterable[Any] = spec if isinstance(spec, Mapping) else ()
    return tuple(sorted(key for key in keys if is_connection_variable(to_snake(key) if snake_case else key)))
