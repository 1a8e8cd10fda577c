"""What the fork server finds in roles and playbooks before it imports anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.execution.warm.far.needs import Needs, find

_ROOT = Path(__file__).parents[4]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def collections(tmp_path: Path) -> Path:
    """Give a collection path with the collection `acme.tools`."""
    plugins = tmp_path / "collections/ansible_collections/acme/tools/plugins"
    _write(plugins / "modules/turn.py", "from ..module_utils.gears import Gear\nfrom ..module_utils import teeth\n")
    _write(plugins / "modules/plain.py", "import json\n")
    _write(plugins / "modules/new_name.py", "from ..module_utils.old_gears import Gear\n")
    _write(plugins / "lookup/wheel.py", "import yaml.nodes\nfrom ..module_utils import teeth\n")
    _write(plugins / "lookup/spoke.py", "import jinja2.nodes\n")
    _write(plugins / "module_utils/__init__.py", "")
    _write(plugins / "module_utils/gears/__init__.py", "from . import inner\n")
    _write(
        plugins / "module_utils/gears/inner.py", "try:\n    import yaml.nodes\nexcept ImportError:\n    yaml = None\n"
    )
    _write(plugins / "module_utils/teeth.py", "def use():\n    from ansible.module_utils.six.moves import urllib\n")
    _write(plugins.parent / "roles/machine/tasks/main.yml", "- plain:\n")
    _write(
        plugins.parent / "meta/runtime.yml",
        "plugin_routing:\n"
        "  modules:\n    old_name: {redirect: acme.tools.new_name}\n    gone: {tombstone: {removal_version: 1.0.0}}\n"
        "  module_utils:\n    old_gears: {redirect: acme.tools.gears}\n",
    )
    return tmp_path / "collections"


def _of_tasks(tasks: str, *, folder: Path, collections: Path | None = None) -> Needs:
    _write(folder / "roles/one/tasks/main.yml", tasks)
    path = [str(collections)] if collections else []
    return find(roles=[str(folder / "roles/one")], playbooks=[], collections_path=path)


def test_full_names_are_found_in_tasks_blocks_and_handlers(tmp_path: Path, collections: Path) -> None:
    """Modules named in blocks, rescues and handlers are found."""
    _write(tmp_path / "roles/one/handlers/main.yml", "- name: Later\n  ansible.builtin.ping:\n")
    block = "- block:\n    - acme.tools.turn: {}\n  rescue:\n    - block:\n        - ansible.builtin.find: {}\n"
    needs = _of_tasks(block, folder=tmp_path, collections=collections)
    assert {"acme.tools.turn", "ansible.builtin.find", "ansible.builtin.ping"} <= set(needs.modules)


def test_every_task_file_of_a_role_counts(tmp_path: Path) -> None:
    """A task file that is only included by a templated name is read too."""
    _write(tmp_path / "roles/one/tasks/states/absent.yaml", "- ansible.builtin.find: {}\n")
    needs = _of_tasks("- include_tasks: 'states/{{ state }}.yaml'\n", folder=tmp_path)
    assert "ansible.builtin.find" in needs.modules


def test_includes_outside_the_role_are_followed(tmp_path: Path) -> None:
    """A literal include of a file outside tasks/ is followed, and what that includes."""
    _write(tmp_path / "common/first.yml", "- ansible.builtin.import_tasks: second.yml\n")
    _write(tmp_path / "common/second.yml", "- find: {}\n")
    needs = _of_tasks("- include_tasks:\n    file: ../../../common/first.yml\n", folder=tmp_path)
    assert "ansible.builtin.find" in needs.modules


def test_other_roles_are_followed(tmp_path: Path, collections: Path) -> None:
    """Roles that are included, are dependencies or belong to a collection are read."""
    _write(tmp_path / "roles/two/tasks/main.yml", "- find: {}\n")
    _write(tmp_path / "roles/three/tasks/main.yml", "- ping: {}\n")
    _write(tmp_path / "roles/one/meta/main.yml", "dependencies:\n  - role: three\n")
    tasks = "- include_role:\n    name: two\n- import_role: {name: acme.tools.machine}\n"
    needs = _of_tasks(tasks, folder=tmp_path, collections=collections)
    assert {"ansible.builtin.find", "ansible.builtin.ping", "acme.tools.plain"} <= set(needs.modules)


def test_roles_that_include_each_other_end(tmp_path: Path) -> None:
    """Two roles that include each other are each read once."""
    _write(tmp_path / "roles/two/tasks/main.yml", "- include_role: {name: one}\n- ping: {}\n")
    assert "ansible.builtin.ping" in _of_tasks("- include_role: {name: two}\n", folder=tmp_path).modules


def test_playbooks_are_read_with_their_roles(tmp_path: Path, collections: Path) -> None:
    """Tasks, roles and imported playbooks of a playbook are read; roles are searched in the roles path as well."""
    _write(tmp_path / "elsewhere/far/tasks/main.yml", "- ping: {}\n")
    _write(tmp_path / "more.yml", "- hosts: localhost\n  post_tasks:\n    - find: {}\n")
    playbook = _write(
        tmp_path / "play.yml",
        "- import_playbook: more.yml\n"
        "- hosts: localhost\n  collections: [acme.tools]\n  roles: [far]\n  tasks:\n    - turn: {}\n",
    )
    needs = find(
        roles=[],
        playbooks=[str(playbook)],
        roles_path=[str(tmp_path / "elsewhere")],
        collections_path=[str(collections)],
    )
    assert {"ansible.builtin.ping", "ansible.builtin.find", "acme.tools.turn"} <= set(needs.modules)


@pytest.mark.parametrize("task", ["- action: find paths=/x", "- local_action: {module: find, paths: /x}"])
def test_old_ways_to_name_an_action_are_known(tmp_path: Path, task: str) -> None:
    """`action` and `local_action` name a module in a text or in a mapping."""
    assert "ansible.builtin.find" in _of_tasks(f"{task}\n", folder=tmp_path).modules


def test_the_keyword_collections_is_looked_up_first(tmp_path: Path, collections: Path) -> None:
    """A short name is that of a collection of the role's meta/main.yml where it has one."""
    _write(tmp_path / "roles/one/meta/main.yml", "collections: [acme.tools]\n")
    assert "acme.tools.turn" in _of_tasks("- turn: {}\n", folder=tmp_path, collections=collections).modules


