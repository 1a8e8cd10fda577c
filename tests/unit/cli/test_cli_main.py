"""The group of commands: version, help, completion, and commands that are imported when used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from runner import __version__
from runner.cli.commands import LazyCommand, RootGroup
from runner.cli.flags import FLAGS
from runner.cli.main import cli
from runner.cli.version import UNKNOWN, cloned_commit, installed_commit

CLONE = Path(__file__).parents[3]


def invoke(*arguments: str) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(cli, list(arguments), prog_name="ansible-operator")


def run_module(*arguments: str, cwd: Path, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, with nothing in its environment."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path.cwd())}
    start = ["-c", code] if code else ["-m", "runner"]
    return subprocess.run(
        [sys.executable, *start, *arguments], cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )


def test_version_prints_the_peers_line() -> None:
    """Names, order and quoting are the peer's; Python's version stands in the place of Go's."""
    result = invoke("version")

    assert result.exit_code == 0
    pattern = (
        r'ansible-operator version: "(.*)", commit: "[^"]+", kubernetes version: "v1\.\d+", '
        r'python version: "3\.[0-9.]+", GOOS: "\w+", GOARCH: "\w+"\n'
    )
    found = re.fullmatch(pattern, result.stdout)
    assert found is not None
    assert found[1] == __version__


@pytest.mark.parametrize(("environ", "commit"), [({"ANSIBLE_OPERATOR_COMMIT": "abc123"}, "abc123"), ({}, None)])
def test_the_commit_is_that_of_the_build(environ: dict[str, str], commit: str | None) -> None:
    """The image's build sets it in the environment; else pip's record or that of a clone, or unknown."""
    variables = {"ANSIBLE_OPERATOR_COMMIT": None, **environ}
    result = CliRunner().invoke(cli, ["version"], env=variables)

    assert f'commit: "{commit or installed_commit() or cloned_commit(CLONE) or UNKNOWN}"' in result.stdout


def test_the_commit_of_a_clone_is_read_from_its_git(tmp_path: Path) -> None:
    """What is checked out there; nothing where there is no clone, or no commit in it."""
    assert cloned_commit(tmp_path / "no-clone") == ""
    for name in ("empty", "clone"):
        subprocess.run(["git", "init", "-q", str(tmp_path / name)], check=True)
    git = ["git", "-C", str(tmp_path / "clone"), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert (cloned_commit(tmp_path / "empty"), cloned_commit(tmp_path / "clone")) == ("", head)


def test_without_a_command_the_help_is_printed() -> None:
    """As cobra does, with exit code 0."""
    result = invoke()

    assert result.exit_code == 0
    commands = re.findall(r"^  (\w+) {2,}", result.stdout.partition("Commands:")[2], flags=re.MULTILINE)
    assert commands == ["completion", "demo", "dev", "help", "migrate", "run", "version"]


def test_an_unknown_command_ends_with_1() -> None:
    """The sentence names it."""
    result = invoke("start")

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: No such command 'start'.")


@pytest.mark.parametrize("arguments", [["help", "run"], ["run", "--help"], ["run", "-h"]])
def test_help_of_a_command_lists_its_flags_without_the_deprecated(arguments: list[str]) -> None:
    """Three spellings, one text."""
    result = invoke(*arguments)

    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ansible-operator run [OPTIONS]")
    assert "--watches-file" in result.stdout
    assert "--metrics-addr" not in result.stdout


def test_the_help_of_run_is_readable() -> None:
    """Flags stand below headings, with their defaults, in 80 columns, each with its own line."""
    text = invoke("run", "--help").stdout
    headings = re.findall(r"^(\w[\w ]+):$", text, flags=re.MULTILINE)
    shown = re.findall(r"^  --([a-z0-9-]+)", text, flags=re.MULTILINE)

    assert headings == ["Ansible", "Controllers", "Leader election", "Serving", "Logging", "Other"]
    assert shown == [flag.name for flag in FLAGS if not flag.deprecated]
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"--reconcile-period DURATION .*?\[default:\s+10h\]", text, flags=re.DOTALL)
    assert re.search(r"--leader-elect\[=true\|false\] ", text)
    assert "[default: number of CPUs]" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["help", "start"], "Error: No such command 'start'."),
        (["help", "run", "now"], "Error: ansible-operator run has no commands"),
    ],
)
def test_help_of_an_unknown_command_ends_with_1(arguments: list[str], sentence: str) -> None:
    """The sentence names it."""
    result = invoke(*arguments)

    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == sentence


