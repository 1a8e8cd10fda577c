"""The input directory, the command line and the environment of a run."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.errors import ExecutionError
from runner.execution.command import OWN_COLLECTIONS, collections_path, command_line, environment_for
from runner.execution.inputs import RunDirectory, directory_of, prepare
from runner.kube.objects import GVK
from runner.settings import ExecutionSettings
from runner.testing.executor import run_request
from runner.watches.model import Content, Finalizer, Watch

PROBE = GVK("bugs.example.com", "v1", "Probe")
FULL = ExecutionSettings(environ={"PATH": "/usr/bin:/bin"})


def _prepare(root: Path, *, content: Content | None = None, spec: Any = None, **settings: Any) -> RunDirectory:
    request = run_request(watch=Watch(gvk=PROBE, content=content or Content()), spec=spec)
    return prepare(
        request,
        settings=ExecutionSettings(runner_dir=root / "runner", **settings),
        kubeconfig=Path("/run/kubeconfig"),
        scratch=root / "scratch",
    )


def test_gathered_facts_are_cached_in_the_scratch_folder(tmp_path: Path) -> None:
    """Facts hold the environment: ansible-runner is told to keep them where the kubeconfig is, not in the artifacts."""
    settings = json.loads((_prepare(tmp_path).path / "env/settings").read_text())
    assert settings["fact_cache"] == str(tmp_path / "scratch/fact_cache")


@pytest.mark.parametrize(
    ("gvk", "namespace", "expected"),
    [
        (PROBE, "default", "bugs.example.com/v1/Probe/default/probe"),
        (GVK("", "v1", "Namespace"), "", "v1/Namespace/probe"),
    ],
)
def test_the_directory_is_the_peers(gvk: GVK, namespace: str, expected: str) -> None:
    """An empty group or namespace vanishes from the path."""
    obj = {"metadata": {"name": "probe", "namespace": namespace}}
    request = run_request(watch=Watch(gvk=gvk, content=Content()), obj=obj)
    assert directory_of(request, root=Path("/r")) == Path("/r") / expected


def test_a_name_that_would_leave_the_root_is_refused() -> None:
    """No object can make the runtime write elsewhere."""
    request = run_request(obj={"metadata": {"name": "..", "namespace": "default"}})
    with pytest.raises(ExecutionError, match="cannot be a path"):
        directory_of(request, root=Path("/r"))


def test_variables_are_written_anew_for_each_run(tmp_path: Path) -> None:
    """What an earlier run left, a world-readable file of the peer too, is replaced by a private one (case R1)."""
    first = _prepare(tmp_path, spec={"a": 1, "b": 2})
    variables = first.path / "env/extravars"
    variables.chmod(0o644)
    _prepare(tmp_path, spec={"a": 3})
    written = json.loads(variables.read_text())
    assert written["a"] == 3
    assert "b" not in written
    assert stat.S_IMODE(variables.stat().st_mode) == 0o600
    access = json.loads((first.path / "env/envvars").read_text())
    assert access == {"K8S_AUTH_KUBECONFIG": "/run/kubeconfig", "KUBECONFIG": "/run/kubeconfig"}


def test_variables_cannot_be_read_as_yaml(tmp_path: Path) -> None:
    """Ansible's second try with a broken file would lose the marks of unsafe text, so it must fail."""
    text = (_prepare(tmp_path, spec={"a": 1}).path / "env/extravars").read_text()
    for loader in (yaml.SafeLoader, yaml.CSafeLoader):
        with pytest.raises(yaml.YAMLError):
            yaml.load(text, Loader=loader)  # noqa: S506 - both are safe loaders


def test_the_cluster_id_of_the_settings_is_written(tmp_path: Path) -> None:
    """What --cluster-id says arrives in the file of variables."""
    path = _prepare(tmp_path, cluster_id="east").path / "env/extravars"
    assert json.loads(path.read_text())["ansible_operator_cluster_id"] == "east"


