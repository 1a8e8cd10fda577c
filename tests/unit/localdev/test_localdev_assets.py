"""Where the control plane's programs are found, and what is said when they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import LocalPlaneError
from runner.localdev.assets import find, in_folder
from runner.localdev.build import APPLETS
from runner.localdev.cache import Cache


def put(folder: Path, *names: str, mode: int = 0o755) -> Path:
    """Put programs that do nothing into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(mode)
    return folder


def silent(_: str) -> None:
    """Report nothing."""


def test_the_folder_in_kubebuilder_assets_wins_over_the_cache(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS decides where the programs come from, even when the cache has some."""
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "KUBEBUILDER_ASSETS": str(tmp_path / "named")}
    put(Cache.of(environ).binaries, *APPLETS)
    put(tmp_path / "named", *APPLETS)
    assert find(environ, report=silent).folder == tmp_path / "named"


def test_cached_programs_are_used_without_a_build(tmp_path: Path) -> None:
    """Programs that stand in the cache are used at once, although no go is in PATH."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}
    put(Cache.of(environ).binaries, *APPLETS)
    found = find(environ, report=silent)
    assert found.folder == Cache.of(environ).binaries
    assert found.limits() == ()


def test_only_etcd_and_apiserver_is_enough(tmp_path: Path) -> None:
    """A folder with only the two programs that envtest needs is accepted, and what is off is said."""
    found = in_folder(put(tmp_path / "a", "etcd", "kube-apiserver"), origin="KUBEBUILDER_ASSETS")
    assert found.api_only
    assert found.kubectl is None
    limits = found.limits()
    assert [line.split()[0] for line in limits] == ["kube-controller-manager", "kube-scheduler", "kwok", "kubectl"]
    assert "no garbage collection" in limits[0]


@pytest.mark.parametrize("missing", ["etcd", "kube-apiserver"])
def test_a_needed_program_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    """The error names the variable, the folder and the missing file."""
    put(tmp_path / "a", *(name for name in APPLETS if name != missing))
    with pytest.raises(LocalPlaneError, match="KUBEBUILDER_ASSETS") as caught:
        find({"KUBEBUILDER_ASSETS": str(tmp_path / "a")}, report=silent)
    assert str(tmp_path / "a") in str(caught.value)
    assert f"the file {missing} is missing" in str(caught.value)


def test_a_program_without_the_execute_bit_is_named(tmp_path: Path) -> None:
    """A file that cannot be executed is reported as that, not as missing."""
    put(tmp_path / "a", "kube-apiserver")
    put(tmp_path / "a", "etcd", mode=0o644)
    with pytest.raises(LocalPlaneError, match="the file etcd is not executable"):
        in_folder(tmp_path / "a", origin="KUBEBUILDER_ASSETS")


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS pointing nowhere is an error with the remedy, not a build."""
    with pytest.raises(LocalPlaneError, match="which is no folder") as caught:
        find({"KUBEBUILDER_ASSETS": str(tmp_path / "nowhere")}, report=silent)
    assert "Unset it" in str(caught.value)
