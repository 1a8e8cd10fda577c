"""The first boot of one machine: what is final, and what is tried again."""

from __future__ import annotations

import base64
import gzip
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from runner.errors import LocalPlaneError
from runner.localdev.machines.disks import Disks
from runner.localdev.machines.join import Join
from runner.localdev.machines.machine import Machine, Surroundings
from runner.localdev.machines.metadata import Metadata
from runner.logs import Logger, RecordingSink

NOT_JOINED = "The machine did not join; cloud-init does not try again"
EKS = "#!/bin/bash\n/etc/eks/bootstrap.sh demo --apiserver-endpoint https://127.0.0.1:1\n"


class Site:
    """One machine, i-1, and what is around it."""

    def __init__(self, folder: Path, *, user_data: str, eks: Callable[[Join], Join]) -> None:
        """Let the machine boot by *user_data*."""
        self.sink = RecordingSink()
        self.disks = Disks(folder)
        around = Surroundings(
            disks=self.disks,
            user_data=lambda _: user_data,
            eks=eks,
            limit=60.0,
            ended=threading.Event(),
            logger=Logger(sink=self.sink),
        )
        self.machine = Machine(Metadata(instance_id="i-1"), surroundings=around)


def site(folder: Path, *, user_data: str) -> Site:
    """Return a site whose EKS is away."""

    def away(_: Join) -> Join:
        raise LocalPlaneError("the local API server did not answer")

    return Site(folder, user_data=user_data, eks=away)


def test_a_hiccup_of_the_api_server_does_not_end_a_join_to_eks(tmp_path: Path) -> None:
    """What EKS does for a machine is tried again where it fails: the boot isn't over, and nothing is on the disk."""
    found = site(tmp_path, user_data=EKS)
    with pytest.raises(LocalPlaneError, match="did not answer"):
        found.machine.switch_on()
    assert found.disks.read("i-1") is None
    assert found.sink.records == []


def test_a_file_that_cannot_be_unpacked_ends_the_boot(tmp_path: Path) -> None:
    """A damaged gzip in the user data is final: the log says which file, once."""
    damaged = base64.b64encode(gzip.compress(b"x")[:10] + b"\xff" * 20).decode()
    entry = {"path": "/join.sh", "encoding": "gz+b64", "content": damaged}
    found = site(tmp_path, user_data="#cloud-config\n" + yaml.safe_dump({"write_files": [entry]}))
    found.machine.switch_on()
    found.machine.switch_on()
    assert found.sink.sentences() == [NOT_JOINED]
    assert "the file /join.sh in the user data isn't gz+b64" in str(found.sink.records[0]["error"])


@pytest.mark.parametrize(
    ("user_data", "level"),
    [
        ("#!/bin/sh\nretry 5 kubeadm join s:1\n", "warn"),
        ("#cloud-config\nruncmd: [own-k3s-installer]\n", "warn"),
        ("#!/bin/sh\napt-get install nginx\n", "info"),
        ("", "info"),
    ],
)
def test_a_join_that_is_not_understood_is_hinted_at(tmp_path: Path, user_data: str, level: str) -> None:
    """User data that names a program that joins, and in which we find no join, is a warning."""
    found = site(tmp_path, user_data=user_data)
    found.machine.switch_on()
    assert [record["level"] for record in found.sink.records] == [level]
