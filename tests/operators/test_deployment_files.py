"""The image, the pins and the manifests name things that exist and agree with each other."""

from __future__ import annotations

import json
import re
import shlex
import sysconfig
from pathlib import Path

import pytest
import yaml

from runner.settings import Settings
from runner.watches.loader import load_watches

ROOT = Path(__file__).resolve().parents[2]
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)", re.MULTILINE)


def instructions() -> list[list[str]]:
    """Return the words of each instruction of the Dockerfile, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line.strip() and not line.startswith("ENTRYPOINT")]


def copied() -> list[str]:
    """Return what the image takes from the tree."""
    found: list[str] = []
    for word, *arguments in instructions():
        if word == "COPY" and not any(argument.startswith("--from=") for argument in arguments):
            found += [argument for argument in arguments if not argument.startswith("--")][:-1]
    return found


def test_everything_that_the_image_copies_exists_and_is_not_ignored() -> None:
    """Each source of a COPY is in the tree, and .dockerignore lets it through."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied()
    for source in copied():
        assert (ROOT / source).exists(), source
        assert Path(source).parts[0] in allowed, source


def test_image_holds_all_the_content() -> None:
    """Watches, roles, playbooks and plugins are in the image."""
    assert {"watches.yaml", "roles", "playbooks", "plugins"} <= set(copied())


def test_image_runs_as_the_fields_user_from_its_home() -> None:
    """The user, the home and the entry point are those that the field's manifests expect."""
    words = instructions()
    assert ["USER", "1001"] in words
    assert ["WORKDIR", "/opt/ansible"] in words
    entry = re.search(r"^ENTRYPOINT (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert entry is not None
    assert json.loads(entry.group(1))[1:] == ["run", "--watches-file=./watches.yaml"]


def test_build_pins_are_those_of_the_development_pins() -> None:
    """The tools that build the wheel have the same versions and hashes as in dev.txt."""
    development = (ROOT / "requirements" / "dev.txt").read_text()
    build = (ROOT / "requirements" / "build.txt").read_text()
    assert dict(_PIN.findall(build)).items() <= dict(_PIN.findall(development)).items()
    hashes = re.findall(r"--hash=\S+", build)
    assert hashes
    assert all(one in development for one in hashes)


@pytest.mark.parametrize("name", ["amazon.aws", "kubernetes.core"])
def test_collections_are_the_pinned_ones(name: str) -> None:
    """The versions in requirements.yml are those that the environment got."""
    wanted = {
        one["name"]: one["version"] for one in yaml.safe_load((ROOT / "requirements.yml").read_text())["collections"]
    }
    collections = Path(sysconfig.get_path("purelib")) / "ansible_collections"
    manifest = collections / name.replace(".", "/") / "MANIFEST.json"
    assert json.loads(manifest.read_text())["collection_info"]["version"] == wanted[name]


def test_watches_take_nothing_for_a_template() -> None:
    """Every watch of the shipped operators has markUnsafe and a finalizer, and its content exists (P3)."""
    watches = load_watches(ROOT / "watches.yaml", settings=Settings(), environ={}, cwd=ROOT).watches
    assert watches
    for watch in watches:
        assert watch.mark_unsafe
        assert watch.finalizer is not None
        assert watch.finalizer.name.startswith("aws.ansible-operator.io/")


def test_crds_have_one_home() -> None:
    """`config/crd` refers to /crds, and /crds lists every definition there."""
    listed = yaml.safe_load((ROOT / "crds" / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(
        path.name for path in (ROOT / "crds").glob("*.yaml") if path.name != "kustomization.yaml"
    )
    referring = yaml.safe_load((ROOT / "config" / "crd" / "kustomization.yaml").read_text())
    assert referring["resources"] == ["../../crds"]
    assert list((ROOT / "config" / "crd").glob("*.yaml")) == [ROOT / "config" / "crd" / "kustomization.yaml"]
