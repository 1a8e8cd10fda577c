"""The project of the contract tests: watches.yaml, playbooks, an inventory with a filter, a vault, a collection."""

from __future__ import annotations

import subprocess
from pathlib import Path
from textwrap import dedent

KINDS = (
    "VaultCase",
    "SpellingCase",
    "CollectionCase",
    "FinalizerCase",
    "InventoryCase",
    "RequeueCase",
    "SelectorCase",
    "EnteredCase",
    "AnnotationCase",
)
VAULT_PASSWORD = "vault-password"
SECRET_WORD = "correct horse"

_WATCHES = """
- {version: v1alpha1, group: GROUP, kind: VaultCase, playbook: playbooks/vault.yml}
- {version: v1alpha1, group: GROUP, kind: SpellingCase, playbook: playbooks/spelling.yml, snakeCaseParameters: false}
- {version: v1alpha1, group: GROUP, kind: CollectionCase, role: acme.contract.writer}
- version: v1alpha1
  group: GROUP
  kind: FinalizerCase
  playbook: playbooks/does_not_load.yml
  finalizer: {name: GROUP/finalizer, playbook: playbooks/finalize.yml}
- {version: v1alpha1, group: GROUP, kind: InventoryCase, playbook: playbooks/inventory.yml}
- {version: v1alpha1, group: GROUP, kind: RequeueCase, playbook: playbooks/requeue.yml, reconcilePeriod: 0s}
- version: v1alpha1
  group: GROUP
  kind: SelectorCase
  playbook: playbooks/selector.yml
  selector: {matchLabels: {chosen: "true"}}
- version: v1alpha1
  group: GROUP
  kind: AnnotationCase
  playbook: playbooks/annotation.yml
  watchClusterScopedResources: true
- {version: v1alpha1, group: GROUP, kind: EnteredCase, playbook: playbooks/entered.yml, reconcilePeriod: 0s}
- version: v1
  kind: Secret
  playbook: playbooks/secret.yml
  manageStatus: false
  selector:
    matchExpressions: [{key: mirror, operator: Exists}]
"""
_WRITES = """
- hosts: localhost
  gather_facts: false
  collections: [kubernetes.core]
  tasks:
  - k8s:
      definition:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ ansible_operator_meta.name }}", namespace: "{{ ansible_operator_meta.namespace }}"}
        data: DATA
"""
_VAULT = _WRITES.replace(
    "  tasks:\n", "  tasks:\n  - include_vars: {file: '{{ playbook_dir }}/../vaulted.yml', name: opened}\n"
).replace("DATA", '{word: "{{ opened.word }}", core: "{{ ansible_version.full }}"}')
_SPELLING = _WRITES.replace(
    "DATA", "{kept: \"{{ camelCase | default('no') }}\", turned: \"{{ camel_case | default('no') }}\"}"
)
_SELECTOR = _WRITES.replace("DATA", "{hello: world}")
_DOES_NOT_LOAD = """
- hosts: localhost
  tasks:
  - name: Two actions in one task are what Ansible refuses while it loads
    debug: {msg: one}
    command: two
"""
_FINALIZE = """
- hosts: localhost
  gather_facts: false
  tasks:
  - name: Wait for the word
    kubernetes.core.k8s_info:
      api_version: v1
      kind: ConfigMap
      name: finalizer-results
      namespace: "{{ ansible_operator_meta.namespace }}"
    register: found
    until: found.resources | length > 0
    retries: 60
    delay: 1
  - name: Leave a trace
    kubernetes.core.k8s:
      definition:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: finalizer-results, namespace: "{{ ansible_operator_meta.namespace }}"}
        data: {finalizer: done}
"""
_INVENTORY = """
- hosts: chosen
  gather_facts: false
  tasks:
  - name: Write down what only this group knows
    kubernetes.core.k8s:
      definition:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ ansible_operator_meta.name }}", namespace: "{{ ansible_operator_meta.namespace }}"}
        data:
          from_group: "{{ flavour }}"
          filtered: "{{ flavour | backwards }}"
          host: "{{ inventory_hostname }}"
    when: flavour | is_known

- hosts: localhost
  gather_facts: false
  tasks:
  - command: echo hello
  - debug: {msg: "{{ 'hello' | backwards }}"}
"""
_REQUEUE = """
- hosts: localhost
  gather_facts: false
  vars:
    place: {name: "{{ ansible_operator_meta.name }}", namespace: "{{ ansible_operator_meta.namespace }}"}
  tasks:
  - kubernetes.core.k8s_info:
      api_version: v1
      kind: ConfigMap
      name: "{{ place.name }}"
      namespace: "{{ place.namespace }}"
    register: before
  - ansible.builtin.set_fact: {turn: "{{ (before.resources[0].data.turn if before.resources else 0) | int + 1 }}"}
  - operator_sdk.util.requeue_after: {time: 1s}
    when: turn | int < turns
  - kubernetes.core.k8s:
      definition: {apiVersion: v1, kind: ConfigMap, metadata: "{{ place }}", data: {turn: "{{ turn | string }}"}}
"""
_ENTERED = """
- hosts: localhost
  gather_facts: false
  vars:
    pod: {name: "{{ ansible_operator_meta.name }}-pod", namespace: "{{ ansible_operator_meta.namespace }}"}
  tasks:
  - name: Have a Pod that runs
    kubernetes.core.k8s:
      definition:
        apiVersion: v1
        kind: Pod
        metadata: "{{ pod }}"
        spec:
          nodeName: "{{ node_name }}"
          terminationGracePeriodSeconds: 0
          containers: [{name: main, image: simulated}]
      wait: true
      wait_timeout: 120
  - name: Enter it
    kubernetes.core.k8s_exec:
      namespace: "{{ pod.namespace }}"
      pod: "{{ pod.name }}"
      command: "{{ exec_command }}"
    register: entered
  - name: Read what it says
    kubernetes.core.k8s_log: {namespace: "{{ pod.namespace }}", name: "{{ pod.name }}"}
    register: said
  - name: Put both into the status
    operator_sdk.util.k8s_status:
      api_version: "{{ owner_version }}"
      kind: EnteredCase
      name: "{{ ansible_operator_meta.name }}"
      namespace: "{{ pod.namespace }}"
      status: {stdout: "{{ entered.stdout }}", stderr: "{{ entered.stderr }}", log: "{{ said.log }}"}
"""
_SECRET = """
- hosts: localhost
  gather_facts: false
  tasks:
  - name: Mirror what the Secret holds
    kubernetes.core.k8s:
      definition:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ ansible_operator_meta.name }}", namespace: "{{ ansible_operator_meta.namespace }}"}
        data: "{{ {item.key: item.value | b64decode} }}"
    loop: "{{ __secret.data | dict2items }}"
"""
_ANNOTATION = """
- hosts: localhost
  gather_facts: false
  collections: [kubernetes.core]
  tasks:
  - name: Make a namespace
    k8s:
      api_version: v1
      kind: Namespace
      name: "{{ place }}"
      definition: {metadata: {labels: {case: made}}}
  - name: Make an object in it
    k8s:
      definition:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ ansible_operator_meta.name }}", namespace: "{{ place }}"}
        data: {hello: there}
"""
_FILTERS = '''
"""Filters that only ansible.cfg makes known."""


class FilterModule:
    """Two filters."""

    def filters(self):
        """Return them by name."""
        return {"backwards": lambda text: text[::-1], "is_known": lambda text: text in ("vanilla", "mint")}
'''
_PLAYBOOKS = {
    "vault": _VAULT,
    "spelling": _SPELLING,
    "selector": _SELECTOR,
    "does_not_load": _DOES_NOT_LOAD,
    "finalize": _FINALIZE,
    "inventory": _INVENTORY,
    "requeue": _REQUEUE,
    "secret": _SECRET,
    "entered": _ENTERED,
    "annotation": _ANNOTATION,
}


