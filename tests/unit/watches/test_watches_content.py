"""Where playbooks and roles are looked for, and in which order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.settings import ExecutionSettings, Settings
from runner.watches.model import Content
from runner.watches.problems import WatchesError
from tests.unit.watches.conftest import Project


def entry(line: str) -> str:
    """Return a watches file of one entry with *line*."""
    return f"- version: v1\n  kind: Web\n  {line}\n"


def role_of(project: Project, name: str, *, environ: dict[str, str] | None = None) -> str:
    """Return the folder that role *name* is found in, from the project's folder."""
    role = project.one(entry(f"role: {name}"), environ=environ).content.role
    assert role is not None
    return str(role.relative_to(project.folder))


def test_a_playbook_starts_from_the_working_directory(project: Project) -> None:
    """A relative path is joined to it and made plain."""
    project.add("sub")

    assert project.one(entry("playbook: sub/../play.yml")).content == Content(playbook=project.folder / "play.yml")


def test_an_absolute_playbook_is_taken_as_it_is(project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It may be anywhere."""
    playbook = tmp_path_factory.mktemp("elsewhere") / "play.yml"
    playbook.write_text("[]\n")

    assert project.one(entry(f"playbook: {playbook}")).content == Content(playbook=playbook)


def test_a_folder_is_no_playbook_and_a_file_is_no_role(project: Project) -> None:
    """What could never run is not found."""
    (project.folder / "roles/file").write_text("")

    with pytest.raises(WatchesError, match=r"playbook: .*/roles was not found"):
        project.load(entry("playbook: roles"))
    with pytest.raises(WatchesError, match="role: file was not found"):
        project.load(entry("role: file"))


def test_a_playbook_wins_over_a_role_which_is_noted(project: Project) -> None:
    """Both set is accepted as in the peer; the role is not even looked for."""
    loaded = project.load(entry("playbook: play.yml\n  role: gone"))

    assert loaded.watches[0].content == Content(playbook=project.folder / "play.yml")
    assert loaded.notes == ("line 4: role gone is ignored, because playbook is set",)


def test_a_note_on_a_finalizers_content_says_so(project: Project) -> None:
    """The fields are named with the finalizer that they are in."""
    loaded = project.load(entry("role: web\n  finalizer: {name: a.io/b, playbook: play.yml, role: gone}"))
    assert loaded.notes == ("line 4: finalizer.role gone is ignored, because finalizer.playbook is set",)


@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("web", ["roles/web"]),
        ("common/tls", ["roles/common/tls"]),
        ("a.b", ["roles/a.b"]),
        ("a.b.c", ["roles/a.b.c"]),
    ],
)
def test_a_role_lies_in_the_working_directorys_roles(project: Project, name: str, folders: list[str]) -> None:
    """Names may be nested or have dots, three parts included, when no collection has them."""
    if folders != ["roles/web"]:
        project.add(*folders)

    assert role_of(project, name) == folders[0]


def test_an_absolute_role_is_looked_for_only_there(project: Project) -> None:
    """No search path applies to it."""
    assert role_of(project, str(project.folder / "roles/web")) == "roles/web"
    with pytest.raises(WatchesError, match=r"role: /web was not found \(looked for the folders /web\)"):
        project.load(entry("role: /web"), environ={"ANSIBLE_ROLES_PATH": str(project.folder / "roles")})


def test_ansible_roles_path_goes_first_with_and_without_roles(project: Project) -> None:
    """For each of its folders: the role in it, then the role in its `roles`; then the working directory."""
    environ = {"ANSIBLE_ROLES_PATH": f"{project.folder}/one:two"}
    found = [role_of(project, "web", environ=environ)]
    for folder in ("two/roles/web", "two/web", "one/roles/web", "one/web"):
        project.add(folder)
        found.append(role_of(project, "web", environ=environ))

    assert found == ["roles/web", "two/roles/web", "two/web", "one/roles/web", "one/web"]


def test_a_name_of_three_parts_is_a_collections_role_first(project: Project) -> None:
    """The folders of ANSIBLE_COLLECTIONS_PATH in their order, ahead of ANSIBLE_ROLES_PATH."""
    project.add("r/a.b.c", "two/ansible_collections/a/b/roles/c")
    environ = {"ANSIBLE_COLLECTIONS_PATH": f"one:{project.folder}/two", "ANSIBLE_ROLES_PATH": "r"}

    assert role_of(project, "a.b.c", environ=environ) == "two/ansible_collections/a/b/roles/c"


def test_without_a_collections_path_the_home_folder_is_searched(project: Project) -> None:
    """Unset or empty, the defaults count; once it is set, they do not."""
    project.add("home/.ansible/collections/ansible_collections/a/b/roles/c")
    environ = {"HOME": str(project.folder / "home"), "ANSIBLE_COLLECTIONS_PATH": ""}

    assert role_of(project, "a.b.c", environ=environ).startswith("home/.ansible")
    with pytest.raises(WatchesError) as caught:
        project.load(entry("role: a.b.c"), environ={**environ, "ANSIBLE_COLLECTIONS_PATH": "/set"})
    assert "home/.ansible" not in str(caught.value)


def test_the_old_plural_variable_is_not_read(project: Project) -> None:
    """ANSIBLE_COLLECTIONS_PATHS means nothing, as with the peer."""
    project.add("two/ansible_collections/a/b/roles/c")

    with pytest.raises(WatchesError, match=r"role: a\.b\.c was not found"):
        project.load(entry("role: a.b.c"), environ={"ANSIBLE_COLLECTIONS_PATHS": str(project.folder / "two")})


def test_the_flags_overwrite_both_variables(project: Project) -> None:
    """`--ansible-roles-path` and `--ansible-collections-path` go first."""
    project.add("flag/shop", "flagged/ansible_collections/a/b/roles/c")
    execution = ExecutionSettings(roles_path="flag", collections_path=str(project.folder / "flagged"))
    settings = replace(Settings(), execution=execution)
    environ = {"ANSIBLE_ROLES_PATH": "/env", "ANSIBLE_COLLECTIONS_PATH": "/env"}
    text = f"{entry('role: shop')}- {{version: v2, kind: Web, role: a.b.c}}\n"

    roles = [watch.content.role for watch in project.load(text, environ=environ, settings=settings).watches]

    assert roles == [project.folder / "flag/shop", project.folder / "flagged/ansible_collections/a/b/roles/c"]


def test_everywhere_that_was_searched_is_told(project: Project) -> None:
    """The error lists the folders, so that a person sees which variable is wrong."""
    with pytest.raises(WatchesError) as caught:
        project.load(entry("role: gone"), environ={"ANSIBLE_ROLES_PATH": "/x"})

    assert f"(looked for the folders /x/gone, /x/roles/gone, {project.folder}/roles/gone)" in str(caught.value)


def test_a_name_too_long_for_the_system_is_not_found(project: Project) -> None:
    """An error of the file system is no traceback."""
    with pytest.raises(WatchesError, match="was not found"):
        project.load(entry(f"role: {'x' * 5000}"))


def test_content_paths_are_absolute(project: Project) -> None:
    """Later stages run in other folders."""
    project.add("rel/web")
    role = project.one(entry("role: web"), environ={"ANSIBLE_ROLES_PATH": "rel"}).content.role

    assert role == Path(project.folder / "rel/web")
