"""The `dev` commands where no plane runs: what they print and how they exit."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runner.cli.dev import dev
from runner.localdev.development import command, default_folder


def invoke(*arguments: str, environ: dict[str, str] | None = None) -> Result:
    """Run `dev` with *arguments*."""
    return CliRunner().invoke(dev, arguments, env=environ)


def test_down_without_a_plane_says_so_and_succeeds(tmp_path: Path) -> None:
    """There is nothing to stop: that is no failure."""
    result = invoke("down", "--dir", str(tmp_path / "p"))
    assert result.exit_code == 0
    assert "nothing to stop" in result.stderr


@pytest.mark.parametrize("command", ["env", "kubectl", "token"])
def test_commands_that_need_a_plane_name_the_remedy(tmp_path: Path, command: str) -> None:
    """Without a plane, env, kubectl and token fail and say how to start one."""
    result = invoke(command, "--dir", str(tmp_path / "p"))
    assert result.exit_code == 1
    assert f"dev up --dir {tmp_path / 'p'}`" in result.stderr
    assert result.stdout == ""


def test_status_without_a_plane_says_so(tmp_path: Path) -> None:
    """Status is a question: it answers, with exit code 1."""
    result = invoke("status", "--dir", str(tmp_path / "p"))
    assert result.exit_code == 1
    assert f"dev up --dir {tmp_path / 'p'}`" in result.stdout


def test_a_command_for_the_default_folder_names_none(tmp_path: Path) -> None:
    """What a person is told to type is as short as it can be, and quoted for a shell."""
    result = invoke("status", environ={"XDG_STATE_HOME": str(tmp_path)})
    assert "dev up`" in result.stdout
    assert command("env", tmp_path / "a plane").endswith(f"dev env --dir '{tmp_path}/a plane'")


def test_up_with_wrong_assets_is_one_message(tmp_path: Path) -> None:
    """An error of ours is printed without a traceback."""
    result = invoke("up", "--dir", str(tmp_path / "p"), environ={"KUBEBUILDER_ASSETS": str(tmp_path / "none")})
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: KUBEBUILDER_ASSETS names")


def test_the_default_folder_follows_xdg(tmp_path: Path) -> None:
    """The default folder is below XDG_STATE_HOME, else below ~/.local/state."""
    tail = Path("ansible-operator-runner") / "dev"
    assert default_folder({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / tail
    assert default_folder({"HOME": str(tmp_path)}) == tmp_path / ".local" / "state" / tail
    assert default_folder({"HOME": str(tmp_path), "XDG_STATE_HOME": "rel"}) == tmp_path / ".local" / "state" / tail
