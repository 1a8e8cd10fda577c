"""The kubeconfig of a run: self-contained, private, gone with the run."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.errors import ExecutionError
from runner.execution.kubeconfigs import RunKubeconfig
from runner.settings import KubeSettings
from runner.testing.executor import run_request


def _config(path: Path, *, name: str, current: str = "", **user: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}", "certificate-authority": "ca.crt"}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def _written(folder: Path, kubeconfig: str, **more: Any) -> dict[str, Any]:
    source = RunKubeconfig(settings=KubeSettings(kubeconfig=kubeconfig), environ=more.pop("environ", {}), **more)
    with source.for_run(run_request(), folder=folder) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        document: dict[str, Any] = json.loads(path.read_text())
    assert not path.exists()
    return document


def test_relative_paths_become_absolute(tmp_path: Path) -> None:
    """Files beside the kubeconfig are found from anywhere; a bare program name is looked up in PATH."""
    path = _config(tmp_path / "a/config", name="a", current="a", exec={"command": "bin/login"}, tokenFile="token")
    document = _written(tmp_path, str(path))
    assert document["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "a/ca.crt")
    assert document["users"][0]["user"]["exec"]["command"] == str(tmp_path / "a/bin/login")
    assert document["users"][0]["user"]["tokenFile"] == str(tmp_path / "a/token")
    bare = _config(tmp_path / "b/config", name="b", exec={"command": "aws"})
    assert _written(tmp_path, str(bare))["users"][0]["user"]["exec"]["command"] == "aws"


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    """Entries of one name come from the first file, and so does the current context; a missing file is skipped."""
    first = _config(tmp_path / "1/config", name="same", token="first")
    second = _config(tmp_path / "2/config", name="same", current="same", token="second")
    third = _config(tmp_path / "3/config", name="other", current="other")
    document = _written(tmp_path, f"{first}:/nosuch:{second}:{third}")
    assert [user["name"] for user in document["users"]] == ["same", "other"]
    assert document["users"][0]["user"]["token"] == "first"
    assert document["current-context"] == "same"


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_in_a_cluster_the_token_stays_in_its_file(tmp_path: Path, host: str, server: str) -> None:
    """The kubeconfig refers to the service account's token, which is rotated there."""
    (tmp_path / "token").write_text("secret")
    (tmp_path / "namespace").write_text("operators")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    document = _written(tmp_path, "", environ=environ, service_account=tmp_path)
    assert document["clusters"][0]["cluster"]["server"] == server
    assert document["users"][0]["user"] == {"tokenFile": str(tmp_path / "token")}
    assert document["contexts"][0]["context"]["namespace"] == "operators"


@pytest.mark.parametrize("content", ["[1, 2]", "{token: 'canary", None])
def test_a_kubeconfig_that_cannot_be_used_is_named_without_its_content(tmp_path: Path, content: str | None) -> None:
    """A missing or broken file gives an error with the path and the remedy; a broken one may hold a credential."""
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ExecutionError, match=r"config.*set KUBECONFIG") as raised:
        _written(tmp_path, str(path))
    assert "canary" not in str(raised.value)


def test_the_file_goes_even_if_the_run_fails(tmp_path: Path) -> None:
    """An exception in the run removes the credentials too."""
    source = RunKubeconfig(settings=KubeSettings(kubeconfig=str(_config(tmp_path / "config", name="a"))), environ={})
    folder = tmp_path / "scratch"
    folder.mkdir()
    with pytest.raises(ZeroDivisionError), source.for_run(run_request(), folder=folder):
        raise ZeroDivisionError
    assert list(folder.iterdir()) == []
