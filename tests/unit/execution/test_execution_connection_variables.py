"""The rule by which names of a spec are taken for Ansible's connection variables, held against Ansible itself."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from runner.execution.connection_variables import dropped_keys, is_connection_variable

_PLUGINS = ("connection/*.py", "become/*.py", "shell/*.py", "doc_fragments/connection_*.py", "doc_fragments/shell_*.py")
_VARIABLE = re.compile(r"name:\s*['\"]?((?:ansible_|inventory_hostname\b)\w*)")


def _ansible() -> Path:
    spec = find_spec("ansible")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _variables_of_plugins(plugins: Path) -> set[str]:
    texts = [path.read_text() for pattern in _PLUGINS for path in plugins.glob(pattern)]
    return {name for text in texts for name in _VARIABLE.findall(text)}


def test_every_variable_of_ansibles_own_plugins_is_one() -> None:
    """Whatever a connection, become or shell plugin of the installed ansible-core reads is dropped (field case P5)."""
    names = _variables_of_plugins(_ansible() / "plugins")
    assert len(names) > 60, "the plugins' documentation was not found"
    assert [name for name in sorted(names) if not is_connection_variable(name)] == []


def test_every_variable_of_the_collections_plugins_is_one() -> None:
    """So is what those of the installed collections read, as a spec could choose any of them (field case P5)."""
    plugins = list((_ansible().parent / "ansible_collections").glob("*/*/plugins"))
    names = {name for folder in plugins for name in _variables_of_plugins(folder)}
    assert "ansible_kubectl_pod" in names, "the collection kubernetes.core was not found"
    assert [name for name in sorted(names) if not is_connection_variable(name)] == []


def test_every_magic_connection_variable_is_one() -> None:
    """The variables that Ansible's play context maps to a connection are all dropped."""
    constants = (_ansible() / "constants.py").read_text()
    mapping = constants[constants.index("COMMON_CONNECTION_VARS") :].partition("# FIXME: remove")[0]
    names = set(re.findall(r"'(ansible_\w+)'", mapping))
    assert len(names) > 20
    assert [name for name in sorted(names) if not is_connection_variable(name)] == []


@pytest.mark.parametrize(
    "key",
    [
        "ansibleConnection", "ansible-connection", "ansible_connection", "ansible connection", "ansibleHost",
        "ansiblePort", "ansibleUser", "ansiblePassword", "ansibleSshCommonArgs", "ansibleSSHCommonArgs",
        "ansibleSshPass", "ansibleBecome", "ansibleBecomePass", "ansibleBecomeMethod", "ansiblePythonInterpreter",
        "ansible-python-interpreter", "ansibleNodeInterpreter", "ansiblePerlInterpreter", "ansibleShellType",
        "ansibleShellExecutable", "ansiblePipelining", "ansibleAsyncDir", "ansibleWinrmTransport", "ansiblePsrpAuth",
        "ansibleRemoteTmp", "ansibleTimeout", "ansiblePrivateKeyFile", "ansiblePrivateKey", "ansibleSshpassPrompt",
        "ansibleNetworkOs", "ansibleDockerExtraArgs", "ansibleKubectlPod", "inventoryHostname", "ansibleZoneHost",
        "ansibleDockerHost", "ansibleOcPod", "ansiblePodmanExecutable", "ansibleWinrmWhatever", "ansibleLxdPort",
    ],
)  # fmt: skip
def test_a_key_is_judged_by_its_name_after_the_conversion(key: str) -> None:
    """Each spelling that becomes a connection or interpreter variable is dropped (field case P5)."""
    assert dropped_keys({key: 1, "size": 1}, snake_case=True) == (key,)


@pytest.mark.parametrize("key", ["ansibleConnection", "ansible-connection", "ansiblePythonInterpreter"])
def test_a_key_that_is_not_converted_is_judged_as_it_is(key: str) -> None:
    """Without the conversion such a key is no variable that Ansible knows, and passes."""
    assert dropped_keys({key: 1}, snake_case=False) == ()
    assert dropped_keys({"ansible_connection": 1}, snake_case=False) == ("ansible_connection",)


@pytest.mark.parametrize(
    "name",
    [
        "ansible_version", "ansible_facts", "ansible_user_id", "ansible_hostname", "ansible_python",
        "ansible_operator_meta", "ansible_tower_host", "ansible_check_mode", "ansible_env", "ansible_local",
        "connection", "host", "port", "user", "remote_user", "become", "python_interpreter", "my_ansible_host",
        "_ansible_host", "hosts", "environment", "shell", "interpreter", "ansible", "", "ansible_network_policy",
        "ansible_zone_id", "ansible_docker_image", "ansible_shell_history", "ansible_transport_mode", "ansible_oc_role",
        "ansible_ssh_host_key_rsa_public", "ansible_become_leader", "ansible_podman_image", "ansible_control_path_id",
    ],
)  # fmt: skip
def test_every_other_name_passes(name: str) -> None:
    """Facts, names that only resemble, and plain words are the spec's own."""
    assert dropped_keys({name: 1}, snake_case=True) == ()
    assert not is_connection_variable(name)


@pytest.mark.parametrize("spec", [None, "ansible_host", ["ansible_host"], 1])
def test_a_spec_that_is_no_map_has_no_keys(spec: object) -> None:
    """Nothing of it could be a variable."""
    assert dropped_keys(spec, snake_case=True) == ()


def test_only_the_first_level_counts() -> None:
    """A nested key is no variable of Ansible's."""
    assert dropped_keys({"server": {"ansibleHost": "x"}}, snake_case=True) == ()
