"""The base image keeps what Dockerfiles and manifests in the field build on (contract of the Go operator's image)."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def stages() -> dict[str, str]:
    """Return the instructions of each stage of the Dockerfile by its name; the last one is `final`."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    parts = re.split(r"^FROM (\S+)(?: AS (\S+))?\n", text, flags=re.MULTILINE)[1:]
    return {name or "final": f"FROM {image}\n{body}" for image, name, body in zip(*[iter(parts)] * 3, strict=True)}


def test_the_base_holds_no_operator_of_ours() -> None:
    """A derived image starts without watches, roles and CRDs; the shipped image is the base with ours."""
    assert not re.search(r"^COPY (?!--from=build)", stages()["base"], re.MULTILINE)
    assert stages()["final"].startswith("FROM base\n")
    assert re.findall(r"^COPY \S+ (\S+)", stages()["final"], re.MULTILINE) == [
        "watches.yaml",
        "roles",
        "handlers",
        "playbooks",
        "crds",
    ]


def test_the_base_has_the_paths_that_the_field_names() -> None:
    """The home, the user, the program, /tini and Ansible's configuration are where the Go operator's image has them."""
    base = stages()["base"]
    for piece in (
        "HOME=/opt/ansible",
        "USER 1001",
        "WORKDIR /opt/ansible",
        "/usr/local/bin/ansible-operator",
        " /tini",
        "/etc/ansible/ansible.cfg",
        "/etc/ansible/hosts",
    ):
        assert piece in base, piece


def test_a_derived_image_may_install_collections_into_its_home() -> None:
    """No path of collections is set: `ansible-galaxy` of user 1001 writes below its home, and both places are found."""
    for stage in ("base", "final"):
        assert "ANSIBLE_COLLECTIONS_PATH" not in stages()[stage]