def test_arguments_for_ansible_come_and_go(tmp_path: Path) -> None:
    """--ansible-args is written without its quotes, and removed once it is empty."""
    cmdline = _prepare(tmp_path, ansible_args="'--tags x'").path / "env/cmdline"
    assert cmdline.read_text() == "--tags x"
    _prepare(tmp_path, ansible_args="")
    assert not cmdline.exists()


@pytest.mark.parametrize(
    ("settings", "interpreter"),
    [
        ({}, "{{ansible_playbook_python}}"),
        ({"environ": {"VIRTUAL_ENV": "/venv"}}, "/venv/bin/python3"),
        ({"environ": {"VIRTUAL_ENV": "/venv"}, "ansible_python": "/other/python"}, "{{ansible_playbook_python}}"),
    ],
)
def test_the_inventory_is_localhost(tmp_path: Path, settings: dict[str, Any], interpreter: str) -> None:
    """One line, as the peer writes it; a virtual environment gives the interpreter where none is named for plays."""
    hosts = _prepare(tmp_path, **settings).path / "inventory/hosts"
    assert hosts.read_text() == f"localhost ansible_connection=local ansible_python_interpreter={interpreter}"


def test_an_inventory_of_the_user_is_copied_with_its_modes(tmp_path: Path) -> None:
    """A folder replaces the generated file, programs stay executable; a single file becomes `hosts`."""
    source = tmp_path / "mine"
    source.mkdir()
    program = source / "dynamic.sh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = _prepare(tmp_path).path / "inventory"
    _prepare(tmp_path, environ={"ANSIBLE_INVENTORY": str(source)})
    assert [entry.name for entry in path.iterdir()] == ["dynamic.sh"]
    assert stat.S_IMODE((path / "dynamic.sh").stat().st_mode) == 0o755
    _prepare(tmp_path, environ={"ANSIBLE_INVENTORY": str(program)})
    assert [entry.name for entry in path.iterdir()] == ["hosts"]


def test_a_missing_inventory_is_named(tmp_path: Path) -> None:
    """The error tells the variable, the path and the remedy."""
    with pytest.raises(ExecutionError, match=r"ANSIBLE_INVENTORY names /nosuch, .* correct or unset it"):
        _prepare(tmp_path, environ={"ANSIBLE_INVENTORY": "/nosuch"})


def test_the_project_holds_a_copy_of_the_playbook_and_nothing_stale(tmp_path: Path) -> None:
    """The throw-away playbook of a killed run goes; the main playbook is copied for people."""
    playbook = tmp_path / "site.yml"
    playbook.write_text("[]")
    project = _prepare(tmp_path).path / "project"
    (project / "5bd6022985924b39").write_text("[]")
    _prepare(tmp_path, content=Content(playbook=playbook))
    assert [entry.name for entry in project.iterdir()] == ["playbook.yaml"]


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """Somebody who may write to the parent cannot send our files elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = tmp_path / "runner/bugs.example.com/v1/Probe/default/probe"
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere)
    with pytest.raises(ExecutionError, match="is a link"):
        _prepare(tmp_path)


def _command(
    content: Content, *, finalizer: Finalizer | None = None, environ: Any = None, verbosity: int = 0
) -> list[str]:
    watch = Watch(gvk=PROBE, content=content, finalizer=finalizer)
    request = replace(run_request(watch=watch, finalizing=finalizer is not None, ident="7"), verbosity=verbosity)
    settings = replace(FULL, environ={**FULL.environ, **(environ or {})})
    command = command_line(request, directory=Path("/d"), settings=settings)
    assert command[:5] == [sys.executable, "-P", "-m", "ansible_runner", "run"]
    return command[5:]


def test_a_playbook_is_run_by_its_path() -> None:
    """The peer's arguments, with one `v` per degree of verbosity."""
    content = Content(playbook=Path("/opt/site.yml"))
    rotation = ["/d", "--rotate-artifacts", "0"]
    assert _command(content) == [*rotation, "-p", "/opt/site.yml", "-i", "7"]
    assert _command(content, verbosity=7)[-1] == "-vvvvvvv"
    assert _command(content, verbosity=-1)[-1] == "7"


