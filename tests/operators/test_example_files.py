"""Each folder of `examples/` is a complete operator, and its files agree with each other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.settings import Settings
from runner.watches.loader import load_watches
from runner.watches.model import Watch

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir())
DEPENDENTS = {"create", "get", "list", "patch", "watch"}
"""What a role does with what it makes, and the runtime to follow it."""

BEYOND: dict[str, dict[tuple[str, str], set[str]]] = {
    "02-myapp": {
        ("policy", "poddisruptionbudgets"): DEPENDENTS | {"delete"},
        ("batch", "jobs"): {"list"},
        ("", "pods"): {"get", "list", "delete"},
        ("", "nodes"): {"list"},
        ("", "events"): {"create", "get", "patch"},
    }
}
"""What an example's own tasks do beyond that."""

every = pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the YAML documents of a file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def watches(folder: Path) -> tuple[Watch, ...]:
    """Return what the operator of *folder* watches."""
    return tuple(load_watches(folder / "watches.yaml", settings=Settings(), environ={}, cwd=folder).watches)


def definition(folder: Path) -> dict[str, Any]:
    """Return the spec of the only CustomResourceDefinition."""
    (path,) = (folder / "crds").glob("*.yaml")
    (document,) = documents(path)
    spec: dict[str, Any] = document["spec"]
    return spec


def granted(folder: Path) -> dict[tuple[str, str], set[str]]:
    """Return the verbs that the operator is granted, by group and resource."""
    (role,) = documents(folder / "config/rbac/role.yaml")
    return {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@every
def test_an_example_watches_the_kind_that_it_defines(folder: Path) -> None:
    """The loader takes watches.yaml; its kind is that of crds/; nothing in a spec is a template."""
    (watch,) = watches(folder)
    spec = definition(folder)
    assert (watch.gvk.group, watch.gvk.kind) == (spec["group"], spec["names"]["kind"])
    assert [version["name"] for version in spec["versions"]] == [watch.gvk.version]
    assert watch.mark_unsafe
    assert watch.manage_status


@every
def test_an_example_follows_fields_of_its_dependents_status(folder: Path) -> None:
    """What the phase is computed from starts a run when it changes: each field of `*_seen` is followed."""
    (watch,) = watches(folder)
    followed = {name for entry in watch.watch_dependent_status for name in entry.fields}
    (variables,) = folder.glob("roles/*/vars/main.yml")
    used = {f"status.{name}" for name in re.findall(r"_seen\.(\w+)", variables.read_text())}
    assert used == followed


@every
def test_an_example_is_granted_what_it_needs_by_name(folder: Path) -> None:
    """No star, and no deletion that isn't listed: its kind is read, its status written, dependents are kept."""
    (watch,) = watches(folder)
    plural = definition(folder)["names"]["plural"]
    rules = granted(folder)
    assert rules.pop((watch.gvk.group, plural)) == {"get", "list", "watch"}
    assert rules.pop((watch.gvk.group, f"{plural}/status")) == {"patch", "update"}
    assert rules.pop((watch.gvk.group, f"{plural}/finalizers")) == {"update"}
    beyond = {("", "events"): {"create", "patch"}, **BEYOND.get(folder.name, {})}
    assert {key: rules.pop(key) for key in beyond} == beyond
    assert rules
    assert all(verbs == DEPENDENTS for verbs in rules.values())
    assert not [key for key in rules if "*" in key]


@every
def test_an_examples_image_takes_what_is_there(folder: Path) -> None:
    """The Dockerfile builds on the base image, and copies watches.yaml and roles/ from the folder."""
    lines = [shlex.split(line, comments=True) for line in (folder / "Dockerfile").read_text().splitlines()]
    instructions = [line for line in lines if line]
    assert instructions[0] == ["FROM", "ansible-operator:latest"]
    copied = [line[-2] for line in instructions if line[0] == "COPY"]
    assert copied == ["watches.yaml", "roles/"]
    assert all((folder / source).exists() for source in copied)


@every
def test_an_example_deploys_each_of_its_manifests(folder: Path) -> None:
    """kustomization.yaml lists all but the samples, and the binding gives the role to the Deployment's account."""
    listed = documents(folder / "kustomization.yaml")[0]["resources"]
    there = [*(folder / "crds").glob("*.yaml"), *(folder / "config").glob("[!s]*/*.yaml")]
    assert sorted(listed) == sorted(str(path.relative_to(folder)) for path in there)
    found = {document["kind"]: document for name in listed for document in documents(folder / name)}
    account, deployment = found["ServiceAccount"]["metadata"], found["Deployment"]
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]
    assert deployment["metadata"]["namespace"] == account["namespace"] == found["Namespace"]["metadata"]["name"]
    assert found["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert found["ClusterRoleBinding"]["roleRef"]["name"] == found["ClusterRole"]["metadata"]["name"]


@every
def test_an_examples_role_is_a_list_of_named_includes(folder: Path) -> None:
    """main.yml includes each other file of tasks once, each under a name."""
    (main,) = folder.glob("roles/*/tasks/main.yml")
    tasks: list[dict[str, str]] = yaml.safe_load(main.read_text())
    assert all(set(task) == {"name", "ansible.builtin.include_tasks"} for task in tasks)
    included = [task["ansible.builtin.include_tasks"] for task in tasks]
    assert sorted(included) == sorted(path.name for path in main.parent.glob("*.yml") if path != main)


@every
def test_the_list_of_examples_names_each(folder: Path) -> None:
    """examples/README.md links to each folder's README, which tells how to run, break and delete it."""
    assert f"]({folder.name}/README.md)" in (ROOT / "examples/README.md").read_text()
    text = (folder / "README.md").read_text()
    for command in ("dev up", "apply -f crds", "ansible-operator run", "apply -f config/samples", "delete"):
        assert command in text, command
