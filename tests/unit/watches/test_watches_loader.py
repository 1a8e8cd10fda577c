"""watches.yaml to frozen values: defaults, spellings, types that are accepted, notes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from runner.kube.objects import GVK
from runner.settings import Settings
from runner.watches.loader import load_watches
from runner.watches.model import Content, Finalizer, Watch
from runner.watches.problems import WatchesError
from tests.unit.watches.conftest import Project

MINIMAL = "- version: v1\n  kind: Web\n  role: web\n"


def test_a_minimal_entry_gets_every_default_of_the_peer(project: Project) -> None:
    """Group empty, status managed, dependents watched, names snake-cased, 20 artifacts, the flags' numbers."""
    assert project.one(MINIMAL) == Watch(
        gvk=GVK("", "v1", "Web"),
        content=Content(role=project.folder / "roles/web"),
        vars={},
        reconcile_period=None,
        manage_status=True,
        watch_dependent_resources=True,
        watch_cluster_scoped_resources=False,
        watch_annotations_changes=False,
        snake_case_parameters=True,
        mark_unsafe=False,
        max_runner_artifacts=20,
        blacklist=(),
        selector=(),
        finalizer=None,
        max_concurrent_reconciles=4,
        ansible_verbosity=2,
        executor="",
        run_timeout=timedelta(),
        watch_dependent_status=(),
        handlers=None,
    )


def test_a_full_entry_sets_every_field(project: Project) -> None:
    """Each key of the contract reaches its field."""
    project.add("roles/bye")
    text = """
- group: test.io
  version: v1
  kind: Web
  playbook: play.yml
  vars: {state: present, deep: {a: [1, 2.5, yes, null, x]}}
  maxRunnerArtifacts: 3
  reconcilePeriod: 1m30s
  manageStatus: no
  watchDependentResources: off
  watchClusterScopedResources: on
  snakeCaseParameters: False
  watchAnnotationsChanges: y
  markUnsafe: yes
  blacklist:
    - {group: apps, version: v1, kind: ReplicaSet}
    - {version: v1, kind: Pod}
  finalizer:
    name: test.io/bye
    role: bye
    vars: {state: absent}
"""

    assert project.one(text) == Watch(
        gvk=GVK("test.io", "v1", "Web"),
        content=Content(playbook=project.folder / "play.yml"),
        vars={"state": "present", "deep": {"a": [1, 2.5, True, None, "x"]}},
        reconcile_period=timedelta(seconds=90),
        manage_status=False,
        watch_dependent_resources=False,
        watch_cluster_scoped_resources=True,
        watch_annotations_changes=True,
        snake_case_parameters=False,
        mark_unsafe=True,
        max_runner_artifacts=3,
        blacklist=(GVK("apps", "v1", "ReplicaSet"), GVK("", "v1", "Pod")),
        finalizer=Finalizer(
            name="test.io/bye", content=Content(role=project.folder / "roles/bye"), vars={"state": "absent"}
        ),
        max_concurrent_reconciles=4,
    )


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "---\n", "null\n", "[]\n"])
def test_an_empty_file_is_valid_and_has_no_watches(project: Project, text: str) -> None:
    """An operator without watches starts."""
    assert project.load(text).watches == ()


def test_keys_match_without_regard_to_case_and_the_exact_spelling_wins(project: Project) -> None:
    """`VERSION` works, `version` beside it goes first."""
    text = "- VERSION: v2\n  version: v1\n  Kind: Web\n  ROLE: web\n  managestatus: no\n  Version: v3\n"

    watch = project.one(text)

    assert watch.gvk == GVK("", "v1", "Web")
    assert not watch.manage_status