def test_a_role_is_run_by_name_and_folder() -> None:
    """The path is split at its last slash; facts are skipped only where ANSIBLE_GATHERING says explicit."""
    content = Content(role=Path("/opt/roles/db/"))
    role = ["--role", "db", "--roles-path", "/opt/roles", "--hosts", "localhost", "-i", "7"]
    assert _command(content)[3:] == role
    assert _command(content, environ={"ANSIBLE_GATHERING": "explicit"})[3:] == [*role, "--role-skip-facts"]
    assert _command(content, environ={"ANSIBLE_GATHERING": "smart"})[3:] == role


def test_a_finalizer_runs_its_own_content_or_the_watchs() -> None:
    """A finalizer with vars only runs the main content."""
    main, own = Content(role=Path("/r/main")), Content(playbook=Path("/bye.yml"))
    assert "main" in _command(main, finalizer=Finalizer(name="f", vars={"x": 1}))
    assert "/bye.yml" in _command(main, finalizer=Finalizer(name="f", content=own))


def test_the_environment_keeps_temporary_files_together(tmp_path: Path) -> None:
    """Scratch space is the run's own, and Ansible's programs are found beside the interpreter."""
    request = run_request(ident="7")
    environ = environment_for(request, settings=replace(FULL, roles_path="/roles"), scratch=tmp_path)
    assert environ["TMPDIR"] == str(tmp_path / "tmp")
    assert Path(environ["KUBECACHEDIR"]).is_relative_to(tmp_path / "tmp")
    assert environ["PATH"] == f"{Path(sys.executable).parent}:/usr/bin:/bin"
    assert environ["ANSIBLE_ROLES_PATH"] == "/roles"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (None, None)),
        ({"NO_PROXY": "a"}, ("a", None)),
        ({"HTTPS_PROXY": "http://p"}, ("localhost,127.0.0.1", "localhost,127.0.0.1")),
        ({"http_proxy": "http://p", "NO_PROXY": "a, b"}, ("a,b,localhost,127.0.0.1", "a,b,localhost,127.0.0.1")),
        (
            {"ALL_PROXY": "http://p", "NO_PROXY": "localhost", "no_proxy": "b"},
            ("localhost,127.0.0.1", "b,localhost,127.0.0.1"),
        ),
        ({"https_proxy": "http://p", "no_proxy": "*"}, ("*", "*")),
    ],
)
def test_an_http_proxy_of_the_environment_is_not_asked_for_this_machine(
    given: dict[str, str], expected: tuple[str | None, str | None], tmp_path: Path
) -> None:
    """Where a run would use an HTTP proxy, the operator's own servers are excepted, under both names that are read."""
    environ = environment_for(run_request(), settings=replace(FULL, environ=given), scratch=tmp_path)
    assert (environ.get("NO_PROXY"), environ.get("no_proxy")) == expected


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "false"), ({"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true"}, "true")]
)
def test_kubectl_speaks_spdy_unless_told_otherwise(tmp_path: Path, given: dict[str, str], expected: str) -> None:
    """Its WebSockets can't be used with the user name that a run's kubeconfig has in the URL."""
    environ = environment_for(run_request(), settings=ExecutionSettings(environ=given), scratch=tmp_path)
    assert environ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS"] == expected
    assert environ["KUBECTL_PORT_FORWARD_WEBSOCKETS"] == "false"


