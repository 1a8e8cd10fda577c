"""The peer's own list of watches files, good and bad, by what each of them is about."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runner.kube.objects import GVK
from runner.settings import Settings
from runner.watches.model import Content, LabelRequirement
from runner.watches.problems import WatchesError
from tests.unit.watches.conftest import Project

HEAD = "- version: v1alpha1\n  group: app.example.com\n  kind: Database\n"
ENTRY = f"{HEAD}  playbook: play.yml\n"
FULL = [
    "kind: NoFinalizer, playbook: play.yml, reconcilePeriod: 2s",
    "kind: WithUnsafeMarked, playbook: play.yml, markUnsafe: True",
    "kind: Playbook, playbook: play.yml, finalizer: {name: a.io/f, role: web, vars: {sentinel: running}}",
    "kind: WatchClusterScoped, playbook: play.yml, watchClusterScopedResources: true",
    "kind: NoReconcile, playbook: play.yml, reconcilePeriod: 0s",
    "kind: DisableStatus, playbook: play.yml, manageStatus: False",
    "kind: Role, role: web, finalizer: {name: a.io/f, playbook: play.yml, vars: {sentinel: running}}",
    "kind: FinalizerRole, role: web, finalizer: {name: a.io/f, vars: {sentinel: running}}",
    "kind: MaxConcurrentReconcilesIgnored, role: web, maxWorkers: 5",
    "kind: MaxConcurrentReconcilesEnv, role: web",
    "kind: AnsibleVerbosityIgnored, role: web, ansibleVerbosity: 5",
    "kind: AnsibleVerbosityEnv, role: web",
    "kind: WatchWithVars, role: web, vars: {sentinel: reconciling}",
    "kind: AnsibleCollectionEnvTest, role: nameSpace.collection.someRole",
    "kind: Blacklist, role: web, blacklist: [{version: v1.1, group: app.example.com/1, kind: B_1}]",
    "kind: Selector, role: web, selector: {matchLabels: {a: b}, matchExpressions: [{key: k, operator: Exists}]}",
]
"""The entries of its full file."""
FINALIZER = "  finalizer:\n    name: app.example.com/finalizer\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ENTRY * 2, "duplicate GVK: app.example.com/v1alpha1, Kind=Database"),
        ("version: v1alpha1\n  group: app.example.com\n", "not valid YAML"),
        ("invalid file layout\n", "must be a list of watches"),
        (f"{HEAD}  playbook: gone.yml\n", "gone.yml was not found"),
        (f"{HEAD}  role: gone\n", "role: gone was not found"),
        (f"{HEAD}  role: nameSpace.collection.someRole\n", "role: nameSpace.collection.someRole was not found"),
        (f"{ENTRY}{FINALIZER}    playbook: gone.yml\n", "gone.yml was not found"),
        (f"{ENTRY}{FINALIZER}    role: gone\n", "role: gone was not found"),
        (f"{ENTRY}{FINALIZER}", "must specify Role or Playbook"),
        (f"{ENTRY}  finalizer:\n    name:\n    role: web\n", "finalizer must have name"),
        (f"{ENTRY}  reconcilePeriod: invalid\n", 'time: invalid duration "invalid"'),
        (f"{HEAD}  playbook: gone.yml\n  watches: invalid\n", "gone.yml was not found"),
    ],
    ids=[
        "duplicate GVK",
        "broken YAML",
        "no list",
        "playbook's path",
        "role's path",
        "collection not installed",
        "finalizer's playbook",
        "finalizer's role",
        "finalizer without content and vars",
        "finalizer without name",
        "duration",
        "unknown key, missing playbook",
    ],
)
def test_a_file_that_the_peer_refuses_is_refused(project: Project, text: str, sentence: str) -> None:
    """The thirteenth, a file that is not there, is in test_watches_errors.py."""
    with pytest.raises(WatchesError) as caught:
        project.load(text)

    assert sentence in str(caught.value)


@pytest.mark.parametrize("roles_path", ["", "path/invalid:/path/invalid/myroles:."])
def test_the_peers_full_file_is_read_as_there(project: Project, roles_path: str) -> None:
    """Every entry of its list, with and without ANSIBLE_ROLES_PATH."""
    project.add("ansible_collections/nameSpace/collection/roles/someRole")
    text = "".join(f"- {{version: v1alpha1, group: app.example.com, {line}}}\n" for line in FULL)
    environ = {
        "WORKER_MAXCONCURRENTRECONCILESENV_APP_EXAMPLE_COM": "4",
        "ANSIBLE_VERBOSITY_ANSIBLEVERBOSITYENV_APP_EXAMPLE_COM": "4",
        "ANSIBLE_COLLECTIONS_PATH": str(project.folder),
        "ANSIBLE_ROLES_PATH": roles_path,
    }
    settings = Settings(max_concurrent_reconciles=1, ansible_verbosity=2)

    watches = {watch.gvk.kind: watch for watch in project.load(text, environ=environ, settings=settings).watches}

    assert len(watches) == len(FULL)
    play, role = Content(playbook=project.folder / "play.yml"), Content(role=project.folder / "roles/web")
    collection = "ansible_collections/nameSpace/collection/roles/someRole"
    assert {kind: watch.content for kind, watch in watches.items()} == {
        **dict.fromkeys(
            ["NoFinalizer", "WithUnsafeMarked", "Playbook", "WatchClusterScoped", "NoReconcile", "DisableStatus"], play
        ),
        **dict.fromkeys(["Role", "FinalizerRole", "WatchWithVars", "Blacklist", "Selector"], role),
        **dict.fromkeys(["MaxConcurrentReconcilesIgnored", "MaxConcurrentReconcilesEnv"], role),
        **dict.fromkeys(["AnsibleVerbosityIgnored", "AnsibleVerbosityEnv"], role),
        "AnsibleCollectionEnvTest": Content(role=project.folder / collection),
    }
    finalizers = {kind: watch.finalizer.content for kind, watch in watches.items() if watch.finalizer}
    assert finalizers == {"Playbook": role, "Role": play, "FinalizerRole": Content()}
    assert [k for k, watch in watches.items() if watch.mark_unsafe] == ["WithUnsafeMarked"]
    assert [k for k, watch in watches.items() if watch.watch_cluster_scoped_resources] == ["WatchClusterScoped"]
    assert [k for k, watch in watches.items() if not watch.manage_status] == ["DisableStatus"]
    assert {k: w.max_concurrent_reconciles for k, w in watches.items() if w.max_concurrent_reconciles != 1} == {
        "MaxConcurrentReconcilesEnv": 4
    }
    assert {k: w.ansible_verbosity for k, w in watches.items() if w.ansible_verbosity != 2} == {
        "AnsibleVerbosityEnv": 4
    }
    assert watches["NoFinalizer"].reconcile_period == timedelta(seconds=2)
    assert watches["WatchWithVars"].vars == {"sentinel": "reconciling"}
    assert watches["Blacklist"].blacklist == (GVK("app.example.com/1", "v1.1", "B_1"),)
    assert watches["Selector"].selector == (
        LabelRequirement(key="a", operator="In", values=("b",)),
        LabelRequirement(key="k", operator="Exists"),
    )


def test_variables_are_replaced_where_the_peers_test_has_them(project: Project) -> None:
    """Version, path, a label's name and value, an expression's key; what is not set stays."""
    text = """
- version: "${WATCH_VERSION}"
  group: app.example.com
  kind: Shop
  playbook: ${WATCH_PLAYBOOK}
  selector:
    matchLabels: {"${NAME}": "${VALUE}"}
    matchExpressions: [{key: ${KEY}, operator: In, values: [a, b]}]
  vars: {undefined: "${WATCH_UNDEFINED}"}
"""
    environ = {"WATCH_VERSION": "v123", "WATCH_PLAYBOOK": "play.yml", "NAME": "n", "VALUE": "v", "KEY": "k"}

    watch = project.one(text, environ=environ)

    assert watch.gvk == GVK("app.example.com", "v123", "Shop")
    assert watch.selector == (
        LabelRequirement(key="n", operator="In", values=("v",)),
        LabelRequirement(key="k", operator="In", values=("a", "b")),
    )
    assert watch.vars == {"undefined": "${WATCH_UNDEFINED}"}