def test_nested_keys_match_without_regard_to_case_too(project: Project) -> None:
    """Finalizer, selector and blacklist are read in the same way as their entry."""
    text = (
        f"{MINIMAL}  FINALIZER: {{NAME: a/b, Vars: {{x: 1}}}}\n  Selector: {{matchlabels: {{a: b}}}}\n"
        "  blackList: [{VERSION: v1, Kind: Pod}]\n"
    )
    watch = project.one(text)

    assert watch.finalizer == Finalizer(name="a/b", vars={"x": 1})
    assert [requirement.key for requirement in watch.selector] == ["a"]
    assert watch.blacklist == (GVK("", "v1", "Pod"),)


def test_scalars_become_text_where_text_is_wanted(project: Project) -> None:
    """`version: 1` is the version "1", `kind: yes` is what YAML made of it, with a note."""
    loaded = project.load("- {version: 1, kind: yes, role: web}\n- {version: 1.10, kind: Web, role: web}\n")

    assert [watch.gvk for watch in loaded.watches] == [GVK("", "1", "true"), GVK("", "1.1", "Web")]
    assert loaded.notes == (
        'line 1: kind yes is read as "true"; quote it to keep it',
        'line 2: version 1.10 is read as "1.1"; quote it to keep it',
    )


def test_null_means_unset(project: Project) -> None:
    """A key without a value is as if it were not there."""
    text = "- group:\n  version: v1\n  kind: Web\n  role: web\n  vars:\n  manageStatus: ~\n  finalizer:\n  selector:\n"

    assert project.one(text) == project.one(MINIMAL)


@pytest.mark.parametrize(
    ("written", "kept"), [("0", 20), ("1", 1), ("5.0", 5), ("1e1", 10), ("0x10", 16), ("-1", 0), ("null", 20)]
)
def test_the_number_of_kept_artifacts_is_read_as_in_the_peer(project: Project, written: str, kept: int) -> None:
    """0 is the default of 20; a negative number keeps all, which the model writes as 0."""
    assert project.one(f"{MINIMAL}  maxRunnerArtifacts: {written}\n").max_runner_artifacts == kept


@pytest.mark.parametrize("written", ["9223372036854775808", "9" * 400, "-1e19", "1e300"])
def test_more_artifacts_than_64_bits_can_say_are_refused(project: Project, written: str) -> None:
    """A number that Go's int cannot hold is an error of the file like any other."""
    with pytest.raises(WatchesError, match="field maxRunnerArtifacts: must fit in 64 bits; write a smaller number"):
        project.load(f"{MINIMAL}  maxRunnerArtifacts: {written}\n")


@pytest.mark.parametrize(
    ("written", "period"),
    [("3s", timedelta(seconds=3)), ("0s", timedelta()), ('"0"', timedelta()), ("-5m", timedelta())],
)
def test_a_reconcile_period_of_zero_in_the_file_means_never(project: Project, written: str, period: timedelta) -> None:
    """Zero and negative periods are zero, and not the flag's period as in the peer (field case Q2)."""
    assert project.one(f"{MINIMAL}  reconcilePeriod: {written}\n").reconcile_period == period


def test_unknown_keys_are_ignored_and_noted_with_their_line(project: Project) -> None:
    """Typos do not stop an operator, but its log shows them."""
    text = """
- version: v1
  kind: Web
  role: web
  maxWorkers: 3
  ansibleVerbosity: 3
  finalizer: {name: a/b, vars: {x: 1}, Rolle: x}
  blacklist: [{kind: Pod, apiVersion: v1}]
  selector: {matchLabel: {a: b}}
"""

    assert project.load(text).notes == (
        (
            "line 5: unknown key maxWorkers is ignored; set --max-concurrent-reconciles or the variable "
            "MAX_CONCURRENT_RECONCILES_<KIND>_<GROUP>"
        ),
        (
            "line 6: unknown key ansibleVerbosity is ignored; set --ansible-verbosity or the variable "
            "ANSIBLE_VERBOSITY_<KIND>_<GROUP>"
        ),
        "line 8: unknown key blacklist.apiVersion is ignored; did you mean blacklist.version?",
        "line 8: the entry of blacklist (/, Kind=Pod) matches nothing; add its version",
        "line 9: unknown key selector.matchLabel is ignored; did you mean selector.matchLabels?",
        "line 7: unknown key finalizer.Rolle is ignored; did you mean finalizer.role?",
    )