def test_our_collections_come_last(tmp_path: Path) -> None:
    """After Ansible's defaults, after the user's variable, after the flag, after the entry of an ansible.cfg."""
    ours = str(OWN_COLLECTIONS)
    config = tmp_path / "ansible.cfg"
    config.write_text("[defaults]\ncollections_path = here:/there\n")
    default = "~/.ansible/collections:/usr/share/ansible/collections"

    def path(flag: str = "", **environ: str) -> str:
        return collections_path(ExecutionSettings(environ=environ, collections_path=flag))

    assert path(HOME=str(tmp_path / "nobody")) == f"{default}:{ours}"
    assert path(ANSIBLE_COLLECTIONS_PATH="/mine") == f"/mine:{ours}"
    assert path(ANSIBLE_COLLECTIONS_PATHS="/old") == f"/old:{ours}"
    assert path(ANSIBLE_COLLECTIONS_PATHS="/old", ANSIBLE_COLLECTIONS_PATH="/mine") == f"/mine:{ours}"
    assert path(ANSIBLE_COLLECTIONS_PATHS="/old", ANSIBLE_CONFIG=str(config)) == f"/old:{ours}"
    assert path("/flag", ANSIBLE_COLLECTIONS_PATH="/mine") == f"/flag:{ours}"
    assert path(ANSIBLE_CONFIG=str(config)) == f"{tmp_path / 'here'}:/there:{ours}"
    assert (OWN_COLLECTIONS / "ansible_collections/operator_sdk/util/galaxy.yml").is_file()


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("collections_paths = /old", "/old"),
        ("collections_path = /new\ncollections_paths = /old", "/new"),
        ("collections_path = ~/mine:$BASE/a:${BASE}/b:here", "/home/me/mine:/base/a:/base/b:{config}/here"),
        ("collections_path = {{CWD}}/x:~other/y:$UNKNOWN/z", "{{CWD}}/x:~other/y:$UNKNOWN/z"),
        ("collections_path = /a ; a comment", "/a"),
    ],
)
def test_the_entry_of_an_ansible_cfg_is_read_as_ansible_does(tmp_path: Path, entries: str, expected: str) -> None:
    """Both spellings count, the singular one first; only what is relative lies beside the file."""
    (tmp_path / "ansible.cfg").write_text(f"[defaults]\n{entries}\n")
    environ = {"HOME": "/home/me", "BASE": "/base", "ANSIBLE_CONFIG": "$CONFIG", "CONFIG": str(tmp_path)}
    found = collections_path(ExecutionSettings(environ=environ))
    assert found == f"{expected.replace('{config}', str(tmp_path))}:{OWN_COLLECTIONS}"


def test_a_folder_for_temporary_files_that_the_user_configured_stays(tmp_path: Path) -> None:
    """Ansible's own is the run's folder, unless a variable or an ansible.cfg names another."""
    config = tmp_path / "ansible.cfg"
    config.write_text("[defaults]\nlocal_tmp = /mine\n")

    def local(**environ: str) -> str | None:
        settings = replace(FULL, environ={**FULL.environ, "HOME": str(tmp_path / "nobody"), **environ})
        return environment_for(run_request(), settings=settings, scratch=tmp_path).get("ANSIBLE_LOCAL_TEMP")

    assert local() == str(tmp_path / "local")
    assert local(ANSIBLE_LOCAL_TEMP="/other") == "/other"
    assert local(ANSIBLE_CONFIG=str(config)) is None


def test_a_link_above_the_directory_is_refused(tmp_path: Path) -> None:
    """A link anywhere below the folder for temporary files would lead what we write to somebody else's folder."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "runner").symlink_to(elsewhere)
    previous, tempfile.tempdir = tempfile.tempdir, str(tmp_path)
    try:
        with pytest.raises(ExecutionError, match=r"runner is a link .*; remove it"):
            _prepare(tmp_path)
    finally:
        tempfile.tempdir = previous
    assert list(elsewhere.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_foreign_folder_above_the_directory_is_refused(tmp_path: Path) -> None:
    """Its owner could put another folder in the place of ours."""
    (tmp_path / "runner").mkdir()
    os.chown(tmp_path / "runner", 12345, -1)
    previous, tempfile.tempdir = tempfile.tempdir, str(tmp_path)
    try:
        with pytest.raises(ExecutionError, match="belongs to user 12345"):
            _prepare(tmp_path)
    finally:
        tempfile.tempdir = previous
