"""docs/security.md claims nothing that no test shows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)


def test_each_test_that_the_page_names_is_there() -> None:
    """A file, and a function in it where one is named."""
    assert len(NAMED) >= 20
    for file, function in NAMED:
        text = (ROOT / file).read_text()
        assert not function or re.search(rf"^(?:async )?def {function}\(", text, re.MULTILINE), f"{file}::{function}"


def test_each_row_of_the_page_names_a_test() -> None:
    """What holds is shown, or stands below what is open."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| an attacker")]
    assert rows
    for row in rows:
        assert "`tests/" in row.rsplit("|", 2)[1], row
