"""The lock files: what they pin agrees, and each pin carries its hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "requirements"
LOCKS = ("runtime.txt", "dev.txt", "build.txt", "collections.txt", "ansible-2.18.txt")


def logical_lines(name: str) -> list[str]:
    """Return the lines of a lock file, with continued ones joined and comments removed."""
    text = (FOLDER / name).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def pins(name: str) -> set[str]:
    """Return the `package==version` of each line."""
    return {line.split()[0] for line in logical_lines(name)}


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_is_a_pin_with_a_hash(name: str) -> None:
    """No option, index or address is in a lock file: where packages come from is the machine's own setting."""
    for line in logical_lines(name):
        assert re.match(r"^[a-z0-9.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line), line


@pytest.mark.parametrize("name", ["runtime.txt", "build.txt"])
def test_an_image_gets_what_the_tests_ran_with(name: str) -> None:
    """What an image installs is pinned to the same versions as in a clone."""
    assert pins(name) <= pins("dev.txt")
