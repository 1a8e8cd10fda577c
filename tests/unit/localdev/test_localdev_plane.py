"""A plane's life with scripts in the place of its programs: claims, refusals, undoing, and its state file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.errors import LocalPlaneError
from runner.kube.objects import conditions_of, labels_of
from runner.localdev import state
from runner.localdev.assets import Assets, in_folder
from runner.localdev.components import EC2, MACHINES, Layout, Ports, commands, component_environment
from runner.localdev.nodes import fake_node
from runner.localdev.plane import ControlPlane, PlaneOptions
from runner.localdev.processes import is_running
from runner.localdev.state import PlaneState

PORTS = Ports(etcd=1, etcd_peer=2, apiserver=3, controller_manager=4, scheduler=5, kwok=6, ec2=7)


def programs(folder: Path, **scripts: str) -> Assets:
    """Make programs of shell scripts; `_` in a name stands for `-`."""
    folder.mkdir()
    for name, script in {"etcd": "exec sleep 600", "kube_apiserver": "exec sleep 600", **scripts}.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return in_folder(folder, origin="the test")


def record(assets: Assets) -> PlaneState:
    """Return the state of a plane that has no process yet."""
    options = PlaneOptions(nodes=2, apiserver_args=("--v=2",))
    return PlaneState(assets=assets.folder, ports=PORTS, options=options, made_folder=True)


def test_a_failed_start_undoes_everything_but_the_logs(tmp_path: Path) -> None:
    """A start that fails ends what it started, removes its files, and says which log to read."""
    assets = programs(tmp_path / "bin", etcd="echo $$; exec sleep 600", kube_apiserver="echo boom; exit 3")
    folder = tmp_path / "plane"
    with pytest.raises(LocalPlaneError, match="kube-apiserver ended") as caught:
        ControlPlane.start(folder=folder, assets=assets)
    assert "boom" in str(caught.value)
    assert str(folder / "logs" / "kube-apiserver.log") in str(caught.value)
    assert [path.name for path in folder.iterdir()] == ["logs"]
    written = (folder / "logs" / "etcd.log").read_text().strip()
    assert not written or not is_running(int(written))


def test_a_start_that_takes_too_long_fails(tmp_path: Path) -> None:
    """An API server that never answers is ended at the limit."""
    assets = programs(tmp_path / "bin")
    with pytest.raises(LocalPlaneError, match="not ready after 0 s: kube-apiserver /readyz"):
        ControlPlane.start(folder=tmp_path / "plane", assets=assets, options=PlaneOptions(start_limit=0))
    assert not state.exists(tmp_path / "plane")


def test_a_plane_whose_starter_was_killed_can_be_stopped(tmp_path: Path) -> None:
    """What is on disk while a plane starts is enough for another command to end it."""
    folder = tmp_path / "plane"
    folder.mkdir()
    assets = programs(tmp_path / "bin")
    record(assets).claim(folder)
    first = ControlPlane(folder, record=state.read(folder))
    first._layout.logs.mkdir()
    first._spawn(["etcd", "kube-apiserver"])
    later = ControlPlane.load(folder)
    assert later.components() == {"etcd": True, "kube-apiserver": True}
    assert not later.running
    shutil.rmtree(assets.folder)
    later.stop()
    assert first.components() == {"etcd": False, "kube-apiserver": False}
    assert not folder.exists()
    later.stop()


def test_a_folder_with_a_plane_is_not_taken_again(tmp_path: Path) -> None:
    """Starting where a plane is, or is being started, is refused and harms nothing."""
    assets = programs(tmp_path / "bin")
    folder = tmp_path / "plane"
    folder.mkdir()
    record(assets).claim(folder)
    with pytest.raises(LocalPlaneError, match="has a control plane already"):
        ControlPlane.start(folder=folder, assets=assets)
    assert state.exists(folder)


def test_files_of_somebody_else_are_not_overwritten(tmp_path: Path) -> None:
    """A folder with a file under one of our names, but no plane, is refused."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kubeconfig").write_text("precious")
    with pytest.raises(LocalPlaneError, match="has kubeconfig, but no control plane"):
        ControlPlane.start(folder=tmp_path / "mine", assets=programs(tmp_path / "bin"))
    assert (tmp_path / "mine" / "kubeconfig").read_text() == "precious"


def test_other_files_in_a_named_folder_survive(tmp_path: Path) -> None:
    """Stopping empties a folder only of what the plane made."""
    folder = tmp_path / "plane"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    record(programs(tmp_path / "bin")).claim(folder)
    ControlPlane.load(folder).stop()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_nodes_without_kwok_are_refused(tmp_path: Path) -> None:
    """Asking for fake nodes where nothing can play them is an error with the remedy."""
    assets = programs(tmp_path / "bin")
    with pytest.raises(LocalPlaneError, match="2 fake nodes need kwok and kube-controller-manager"):
        ControlPlane.start(folder=tmp_path / "plane", assets=assets, options=PlaneOptions(nodes=2))
    assert not (tmp_path / "plane").exists()


