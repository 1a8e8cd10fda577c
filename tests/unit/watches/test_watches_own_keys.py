"""The keys of an entry that are ours: read, checked, and some noted as without effect so far."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from runner.kube.objects import GVK
from runner.settings import Settings
from runner.watches.loader import load_watches
from runner.watches.model import Content, DependentStatus
from runner.watches.problems import WatchesError
from tests.unit.watches.conftest import Project

MINIMAL = "- version: v1\n  kind: Web\n  role: web\n"
PLACE = "watches.yaml, line 4, entry 1 (/v1, Kind=Web), field "
FIELD_REMEDY = (
    "it must begin with `status.` and have single dots between names; a list item is `[0]` or `[type=Ready]`, "
    "a key with dots `[example.com/gpu]`"
)


def test_our_own_keys_reach_the_watch(project: Project) -> None:
    """What the peer would ignore is read, without a note."""
    project.add("handlers")
    (project.folder / "handlers/web.py").write_text("")
    loaded = project.load(
        f"{MINIMAL}  executor: cold\n  runTimeout: 5m\n  watchDependentStatus:\n"
        "  - {group: apps, version: v1, kind: Deployment, fields: [status.readyReplicas, status.replicas]}\n"
        "  - {version: v1, kind: Pod, fields: [status]}\n  handlers: handlers/web.py\n"
    )

    (watch,) = loaded.watches
    assert (watch.executor, watch.run_timeout) == ("cold", timedelta(minutes=5))
    assert watch.handlers == project.folder / "handlers/web.py"
    assert watch.watch_dependent_status == (
        DependentStatus(gvk=GVK("apps", "v1", "Deployment"), fields=("status.readyReplicas", "status.replicas")),
        DependentStatus(gvk=GVK("", "v1", "Pod"), fields=("status",)),
    )
    assert loaded.notes == ()


def test_handlers_alone_make_an_entry(project: Project) -> None:
    """An entry with handlers needs no role; nothing runs for objects of its kind."""
    (project.folder / "web.py").write_text("")
    loaded = project.load("- version: v1\n  kind: Web\n  handlers: web.py\n")
    assert (loaded.watches[0].content, loaded.watches[0].reconciles) == (Content(), False)


def test_handlers_beside_a_role_leave_it_to_run(project: Project) -> None:
    """An entry with both has runs."""
    (project.folder / "web.py").write_text("")
    (watch,) = project.load(f"{MINIMAL}  handlers: web.py\n").watches
    assert watch.reconciles
    assert watch.content.role == project.folder / "roles/web"


def test_handlers_alone_have_no_finalizer(project: Project) -> None:
    """A finalizer without anything that it could run is refused."""
    (project.folder / "web.py").write_text("")
    with pytest.raises(WatchesError, match="field finalizer: an entry with handlers alone runs nothing"):
        project.load(
            "- version: v1\n  kind: Web\n  handlers: web.py\n  finalizer: {name: example.com/f, vars: {a: b}}\n"
        )


def test_handlers_are_found_beside_the_watches_file(tmp_path: Path) -> None:
    """A relative path starts from the working directory, as a playbook's, else from the folder of the file."""
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "watches.yaml").write_text("- {version: v1, kind: Web, handlers: web.py}\n")
    (folder / "web.py").write_text("")
    loaded = load_watches(Path("etc/watches.yaml"), settings=Settings(), environ={}, cwd=tmp_path)
    assert loaded.watches[0].handlers == folder / "web.py"
    (tmp_path / "web.py").write_text("")
    loaded = load_watches(Path("etc/watches.yaml"), settings=Settings(), environ={}, cwd=tmp_path)
    assert loaded.watches[0].handlers == tmp_path / "web.py"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("executor: hot", 'executor: "hot" is no executor; write cold or warm'),
        ("executor: [warm]", "executor: must be a string, not a list; write it on one line"),
        (
            "runTimeout: 5",
            'runTimeout: must be a string, not the number "5"; write a Go duration such as "30s", "5m" or "1h30m"',
        ),
        (
            "runTimeout: soon",
            'runTimeout: time: invalid duration "soon"; write a Go duration such as "30s", "5m" or "1h30m"',
        ),
        ("runTimeout: -1s", 'runTimeout: must not be negative; write a limit such as "15m", or 0s for none'),
        (
            "watchDependentStatus: {kind: Pod}",
            "watchDependentStatus: must be a list, not a mapping; begin each item with `- `",
        ),
        (
            "watchDependentStatus: [Pod]",
            (
                'watchDependentStatus: must be a mapping, not the string "Pod"; '
                "write its keys (group, version, kind, fields) below it"
            ),
        ),
        (
            "watchDependentStatus: [{kind: Pod, fields: [status]}]",
            "watchDependentStatus.version: must not be empty; add the version of the dependents",
        ),
        (
            "watchDependentStatus: [{version: v1, fields: [status]}]",
            "watchDependentStatus.kind: must not be empty; add the kind of the dependents",
        ),
        (
            "watchDependentStatus: [{version: v1, kind: Pod}]",
            "watchDependentStatus.fields: must not be empty; list fields such as status.readyReplicas",
        ),
        (
            "watchDependentStatus: [{version: v1, kind: Pod, fields: [status.x, status..x]}]",
            f'watchDependentStatus.fields: "status..x" is no field of a status; {FIELD_REMEDY}',
        ),
        (
            "watchDependentStatus: [{version: v1, kind: Pod, fields: [phase]}]",
            f'watchDependentStatus.fields: "phase" is no field of a status; {FIELD_REMEDY}',
        ),
        (
            "watchDependentStatus: [{version: v1, kind: Pod, fields: [spec.replicas]}]",
            f'watchDependentStatus.fields: "spec.replicas" is no field of a status; {FIELD_REMEDY}',
        ),
        (
            "watchDependentStatus: [{version: v1, kind: Pod, fields: ['status.conditions[Ready].status']}]",
            f'watchDependentStatus.fields: "status.conditions[Ready].status" is no field of a status; {FIELD_REMEDY}',
        ),
        ("handlers: roles/web", 'handlers: "roles/web" is no Python file; name one, as in handlers/thing.py'),
        ("handlers: gone.py", "handlers: DIR/gone.py was not found; create it or correct the path"),
    ],
)
def test_a_wrong_value_of_an_own_key_is_named_with_its_place_and_remedy(
    project: Project, line: str, sentence: str
) -> None:
    """They are refused at the start, although they do nothing yet."""
    with pytest.raises(WatchesError) as caught:
        project.load(f"{MINIMAL}  {line}\n")

    assert str(caught.value).replace(str(project.folder.resolve()), "DIR") == PLACE + sentence
