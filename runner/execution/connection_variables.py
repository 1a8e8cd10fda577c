"""Which names a spec may not set: the variables by which Ansible decides where, as whom and by what it runs.

Extra variables beat the inventory, so a spec key of such a name would take a run out of the operator's hands. The
rule, applied to the name after its conversion: every variable that a connection, become or shell plugin of
ansible-core or of the public collections reads (a test compares them with the plugins that are installed), host, port
and user of each connection, `ansible_winrm_*` and `ansible_psrp_*`, whose plugins take any name, and whatever names an
interpreter (`ansible_*_interpreter`). Every other name passes, such as `ansible_network_policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runner.execution.snake_case import to_snake

_OPTIONS = {
    "": (
        "access_token_file admin_users async_dir become buffer_read_timeout certificate_chain_file "
        "command_timeout common_remote_group connect_timeout connection connection_path connection_user "
        "control_path control_path_dir delegated_vars enable_pass executable func_host host host_key_checking "
        "interpreter_python_fallback known_hosts_file libvirt_uri lock_file_timeout module_compression paramiko "
        "password persistent_log_messages pipelining platform_type playbook_python port private_key "
        "private_key_file private_key_passphrase private_key_password remote_tmp root_certificates_file shell ssh "
        "sshpass_prompt sudosu_alt_method system_tmpdirs timeout user"
    ),
    "aws_ssm": (
        "access_key_id bucket_endpoint_url bucket_name bucket_sse_kms_key_id bucket_sse_mode document host "
        "instance_id plugin port profile region retries s3_addressing_style secret_access_key session_token "
        "timeout user"
    ),
    "become": "exe flags method pass password user",
    "buildah": "host port user",
    "chroot": "disable_root_check exe host port user",
    "doas": "exe flags pass prompt_l10n user",
    "docker": "extra_args extra_env host port privileged timeout user working_dir",
    "dzdo": "exe flags pass user",
    "gcloud": "account configuration executable host port private_key_file project user zone",
    "grpc": "connection_type host port ssl_target_name_override user",
    "httpapi": (
        "ca_path ciphers client_cert client_key host http_agent pass password port session_key use_proxy use_ssl "
        "user validate_certs"
    ),
    "incus": "executable host port project remote user",
    "iocage": "host port user",
    "jail": "host port user",
    "ksu": "exe flags pass prompt_l10n user",
    "kubectl": (
        "api_key ca_cert cert_file client_cert client_key config container context extra_args host key_file "
        "kubeconfig local_env_vars namespace password pod port server ssl_ca_cert token user username "
        "validate_certs verify_ssl"
    ),
    "libssh": (
        "config_file host host_key_checking hostkeys key_exchange_algorithms pass password password_prompt port "
        "proxy_command publickey_algorithms user"
    ),
    "libvirt_lxc": "host noseclabel port user",
    "local_become": "strip_preamble success_timeout",
    "lxc": "executable host port user",
    "lxd": "executable host port project remote user",
    "machinectl": "exe flags pass user",
    "netconf": "host host_key_checking password port proxy_command ssh_config user",
    "network": "become_errors import_modules os single_user_mode terminal_errors",
    "network_cli": "host port retries ssh_type user",
    "nsenter": "host pid port user",
    "oc": (
        "api_key ca_cert cert_file client_cert client_key config container context extra_args host key_file "
        "kubeconfig local_env_vars namespace pod port server ssl_ca_cert token user validate_certs verify_ssl"
    ),
    "paramiko": (
        "host host_key_checking pass password port private_key_file proxy_command timeout use_rsa_sha2_algorithms "
        "user user_known_hosts_file"
    ),
    "pbrun": "exe flags pass user wrap_execution",
    "pfexec": "exe flags pass user wrap_execution",
    "pmrun": "exe flags pass",
    "podman": "executable extra_args host port user",
    "qubes": "host port user",
    "run0": "exe flags user",
    "runas": "flags pass user",
    "scp": "executable extra_args if_ssh",
    "sesu": "exe flags pass user",
    "sftp": "batch_mode executable extra_args",
    "shell": "allow_world_readable_temp executable type",
    "ssh": (
        "args common_args executable extra_args host host_key_checking known_hosts_file pass password "
        "password_mechanism pipelining pkcs11_provider port private_key private_key_file private_key_passphrase "
        "retries timeout transfer_method use_tty user verbosity"
    ),
    "su": "exe flags pass prompt_l10n user",
    "sudo": "chdir exe flags pass user",
    "terminal": "initial_answer initial_prompt initial_prompt_checkall initial_prompt_newline stderr_re stdout_re",
    "vmware": "guest_path guest_uuid host password port user validate_certs",
    "vmware_tools": "exec_command_sleep_interval executable file_chunk_size host password port user",
    "zone": "host port user",
}
"""By the first word of a variable's name (`ansible_docker_host`), what may follow it; "" for names without one."""
_NAMES = frozenset(
    "_".join(part for part in ("ansible", family, option) if part)
    for family, options in _OPTIONS.items()
    for option in options.split()
)
_FAMILIES = ("ansible_psrp_", "ansible_winrm_")
"""Whatever begins so is handed on by the plugin, known or not."""
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