def test_only_the_first_document_is_read(project: Project) -> None:
    """What follows `---` is noted, as the peer ignores it in silence."""
    loaded = project.load(f"{MINIMAL}---\n- {{version: v2, kind: Web, role: web}}\n")

    assert [watch.gvk.version for watch in loaded.watches] == ["v1"]
    assert loaded.notes == ("line 5: only the first YAML document is read, this one is ignored",)


def test_the_environment_is_expanded_before_the_text_is_yaml(project: Project) -> None:
    """A variable may hold a key, a value of any type, or several lines."""
    text = "- version: v1\n  kind: ${KIND}\n  role: web\n  $KEY: $VALUE\n  ${REST}\n"
    environ = {"KIND": "Web", "KEY": "manageStatus", "VALUE": "false", "REST": "vars:\n    a: 1"}

    watch = project.one(text, environ=environ)

    assert watch.gvk.kind == "Web"
    assert not watch.manage_status
    assert watch.vars == {"a": 1}


def test_the_flags_overwrite_what_the_file_sees_of_the_environment(project: Project) -> None:
    """`--ansible-roles-path` sets ANSIBLE_ROLES_PATH before the file is read."""
    settings = Settings()
    flagged = Settings(execution=type(settings.execution)(roles_path="/from/flag"))
    text = f"{MINIMAL}  vars: {{path: $ANSIBLE_ROLES_PATH}}\n"

    watch = project.one(text, environ={"ANSIBLE_ROLES_PATH": "/from/env"}, settings=flagged)

    assert watch.vars == {"path": "/from/flag"}


def test_vars_keep_their_names_their_jinja_and_their_precedence_marks(project: Project) -> None:
    """Nothing in `vars` is converted: the author may use Jinja and any name (field case P5)."""
    text = f"{MINIMAL}  vars: {{camelCase: '{{{{ x }}}}', state: present}}\n"

    assert project.one(text).vars == {"camelCase": "{{ x }}", "state": "present"}


def test_watches_keep_the_files_order_and_kinds_may_repeat_in_other_groups_and_versions(project: Project) -> None:
    """Only group, version and kind together must be unique (field case W3)."""
    text = """
- {group: b.io, version: v1, kind: Web, role: web}
- {group: a.io, version: v1, kind: Web, role: web}
- {group: a.io, version: v2, kind: Web, role: web}
"""

    assert [str(watch.gvk) for watch in project.load(text).watches] == [
        "b.io/v1, Kind=Web",
        "a.io/v1, Kind=Web",
        "a.io/v2, Kind=Web",
    ]


def test_anchors_and_merges_spare_repetition(project: Project) -> None:
    """An entry may take the keys of another one."""
    text = "- &base {version: v1, kind: Web, role: web, markUnsafe: true}\n- {<<: *base, kind: Shop}\n"

    watches = project.load(text).watches

    assert [watch.gvk.kind for watch in watches] == ["Web", "Shop"]
    assert all(watch.mark_unsafe for watch in watches)


def test_an_absolute_path_of_the_file_is_taken_as_it_is(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Roles are still looked for from the working directory, not from where the file is."""
    file = tmp_path_factory.mktemp("elsewhere") / "my-watches.yaml"
    file.write_text("\ufeff" + MINIMAL, encoding="utf-8")

    loaded = load_watches(file, settings=Settings(), environ={}, cwd=project.folder)

    assert loaded.watches[0].content == Content(role=project.folder / "roles/web")


def test_loaded_values_are_frozen(project: Project) -> None:
    """Nobody changes a watch after it is loaded."""
    loaded = project.load(MINIMAL)

    with pytest.raises(AttributeError):
        loaded.watches[0].mark_unsafe = True  # type: ignore[misc]
    assert isinstance(loaded.watches, tuple)
    assert loaded.watches[0].content.role == Path(project.folder / "roles/web")