def test_modules_beside_the_role_are_read_for_their_imports(tmp_path: Path) -> None:
    """A module in library/ is found, with the imports that it has through module_utils/ beside the role."""
    _write(tmp_path / "roles/one/library/mine.py", "from ansible.module_utils.ours import x\n")
    _write(tmp_path / "roles/one/module_utils/ours.py", "import yaml\nimport ansible.module_utils.urls\n")
    needs = _of_tasks("- mine: {}\n", folder=tmp_path)
    assert "mine" in needs.modules
    assert "yaml" in needs.libraries
    assert "ansible.module_utils.urls" in needs.utilities
    assert "ansible.module_utils.ours" not in needs.utilities


def test_redirects_are_followed(tmp_path: Path, collections: Path) -> None:
    """A module and a module utility that were renamed are found under their new names."""
    tasks = "- acme.tools.old_name: {}\n- acme.tools.gone: {}\n"
    needs = _of_tasks(tasks, folder=tmp_path, collections=collections)
    assert "acme.tools.new_name" in needs.modules
    assert "acme.tools.gone" not in needs.modules
    assert "ansible_collections.acme.tools.plugins.module_utils.gears" in needs.utilities


def test_imports_are_followed_through_utilities(tmp_path: Path, collections: Path) -> None:
    """Relative imports, imports in functions and in `try` are followed; libraries come with their dotted parts."""
    needs = _of_tasks("- acme.tools.turn: {}\n", folder=tmp_path, collections=collections)
    below = "ansible_collections.acme.tools.plugins.module_utils"
    assert {f"{below}.gears", f"{below}.gears.inner", f"{below}.teeth"} <= set(needs.utilities)
    assert "ansible.module_utils.six" in needs.utilities
    assert {"yaml", "yaml.nodes"} <= set(needs.libraries)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tasks/main.yml", "- debug: {msg: \"{{ lookup('acme.tools.wheel', 'x') }}\"}\n"),
        ("vars/main.yaml", 'one: "{{ q(\\"acme.tools.wheel\\", 1) }}"\n'),
        ("defaults/main.yml", "one: \"{{ query( 'acme.tools.wheel') }}\"\n"),
        ("templates/deep/one.j2", 'a {{ lookup("acme.tools.wheel") }} b'),
        ("tasks/other.yml", "- debug:\n  with_acme.tools.wheel: [1]\n"),
    ],
)
def test_lookups_of_collections_are_found_wherever_a_role_names_them(
    path: str, text: str, tmp_path: Path, collections: Path
) -> None:
    """What a named lookup imports is what Ansible's own processes need, and no module does."""
    _write(tmp_path / "roles/one" / path, text)
    if path != "tasks/main.yml":
        _write(tmp_path / "roles/one/tasks/main.yml", "- ping:\n")
    needs = find(roles=[str(tmp_path / "roles/one")], playbooks=[], collections_path=[str(collections)])
    assert {"yaml", "yaml.nodes"} <= set(needs.controller)
    assert "jinja2" not in needs.controller
    assert "yaml" not in needs.libraries


def test_lookups_in_playbooks_and_in_roles_that_they_name_are_found(tmp_path: Path, collections: Path) -> None:
    """A playbook's own templates count, and those of its roles; builtin lookups and unknown ones are passed over."""
    _write(tmp_path / "roles/one/vars/main.yml", "one: \"{{ lookup('acme.tools.spoke') }}\"\n")
    lookups = "{{ lookup('acme.tools.wheel') + lookup('ansible.builtin.env', 'A') + lookup('acme.tools.none') }}"
    playbook = _write(tmp_path / "play.yml", f'- hosts: all\n  roles: [one]\n  vars: {{a: "{lookups}"}}\n')
    needs = find(
        roles=[],
        playbooks=[str(playbook)],
        roles_path=[str(tmp_path / "roles")],
        collections_path=[str(collections)],
    )
    assert {"yaml", "jinja2"} <= set(needs.controller)