@pytest.mark.parametrize(
    ("shell", "mark"),
    [
        ("bash", "complete -o nosort"),
        ("zsh", "#compdef ansible-operator"),
        ("fish", "complete --no-files"),
        ("powershell", "Register-ArgumentCompleter -Native -CommandName ansible-operator"),
    ],
)
def test_completion_prints_a_script_for_the_shell(shell: str, mark: str) -> None:
    """The peer's four shells."""
    result = invoke("completion", shell)

    assert result.exit_code == 0
    assert mark in result.stdout
    assert "_ANSIBLE_OPERATOR_COMPLETE" in result.stdout


def test_completion_without_a_shell_tells_how_to_use_it() -> None:
    """The help text, with a line for each shell."""
    result = invoke("completion")

    assert result.exit_code == 0
    assert "source <(ansible-operator completion bash)\n" in result.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ([""], ["completion", "demo", "dev", "help", "migrate", "run", "version"]),
        (["completion", "p"], ["powershell"]),
        (["run", "--metrics-"], ["--metrics-bind-address", "--metrics-secure", "--metrics-require-rbac"]),
        (["run", "--ansible-log-events", ""], ["nothing", "tasks", "everything"]),
        (["run", "--leader-elect", "--executor", "=", "w"], ["warm"]),
    ],
)
def test_the_completion_of_bash_works(typed: list[str], offered: list[str], tmp_path: Path) -> None:
    """The script, sourced by a real bash, offers commands, flags and their values, and nothing deprecated."""
    command = tmp_path / "ansible-operator"
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -P -c 'from runner.cli.main import main; main()' \"$@\"\n")
    command.chmod(0o755)
    script = (
        "source <(ansible-operator completion bash)\n"
        'COMP_WORDS=(ansible-operator "$@"); COMP_CWORD=$#\n'
        '_ansible_operator_completion ansible-operator "${COMP_WORDS[$COMP_CWORD]}"\n'
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        ["bash", "-c", script, "bash", *typed], env=environ, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == offered


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell"])
def test_the_other_shells_ask_the_command_and_get_an_answer(shell: str) -> None:
    """What their scripts send is understood; each answer is in the form of its shell."""
    words, number = "ansible-operator run --zap-encoder c", "3" if shell != "fish" else "c"
    environ = {"_ANSIBLE_OPERATOR_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": number}
    result = CliRunner().invoke(cli, [], prog_name="ansible-operator", env=environ)

    answers = {"zsh": "plain\nconsole\n_\n", "fish": "plain,console\n", "powershell": "plain\nconsole\n_\n"}
    assert (result.exit_code, result.stdout) == (0, answers[shell])


def test_another_shell_is_refused() -> None:
    """The sentence lists those that work."""
    result = invoke("completion", "tcsh")

    assert result.exit_code == 1
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish', 'powershell'" in result.stderr


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """`python -m runner version` in a fresh process, from any folder."""
    result = run_module("version", cwd=tmp_path)

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f'ansible-operator version: "{__version__}"')


def test_run_tells_a_missing_watches_file_in_one_record(tmp_path: Path) -> None:
    """The real command, up to the first thing that it reads: version, namespaces, error, exit code 1."""
    result = run_module("run", "ignored", cwd=tmp_path)

    records = [json.loads(line) for line in result.stderr.splitlines()]
    assert (result.returncode, result.stdout) == (1, "")
    assert [record["msg"] for record in records] == ["Version", "Watching all namespaces", "Failed to get config file"]
    assert f"({tmp_path}/watches.yaml)" in records[-1]["error"]


