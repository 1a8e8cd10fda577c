"""The list of licences: what each package says, and what stops a build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import licences

MIT = "License :: OSI Approved :: MIT License"
BSD = "License :: OSI Approved :: BSD License"


def said(*, expression: str = "", classifiers: Sequence[str] = (), field: str = "") -> dict[str, Sequence[str]]:
    """Return what a package's metadata says."""
    return {
        "License-Expression": [expression] if expression else [],
        "Classifier": ["Topic :: Internet", *classifiers],
        "License": [field] if field else [],
    }


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with one pinned package that is installed wherever tests run, and one collection."""
    for folder in ("requirements", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "requirements/runtime.txt").write_text("pyyaml==6.0 \\\n    --hash=sha256:00\n")
    (tmp_path / "requirements.yml").write_text("collections: [{name: amazon.aws, version: 1.0.0}]\n")
    return tmp_path


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        (said(expression="MIT OR ISC", classifiers=[BSD], field="BSD"), "MIT OR ISC"),
        (said(classifiers=[BSD], field="ISC"), "ISC"),
        (said(classifiers=[BSD, MIT], field="Dual License"), "BSD-3-Clause OR MIT"),
        (said(field="MIT"), "MIT"),
        (said(field="Do what you want\nand more"), "Do what you want"),
    ],
)
def test_a_package_is_taken_at_its_most_exact_word(metadata: dict[str, Sequence[str]], licence: str) -> None:
    """An expression, else an exact word of the old field, else the classifiers, else the first line of the field."""
    assert licences.licence_of("it", said=metadata) == licence


def test_a_package_without_a_licence_is_refused() -> None:
    """Nobody may hand on what has no licence."""
    with pytest.raises(licences.LicenceError, match="it tells no licence"):
        licences.licence_of("it", said=said())


@pytest.mark.parametrize("expression", ["AGPL-3.0-only", "MIT AND SSPL-1.0", "Do what you want"])
def test_an_unknown_licence_is_refused_by_name(expression: str) -> None:
    """Each part of an expression has to be one that somebody has read."""
    with pytest.raises(licences.LicenceError, match=r"it is under .*ALLOWED"):
        licences.refuse_unknown([("it", expression)])


def test_a_stale_page_is_refused_and_written_anew(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check writes nothing, and names the command that does."""
    assert licences.main(["--check"], root=tree) == 1
    assert "stale: run `make licences`" in capsys.readouterr().err
    assert licences.main([], root=tree) == 0
    rows = (tree / "docs/licences.md").read_text().splitlines()[-2:]
    assert rows == ["| pyyaml | MIT |", "| collection amazon.aws | GPL-3.0-or-later |"]
    assert licences.main(["--check"], root=tree) == 0


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        (
            "requirements/runtime.txt",
            "nosuchpackage==1.0\n",
            "nosuchpackage of requirements/runtime.txt is not installed",
        ),
        ("requirements.yml", "collections: [{name: no.such}]\n", "the collection no.such is not installed"),
    ],
)
def test_what_is_not_installed_is_named(
    tree: Path, capsys: pytest.CaptureFixture[str], file: str, text: str, sentence: str
) -> None:
    """A package or collection that can't be asked is an error, not a gap in the list."""
    (tree / file).write_text(text)
    assert licences.main(["--check"], root=tree) == 1
    assert sentence in capsys.readouterr().err
