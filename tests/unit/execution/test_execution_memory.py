"""How much memory is free, from the files that Linux has."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.execution.memory import FreeMemory, free_memory

MIB = 1024 * 1024


class Machine:
    """A /proc and a /sys/fs/cgroup in a folder."""

    def __init__(self, root: Path) -> None:
        """Begin with 1000 MiB of available memory, and no groups."""
        self.proc = root / "proc"
        self.groups = root / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        self.groups.mkdir()
        (self.proc / "meminfo").write_text("MemTotal:  9999999 kB\nMemFree:  1 kB\nMemAvailable:    1024000 kB\n")

    def is_in(self, *lines: str) -> None:
        """Write /proc/self/cgroup."""
        (self.proc / "self" / "cgroup").write_text("".join(f"{line}\n" for line in lines))

    def v2(self, folder: str, *, limit: str, usage: int, cache: int = 0) -> None:
        """Add a group of the second version; sizes are MiB."""
        path = self.groups / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / "memory.max").write_text(f"{limit if limit == 'max' else int(limit) * MIB}\n")
        (path / "memory.current").write_text(f"{usage * MIB}\n")
        (path / "memory.stat").write_text(f"anon 1\nactive_file 5\ninactive_file {cache * MIB}\n")

    def v1(self, folder: str, *, limit: int, usage: int, cache: int = 0) -> None:
        """Add a group of the first version; sizes are MiB."""
        path = self.groups / "memory" / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / "memory.limit_in_bytes").write_text(f"{limit * MIB}\n")
        (path / "memory.usage_in_bytes").write_text(f"{usage * MIB}\n")
        (path / "memory.stat").write_text(f"inactive_file 1\ntotal_inactive_file {cache * MIB}\n")

    def free(self) -> tuple[float, str] | None:
        """Return the MiB that are free, and who says so."""
        found = free_memory(proc=self.proc, cgroups=self.groups)
        if found is None:
            return None
        return found.size / MIB, found.source.removeprefix(f"{self.groups}").removeprefix("/")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine without groups."""
    return Machine(tmp_path)


def test_without_a_limit_it_is_what_the_machine_has_available(machine: Machine) -> None:
    """A group without a limit, and one whose limit is farther away, change nothing."""
    assert machine.free() == (1000, "MemAvailable")
    machine.is_in("0::/")
    machine.v2("", limit="max", usage=900)
    assert machine.free() == (1000, "MemAvailable")
    machine.v2("", limit="4000", usage=900)
    assert machine.free() == (1000, "MemAvailable")


def test_in_a_container_it_is_what_the_limit_leaves(machine: Machine) -> None:
    """The file cache that the kernel gives back first counts as free, that in use doesn't."""
    machine.is_in("0::/")
    machine.v2("", limit="768", usage=700, cache=300)

    assert machine.free() == (368, "")


def test_the_nearest_limit_on_the_way_up_counts(machine: Machine) -> None:
    """A pod's group may be narrower than its container's, a slice narrower than a service's."""
    machine.is_in("0::/pod/container")
    machine.v2("pod", limit="500", usage=450)
    machine.v2("pod/container", limit="400", usage=100)
    machine.v2("pod/other", limit="1", usage=1)
    assert machine.free() == (50, "pod")

    machine.v2("pod/container", limit="110", usage=100)
    assert machine.free() == (10, "pod/container")


def test_the_first_version_is_read_by_its_own_names(machine: Machine) -> None:
    """A container without a namespace of its own finds its group at the root, not at the path that it is told."""
    machine.is_in("4:memory:/kubepods/pod1", "3:cpuset,cpu:/other", "0::/")
    machine.v1("", limit=512, usage=500, cache=100)
    assert machine.free() == (112, "memory")

    machine.v1("kubepods/pod1", limit=300, usage=290)
    assert machine.free() == (10, "memory/kubepods/pod1")


def test_a_second_version_beside_the_first_is_read_too(machine: Machine) -> None:
    """The hybrid tree of systemd has it in a folder of its own."""
    machine.is_in("4:memory:/", "0::/x")
    machine.v1("", limit=500, usage=100)
    machine.v2("unified/x", limit="300", usage=100)

    assert machine.free() == (200, "unified/x")


def test_a_group_outside_of_what_is_seen_is_its_root(machine: Machine) -> None:
    """A process that was moved into another namespace sees its own group above the root."""
    machine.is_in("0::/../other")
    machine.v2("", limit="300", usage=100)

    assert machine.free() == (200, "")


def test_a_limit_below_the_usage_leaves_less_than_nothing(machine: Machine) -> None:
    """No guard may take a lowered limit for a missing one."""
    machine.is_in("0::/")
    machine.v2("", limit="100", usage=150)

    assert machine.free() == (-50, "")


def test_a_system_that_tells_nothing_has_no_answer(tmp_path: Path) -> None:
    """It is not Linux."""
    assert free_memory(proc=tmp_path / "a", cgroups=tmp_path / "b") is None


def test_this_machine_has_some() -> None:
    """The real files are read as they are."""
    found = free_memory()

    assert isinstance(found, FreeMemory)
    assert found.size > 0