def test_run_tells_a_wrong_watches_file_with_its_line(tmp_path: Path) -> None:
    """Flags reach the loader: another file is read."""
    (tmp_path / "mine.yaml").write_text("- version: v1\n  kind: Web\n  role: gone\n")
    result = run_module("run", "--watches-file", "mine.yaml", cwd=tmp_path)

    record = json.loads(result.stderr.splitlines()[-1])
    assert (result.returncode, record["level"], record["msg"]) == (1, "error", "Failed to load watches.")
    assert record["error"].startswith("mine.yaml, line 3, entry 1 (/v1, Kind=Web), field role: role: gone was not")


def test_version_and_help_load_neither_the_operator_nor_the_developers_tools(tmp_path: Path) -> None:
    """They stay quick, and work where an extra is missing."""
    code = (
        "import sys; from runner.cli.main import cli\n"
        "for argument in ('version', '--help'):\n"
        "    try: cli.main([argument], prog_name='ansible-operator')\n"
        "    except SystemExit: pass\n"
        "loaded = {'runner.assembly', 'runner.localdev', 'cryptography', 'kubernetes', 'aiohttp'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)"
    )
    result = run_module(cwd=tmp_path, code=code)

    assert (result.returncode, result.stderr) == (0, "")


def lazy(target: str, *, folder: Path, monkeypatch: pytest.MonkeyPatch) -> RootGroup:
    """Return a group with one lazy command, whose module is looked for in *folder* too."""
    monkeypatch.syspath_prepend(folder)
    group = RootGroup("tool")
    group.add_command(LazyCommand("dev", target=target, short_help="Short", extra="localdev"))
    return group


def test_a_lazy_command_is_the_real_one_once_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arguments, nested commands and help are the real command's."""
    (tmp_path / "lazy_real.py").write_text(
        "import click\n@click.group()\ndef real(): pass\n"
        "@real.command()\n@click.option('--n')\ndef go(n): click.echo(f'went {n}')\n"
    )
    group = lazy("lazy_real:real", folder=tmp_path, monkeypatch=monkeypatch)

    assert CliRunner().invoke(group, ["dev", "go", "--n=3"]).stdout == "went 3\n"
    assert "go" in CliRunner().invoke(group, ["dev", "--help"]).stdout


def test_a_missing_package_is_named_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback, and the other commands work."""
    (tmp_path / "lazy_poor.py").write_text("import no_such_package.inner\n")
    group = lazy("lazy_poor:dev", folder=tmp_path, monkeypatch=monkeypatch)

    result = CliRunner().invoke(group, ["dev", "up", "--whatever"])

    assert result.exit_code == 1
    assert result.stderr == (
        "Error: dev needs the Python package no_such_package, which is not installed; "
        "install it with: pip install 'ansible-operator-runner[localdev]'\n"
    )
    assert CliRunner().invoke(group, ["--help"]).exit_code == 0


def test_a_command_that_was_not_installed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module itself is missing."""
    group = lazy("lazy_absent.inner:dev", folder=tmp_path, monkeypatch=monkeypatch)

    result = CliRunner().invoke(group, ["dev"])

    assert (result.exit_code, result.stderr) == (1, "Error: dev is not part of this installation\n")


def test_an_interrupted_command_ends_with_1() -> None:
    """Ctrl-C is no traceback."""
    group = RootGroup("tool")

    @group.command()
    def wait() -> None:
        raise KeyboardInterrupt

    result = CliRunner().invoke(group, ["wait"])

    assert result.exit_code == 1
    assert result.stderr.strip() == "Interrupted."


def test_a_commands_own_exit_code_is_kept() -> None:
    """An integer that a command returns, or an exit that it asks for."""
    group = RootGroup("tool")
    group.add_command(click.Command("three", callback=lambda: 3))
    group.add_command(click.Command("four", callback=lambda: click.get_current_context().exit(4)))
    group.add_command(click.Command("text", callback=lambda: "done"))

    codes = [CliRunner().invoke(group, [name]).exit_code for name in ("three", "four", "text")]

    assert codes == [3, 4, 0]
