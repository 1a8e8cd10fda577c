"""`make manifests`: RBAC and kustomizations that follow from the watches and the CRDs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import manifests

WATCHES = """
- group: aws.example.com
  version: v1
  kind: Mouse
  role: mouse
  watchDependentStatus:
    - {group: "", version: v1, kind: Node, fields: [conditions]}
- version: v1
  kind: NetworkPolicy
  group: networking.k8s.io
  role: policy
"""
CRD = """
kind: CustomResourceDefinition
spec:
  group: aws.example.com
  names: {kind: Mouse, plural: mice}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with two watches, one CRD and an extra rule."""
    for folder in ("crds", "config/rbac", "config/samples"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "watches.yaml").write_text(WATCHES)
    (tmp_path / "crds" / "mouse.yaml").write_text(CRD)
    (tmp_path / "config" / "samples" / "b.yaml").write_text("{}")
    (tmp_path / "config" / "samples" / "a.yaml").write_text("{}")
    (tmp_path / "config" / "rbac" / "extra_rules.yaml").write_text(
        "- {apiGroups: [apps], resources: [deployments], verbs: [get, create]}\n"
    )
    return tmp_path


def rules(tree: Path) -> dict[tuple[str, str], list[str]]:
    """Return the verbs of the generated ClusterRole by group and resource."""
    role: dict[str, Any] = next(yaml.safe_load_all(manifests.role(tree)))
    return {(rule["apiGroups"][0], rule["resources"][0]): rule["verbs"] for rule in role["rules"]}


def test_each_watch_grants_its_kind_status_and_finalizers(tree: Path) -> None:
    """The plural comes from the CRD, and no verb is granted that the runtime doesn't use on a primary."""
    found = rules(tree)
    assert found["aws.example.com", "mice"] == ["get", "list", "watch", "patch"]
    assert found["aws.example.com", "mice/status"] == ["get", "patch", "update"]
    assert found["aws.example.com", "mice/finalizers"] == ["update"]


def test_kinds_of_kubernetes_itself_get_their_plural_by_its_rule(tree: Path) -> None:
    """A watch on a built-in kind needs no CRD in the tree."""
    assert ("networking.k8s.io", "networkpolicies") in rules(tree)


def test_a_kind_whose_status_is_only_looked_at_is_only_read(tree: Path) -> None:
    """A watchDependentStatus grants get, list and watch."""
    assert rules(tree)["", "nodes"] == ["get", "list", "watch"]


def test_what_people_wrote_for_the_roles_is_added(tree: Path) -> None:
    """extra_rules.yaml is part of the role as it stands."""
    assert rules(tree)["apps", "deployments"] == ["get", "create"]


def test_nothing_is_granted_by_a_star(tree: Path) -> None:
    """A rule that grants everything is refused by name of its file, and none is generated."""
    assert "*" not in manifests.role(tree)
    path = tree / "config" / "rbac" / "extra_rules.yaml"
    path.write_text("- {apiGroups: ['*'], resources: [pods], verbs: [get]}\n")
    with pytest.raises(manifests.ManifestError, match=r"extra_rules\.yaml.*name what the roles need"):
        manifests.role(tree)


def test_leases_are_granted_in_one_namespace_only(tree: Path) -> None:
    """Leader election is a Role, as a ClusterRole would open the control plane's own leases."""
    cluster, lease = yaml.safe_load_all(manifests.role(tree))
    assert lease["kind"] == "Role"
    assert lease["rules"][0]["resources"] == ["leases"]
    assert "leases" not in str(cluster)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("watches.yaml", "{}", "watches.yaml: not a list"),
        ("watches.yaml", "- {group: other.example.com, version: v1, kind: Cat}", "entry 1.*crds/ defines Cat"),
        ("watches.yaml", "- [", "no valid YAML"),
        ("config/rbac/extra_rules.yaml", "- {apiGroups: [apps]}", "a rule needs"),
    ],
)
def test_a_wrong_input_is_named(tree: Path, name: str, text: str, said: str) -> None:
    """The error tells the file, the place and the remedy."""
    (tree / name).write_text(text)
    with pytest.raises(manifests.ManifestError, match=said):
        manifests.generate(tree)


def test_check_fails_until_written_and_after_a_change(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stale files are named; writing makes them fresh; a new manifest makes the list stale again."""
    check, write = ["--check", "--root", str(tree)], ["--root", str(tree)]
    assert manifests.main(check) == 1
    assert "config/rbac/role.yaml:1: stale" in capsys.readouterr().out
    assert not (tree / "config" / "rbac" / "role.yaml").exists()
    assert manifests.main(write) == 0
    assert manifests.main(check) == 0
    (tree / "config" / "samples" / "c.yaml").write_text("{}")
    assert manifests.main(check) == 1


def test_a_kustomization_lists_every_manifest_in_order_and_not_itself(tree: Path) -> None:
    """What stands in the folder is what gets applied."""
    manifests.main(["--root", str(tree)])
    manifests.main(["--root", str(tree)])
    listed = yaml.safe_load((tree / "config" / "samples" / "kustomization.yaml").read_text())
    assert listed["resources"] == ["a.yaml", "b.yaml"]