def test_what_is_no_file_is_not_opened_for_lookups(tmp_path: Path, collections: Path) -> None:
    """A pipe, a folder and a broken link with the name of a task file are passed over."""
    role = _write(tmp_path / "roles/one/vars/main.yml", "one: \"{{ lookup('acme.tools.wheel') }}\"\n").parents[1]
    os.mkfifo(role / "pipe.yml")
    (role / "folder.yml").mkdir()
    (role / "broken.yml").symlink_to(role / "nowhere")
    needs = find(roles=[str(role)], playbooks=[], collections_path=[str(collections)])
    assert "yaml" in needs.controller


def test_what_is_not_installed_or_standard_is_no_library(tmp_path: Path) -> None:
    """Only installed third-party modules are libraries."""
    _write(tmp_path / "roles/one/library/mine.py", "import json\nimport no_such_library_anywhere\n")
    libraries = _of_tasks("- mine: {}\n", folder=tmp_path).libraries
    assert "json" not in libraries
    assert "no_such_library_anywhere" not in libraries


def test_action_plugins_add_the_modules_that_they_run(tmp_path: Path) -> None:
    """`template` is an action plugin: the module that does its work is found."""
    assert "ansible.builtin.copy" in _of_tasks("- template: {}\n", folder=tmp_path).modules
    assert "ansible.builtin.slurp" in _of_tasks("- fetch: {}\n", folder=tmp_path).modules


def test_what_every_play_may_use_is_there() -> None:
    """Without any content, facts and the smallest modules are prepared, with what each payload has."""
    needs = find(roles=[], playbooks=[], roles_path=[], collections_path=[])
    assert {"ansible.builtin.setup", "ansible.builtin.command", "ansible.builtin.stat"} <= set(needs.modules)
    assert {
        "ansible.module_utils.basic",
        "ansible.module_utils.common",
        "ansible.module_utils.facts.system.user",
    } <= set(needs.utilities)


def test_custom_tags_are_read_as_plain_values(tmp_path: Path) -> None:
    """Encrypted and unsafe values in a task file are no obstacle."""
    tasks = "- find:\n    paths: !unsafe '{{ x }}'\n    patterns: !vault |\n      $ANSIBLE_VAULT;1.1;AES256\n      61\n"
    assert "ansible.builtin.find" in _of_tasks(tasks, folder=tmp_path).modules


@pytest.mark.parametrize(
    "text", ["{ broken", "- 1\n- null\n- [x]\n", "a: b", "- ? {a: b}\n  : 1\n", "- include_role: {name: [1]}\n", "\x00"]
)
def test_what_cannot_be_read_is_passed_over(tmp_path: Path, text: str) -> None:
    """Broken files and odd values take nothing away from what else is found."""
    _write(tmp_path / "roles/one/tasks/odd.yml", text)
    _write(tmp_path / "roles/one/library/broken.py", "def (:\n")
    needs = _of_tasks("- broken: {}\n- find: {}\n", folder=tmp_path)
    assert "ansible.builtin.find" in needs.modules


def test_missing_content_is_passed_over(tmp_path: Path) -> None:
    """Roles, playbooks and collection paths that aren't there leave what every play may use."""
    gone = str(tmp_path / "gone")
    needs = find(roles=[gone], playbooks=[gone], roles_path=[gone], collections_path=[gone])
    assert needs == find(roles=[], playbooks=[], roles_path=[], collections_path=[])


def test_the_bundled_role_is_covered() -> None:
    """The EC2Instance role needs its own modules, our status module, the AWS and the Kubernetes library."""
    collections = str(_ROOT / "runner/collections")
    needs = find(roles=[str(_ROOT / "roles/ec2_instance")], playbooks=[], collections_path=[collections])
    assert {"aws_operator.core.ec2_describe", "operator_sdk.util.k8s_status", "kubernetes.core.k8s_info"} <= set(
        needs.modules
    )
    assert {"boto3", "botocore", "kubernetes", "kubernetes.dynamic"} <= set(needs.libraries)
    assert "ansible_collections.kubernetes.core.plugins.module_utils.k8s.client" in needs.utilities


def test_ansible_and_the_libraries_are_not_imported() -> None:
    """Finding imports neither ansible nor a library: the module server is forked before that."""
    code = (
        "import sys; from runner.execution.warm.far.needs import find; "
        "find(roles=['roles/ec2_instance'], playbooks=[], collections_path=['runner/collections']); "
        "print([name for name in ('ansible', 'kubernetes', 'boto3', 'botocore') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