def write_project(folder: Path, *, group: str, bin_dir: Path) -> Path:
    """Write the project into *folder*; the vault is closed with the Ansible in *bin_dir*."""
    files = {
        "watches.yaml": _WATCHES.replace("GROUP", group),
        "ansible.cfg": f"[defaults]\nfilter_plugins = {folder}/plugins/filter\n",
        "plugins/filter/flavours.py": _FILTERS,
        "inventory/hosts": "[chosen]\n127.0.0.1 ansible_connection=local\n\n"
        '[all:vars]\nansible_python_interpreter="{{ ansible_playbook_python }}"\n',
        "inventory/group_vars/chosen.yml": "flavour: vanilla\n",
        VAULT_PASSWORD: "open sesame\n",
        "vaulted.yml": f"word: {SECRET_WORD}\n",
        **{f"playbooks/{name}.yml": text for name, text in _PLAYBOOKS.items()},
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    encrypt = [str(bin_dir / "ansible-vault"), "encrypt", "--vault-password-file", VAULT_PASSWORD, "vaulted.yml"]
    subprocess.run(encrypt, cwd=folder, check=True, capture_output=True)
    return folder


def write_collection(root: Path, *, bin_dir: Path) -> Path:
    """Build the collection `acme.contract`, install it, and return the folder for ANSIBLE_COLLECTIONS_PATH."""
    source, installed = root / "collection", root / "installed"
    tasks = source / "roles/writer/tasks"
    tasks.mkdir(parents=True)
    (source / "README.md").write_text("Written by a test.\n")
    galaxy = "{namespace: acme, name: contract, version: 1.0.0, readme: README.md, authors: [the tests]}\n"
    (source / "galaxy.yml").write_text(galaxy)
    text = """\
        - kubernetes.core.k8s:
            definition:
              apiVersion: v1
              kind: ConfigMap
              metadata: {name: "{{ ansible_operator_meta.name }}", namespace: "{{ ansible_operator_meta.namespace }}"}
              data: {came_from: collection}
    """
    (tasks / "main.yml").write_text(dedent(text))
    galaxy_program = str(bin_dir / "ansible-galaxy")
    for arguments in (
        ["build", str(source), "--output-path", str(root)],
        ["install", str(root / "acme-contract-1.0.0.tar.gz"), "--offline", "-p", str(installed)],
    ):
        subprocess.run([galaxy_program, "collection", *arguments], cwd=root, check=True, capture_output=True)
    return installed
