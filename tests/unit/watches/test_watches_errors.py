"""What the loader says about a wrong file: file, line, entry, field, what is wrong, and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import ConfigError, Verdict
from runner.settings import Settings
from runner.watches.loader import load_watches
from runner.watches.problems import WatchesError, WatchesFileError
from tests.unit.watches.conftest import Project

MINIMAL = "- version: v1\n  kind: Web\n  role: web\n"
WEB = "watches.yaml, line 4, entry 1 (/v1, Kind=Web)"


def said(project: Project, text: str) -> str:
    """Return the text of the error that *text* leads to, with the project's folder written as DIR."""
    with pytest.raises(WatchesError) as caught:
        project.load(text)
    assert isinstance(caught.value, ConfigError)
    assert caught.value.verdict is Verdict.TERMINAL
    return str(caught.value).replace(str(project.folder), "DIR")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            'manageStatus: "no"',
            'field manageStatus: must be a boolean, not the string "no"; write true or false, without quotes',
        ),
        (
            "markUnsafe: 1",
            'field markUnsafe: must be a boolean, not the number "1"; write true or false, without quotes',
        ),
        (
            "markUnsafe: [yes]",
            "field markUnsafe: must be a single value, not a list; write it on one line",
        ),
        (
            'maxRunnerArtifacts: "5"',
            'field maxRunnerArtifacts: must be a whole number, not the string "5"; write digits, without quotes',
        ),
        (
            "maxRunnerArtifacts: 5.5",
            'field maxRunnerArtifacts: must be a whole number, not the number "5.5"; write digits, without quotes',
        ),
        (
            "maxRunnerArtifacts: .inf",
            'field maxRunnerArtifacts: must be a whole number, not the number ".inf"; write digits, without quotes',
        ),
        (
            "maxRunnerArtifacts: true",
            'field maxRunnerArtifacts: must be a whole number, not the boolean "true"; write digits, without quotes',
        ),
        (
            "reconcilePeriod: 5",
            (
                'field reconcilePeriod: must be a string, not the number "5"; '
                'write a Go duration such as "30s", "5m" or "1h30m"'
            ),
        ),
        (
            "reconcilePeriod: 1d",
            (
                'field reconcilePeriod: time: unknown unit "d" in duration "1d"; '
                'write a Go duration such as "30s", "5m" or "1h30m"'
            ),
        ),
        (
            "reconcilePeriod: xx",
            'field reconcilePeriod: time: invalid duration "xx"; write a Go duration such as "30s", "5m" or "1h30m"',
        ),
        ("vars: [a]", "field vars: must be a mapping, not a list; write `name: value` lines below"),
        ("vars: a", 'field vars: must be a mapping, not the string "a"; write `name: value` lines below'),
        ("blacklist: {kind: Pod}", "field blacklist: must be a list, not a mapping; begin each item with `- `"),
        (
            "blacklist: [Pod]",
            'field blacklist: must be a mapping, not the string "Pod"; write its keys (group, version, kind) below it',
        ),
        (
            "finalizer: bye",
            (
                'field finalizer: must be a mapping, not the string "bye"; '
                "write its keys (name, playbook, role, vars) below it"
            ),
        ),
        (
            "finalizer: {role: web}",
            "field finalizer.name: finalizer must have name; add `name: DOMAIN/finalizer`",
        ),
        (
            "finalizer: {}",
            "field finalizer.name: finalizer must have name; add `name: DOMAIN/finalizer`",
        ),
        (
            "finalizer: {name: a b, role: web}",
            (
                'field finalizer.name: "a b" is not a finalizer name; '
                "write name or dns.prefix/name, as in example.com/finalizer"
            ),
        ),
        (
            "finalizer: {name: a/b}",
            "field finalizer: must specify Role or Playbook; add `role: NAME` or `playbook: PATH`",
        ),
        (
            "finalizer: {name: a/b, playbook: gone.yml}",
            "field finalizer.playbook: playbook: DIR/gone.yml was not found; create it or correct the path",
        ),
        (
            "finalizer: {name: a/b, role: gone}",
            (
                "field finalizer.role: role: gone was not found (looked for the folders DIR/roles/gone); "
                "create it or correct the name"
            ),
        ),
        (
            "selector: a=b",
            (
                'field selector: must be a mapping, not the string "a=b"; '
                "write its keys (matchLabels, matchExpressions) below it"
            ),
        ),
        (
            "selector: {matchExpressions: [{key: a, operator: in, values: [b]}]}",
            (
                'field selector.matchExpressions.operator: "in" is not a valid label selector operator; '
                "write one of In, NotIn, Exists, DoesNotExist"
            ),
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_place_and_remedy(project: Project, line: str, sentence: str) -> None:
    """The whole sentence: file, line, entry, field, what is wrong, what to do."""
    assert said(project, f"{MINIMAL}  {line}\n") == f"{WEB}, {sentence}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "- {group: a.io, kind: Web, role: web}",
            (
                "watches.yaml, line 1, entry 1, field version: "
                "invalid GVK: a.io/, Kind=Web: version must not be empty; "
                "add `version: ` as the custom resource definition has it"
            ),
        ),
        (
            "- version: v1\n  role: web\n  kind: ''\n",
            (
                "watches.yaml, line 3, entry 1, field kind: invalid GVK: /v1, Kind=: kind must not be empty; "
                "add `kind: ` as the custom resource definition has it"
            ),
        ),
        (
            f"{MINIMAL}  group: [a]\n",
            "watches.yaml, line 4, entry 1, field group: must be a string, not a list; write it on one line",
        ),
        (
            f"{MINIMAL}-\n",
            (
                "watches.yaml, line 4, entry 2: must be a mapping, not empty; "
                "write version, kind and role or playbook below its `- `"
            ),
        ),
        (
            "- web\n",
            (
                'watches.yaml, line 1, entry 1: must be a mapping, not the string "web"; '
                "write version, kind and role or playbook below its `- `"
            ),
        ),
        (
            "version: v1\nkind: Web\n",
            (
                "watches.yaml, line 1: must be a list of watches, not a mapping; "
                "begin each watch with `- `, as in `- version: v1`"
            ),
        ),
        (
            "\njust text\n",
            (
                'watches.yaml, line 2: must be a list of watches, not the string "just text"; '
                "begin each watch with `- `, as in `- version: v1`"
            ),
        ),
        (
            "- {version: v1, kind: Web}",
            (
                "watches.yaml, line 1, entry 1 (/v1, Kind=Web): must specify Role or Playbook; "
                "add `role: NAME` or `playbook: PATH`"
            ),
        ),
        (
            "- version: v1\n  kind: Web\n  role: gone\n",
            (
                "watches.yaml, line 3, entry 1 (/v1, Kind=Web), field role: role: gone was not found "
                "(looked for the folders DIR/roles/gone); create it or correct the name"
            ),
        ),
        (
            "- version: v1\n  kind: Web\n  role: ${GONE}\n",
            (
                "watches.yaml, line 3, entry 1 (/v1, Kind=Web), field role: role: ${GONE} was not found "
                "(looked for the folders DIR/roles/${GONE}); set the environment variable that it names"
            ),
        ),
        (
            "- version: v1\n  kind: Web\n  playbook: sub/../gone.yml\n",
            (
                "watches.yaml, line 3, entry 1 (/v1, Kind=Web), field playbook: playbook: DIR/gone.yml was not found; "
                "create it or correct the path"
            ),
        ),
        (
            (
                f"- group: a.io\n  version: v1\n  kind: Web\n  role: web\n{MINIMAL}- group: a.io\n"
                "  version: v1\n  kind: Web\n  role: web\n"
            ),
            (
                "watches.yaml, line 8, entry 3 (a.io/v1, Kind=Web): duplicate GVK: a.io/v1, Kind=Web; "
                "delete one of the entries or change its version"
            ),
        ),
        (
            "- version: v1\n  kind: Web\n  role: web: x\n",
            (
                "watches.yaml, line 3, column 12: not valid YAML: mapping values are not allowed here; "
                "correct the syntax there or just above"
            ),
        ),
        (
            f"{MINIMAL}  vars: {{a: .nan}}\n",
            (
                "watches.yaml, line 4, entry 1 (/v1, Kind=Web), field vars: .nan is no number that JSON can carry; "
                "quote it"
            ),
        ),
    ],
)
def test_a_wrong_entry_or_file_is_named_with_its_place_and_remedy(project: Project, text: str, sentence: str) -> None:
    """The peer's own words stand inside the sentence."""
    assert said(project, text) == sentence