def test_instances_join_only_where_there_are_instances_and_kubelets(tmp_path: Path) -> None:
    """Asking for it without the emulator, or without what plays nodes, is an error with the remedy."""
    assets = programs(tmp_path / "bin")
    with pytest.raises(LocalPlaneError, match="only where the EC2 emulator runs"):
        ControlPlane.start(folder=tmp_path / "plane", assets=assets, options=PlaneOptions(join_instances=True))
    both = PlaneOptions(ec2=True, join_instances=True)
    with pytest.raises(LocalPlaneError, match="instances that join need kwok and kube-controller-manager"):
        ControlPlane.start(folder=tmp_path / "plane", assets=assets, options=both)
    assert not (tmp_path / "plane").exists()


def test_the_state_is_private_and_survives(tmp_path: Path) -> None:
    """What is read is what was written, and only the owner can read it."""
    written = record(programs(tmp_path / "bin"))
    written.claim(tmp_path)
    assert state.read(tmp_path) == written
    assert (tmp_path / "plane.json").stat().st_mode & 0o777 == 0o600


def test_no_state_names_the_remedy(tmp_path: Path) -> None:
    """Loading a plane that isn't there says how to start one."""
    with pytest.raises(LocalPlaneError, match="dev up"):
        ControlPlane.load(tmp_path)


@pytest.mark.parametrize("change", ["{", "[]", '{"version": 99}', "{}"])
def test_a_state_that_cannot_be_understood_is_named(tmp_path: Path, change: str) -> None:
    """A damaged state file, or one of another version, is reported with its path."""
    (tmp_path / "plane.json").write_text(change)
    with pytest.raises(LocalPlaneError, match="cannot read") as caught:
        state.read(tmp_path)
    assert str(tmp_path / "plane.json") in str(caught.value)


def test_an_unknown_component_is_answered_with_the_known(tmp_path: Path) -> None:
    """Killing a component that the plane doesn't have is an error that lists those it has."""
    plane = ControlPlane(tmp_path, record=record(programs(tmp_path / "bin")))
    with pytest.raises(LocalPlaneError, match="no component 'kubelet'"):
        plane.kill_component("kubelet")


def test_the_machines_are_ready_when_they_say_so(tmp_path: Path) -> None:
    """What is missing of the machines alone is explained by their own log: no check of theirs is of another process."""
    plane = ControlPlane(tmp_path, record=record(programs(tmp_path / "bin")))
    assert {check.process for check in plane._checks_of_emulator(MACHINES)} == {MACHINES}


def test_only_what_is_there_is_started(tmp_path: Path) -> None:
    """Programs that are missing, and an emulator that nobody asked for, have no command."""
    bare, layout = programs(tmp_path / "bin"), Layout(folder=tmp_path)
    assert list(commands(layout, assets=bare, ports=PORTS)) == ["etcd", "kube-apiserver"]
    assert list(commands(layout, assets=bare, ports=PORTS, ec2=True)) == ["etcd", "kube-apiserver", "ec2"]


def test_nothing_listens_beyond_loopback_or_without_tls(tmp_path: Path) -> None:
    """Every address in a command line is 127.0.0.1, and only kwok's and the emulator's health is plain HTTP."""
    assets = programs(tmp_path / "bin", kube_controller_manager="", kube_scheduler="", kwok="")
    lines = commands(Layout(folder=tmp_path), assets=assets, ports=PORTS)
    text = json.dumps(lines)
    assert "=0.0.0.0" not in text
    assert "//0.0.0.0" not in text
    assert "http://" not in text
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert "--bind-address=127.0.0.1" in lines[name]
    assert "--client-cert-auth" in lines["etcd"]
    assert "--peer-client-cert-auth" in lines["etcd"]


def test_further_flags_of_the_api_server_come_last(tmp_path: Path) -> None:
    """A test's own flag wins over ours, as the last one counts."""
    lines = commands(Layout(folder=tmp_path), assets=programs(tmp_path / "bin"), ports=PORTS, apiserver_args=("--v=9",))
    assert lines["kube-apiserver"][-1] == "--v=9"


def test_real_aws_credentials_reach_no_component(tmp_path: Path) -> None:
    """The emulator gets the environment without AWS_*, the others nothing of it."""
    environ = {"AWS_SECRET_ACCESS_KEY": "real", "LANG": "C", "PATH": "/x"}
    layout = Layout(folder=tmp_path)
    assert component_environment(EC2, layout=layout, environ=environ) == {"LANG": "C", "PATH": "/x"}
    assert "LANG" not in component_environment("etcd", layout=layout, environ=environ)


def test_a_fake_node_starts_not_ready_with_texts_that_stay_texts() -> None:
    """A Node registers as Ready=False, with the label that kwok looks for and no nodeInfo that reads as a number."""
    node = fake_node("n1", address="10.0.0.9", labels={"pool": "a"}, capacity={"cpu": "8"}, provider_id="aws:///a/i-1")
    assert [(entry["type"], entry["status"]) for entry in conditions_of(node)] == [("Ready", "False")]
    assert labels_of(node)["kwok.x-k8s.io/node"] == "fake"
    assert labels_of(node)["pool"] == "a"
    assert node["spec"] == {"providerID": "aws:///a/i-1"}
    assert node["status"]["allocatable"]["cpu"] == "8"
    for value in node["status"]["nodeInfo"].values():
        assert not value.replace(".", "").isdigit()