def test_a_finalizer_with_vars_may_name_content_that_is_missing(project: Project) -> None:
    """As in the peer it is no error at start; unlike there, the log has a note about it."""
    text = f"{MINIMAL}  finalizer: {{name: a/b, role: gone, vars: {{state: absent}}}}\n"

    loaded = project.load(text)

    finalizer = loaded.watches[0].finalizer
    assert finalizer is not None
    assert finalizer.content.role == project.folder / "gone"
    assert [note.replace(str(project.folder), "DIR") for note in loaded.notes] == [
        (
            f"{WEB}, field finalizer.role: role: gone was not found (looked for the folders DIR/roles/gone); "
            "create it or correct the name (deletions will fail until then)"
        )
    ]


def test_a_finalizer_with_vars_only_runs_the_watchs_own_content(project: Project) -> None:
    """It has no content of its own and needs none."""
    finalizer = project.one(f"{MINIMAL}  finalizer: {{name: a/b, vars: {{state: absent}}}}\n").finalizer

    assert finalizer is not None
    assert (finalizer.content.role, finalizer.content.playbook) == (None, None)
    assert finalizer.vars == {"state": "absent"}


def test_a_missing_file_is_told_with_the_place_where_it_was_looked_for(tmp_path: Path) -> None:
    """The error is of its own class, because the command logs another sentence for it."""
    with pytest.raises(WatchesFileError) as caught:
        load_watches(Path("./gone.yaml"), settings=Settings(), environ={}, cwd=tmp_path)

    assert str(caught.value) == (
        f"gone.yaml: cannot be read: No such file or directory ({tmp_path}/gone.yaml); "
        "name the file with --watches-file, or start in the folder that has it"
    )


def test_a_folder_in_the_files_place_is_refused(tmp_path: Path) -> None:
    """What the system says is repeated."""
    (tmp_path / "watches.yaml").mkdir()

    with pytest.raises(WatchesFileError, match=r"^watches\.yaml: cannot be read: Is a directory"):
        load_watches(Path("watches.yaml"), settings=Settings(), environ={}, cwd=tmp_path)


def test_a_file_that_is_not_utf_8_is_refused_with_the_line(tmp_path: Path) -> None:
    """Latin-1 is not guessed."""
    (tmp_path / "watches.yaml").write_bytes(b"# a\n# caf\xe9\n")

    with pytest.raises(WatchesFileError) as caught:
        load_watches(Path("watches.yaml"), settings=Settings(), environ={}, cwd=tmp_path)

    assert str(caught.value) == "watches.yaml, line 2: is not UTF-8 text; save it as UTF-8"
