"""Code of a payload's modules comes from the stash only where the source is the same to the byte."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runner.execution.warm.far.stash import Stash, sources_of

ROOT = Path(__file__).parents[4]
SCRIPT = """
import sys, zipimport
from pathlib import Path
from runner.execution.warm.far.stash import Stash
stash = Stash()
stash.add(Path(sys.argv[1]))
stash.serve_payloads()
sys.path.insert(0, sys.argv[2])
import thing
print(thing.where(), thing.__file__, type(thing.__loader__).__name__, len(stash), thing.VALUE)
"""
SOURCE = "import sys\nVALUE = 1\ndef where():\n    return sys._getframe().f_code.co_filename\n"


def imported(folder: Path, *, known: str, shipped: str, archive: str) -> list[str]:
    """Import a module from a zip in a new process; return where it is from, and how many sources the stash has left."""
    source = folder / "thing_source.py"
    source.write_text(known)
    path = folder / archive
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("thing.py", shipped)
    command = [sys.executable, "-c", SCRIPT, str(source), str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


PAYLOAD = "ansible_x_payload_1/ansible_x_payload.zip"


@pytest.mark.parametrize(
    ("archive", "shipped", "left"),
    [(PAYLOAD, SOURCE, "0"), (PAYLOAD, SOURCE.replace("1", "2"), "1"), ("other/other.zip", SOURCE, "1")],
    ids=["the same source", "another source", "no payload"],
)
def test_only_the_same_source_in_a_payload_comes_from_the_stash(
    tmp_path: Path, archive: str, shipped: str, left: str
) -> None:
    """A module has the zip's path in its code and its value from the zip's source, whether the stash had it or not."""
    inside = str(tmp_path / archive / "thing.py")
    found = imported(tmp_path, known=SOURCE, shipped=shipped, archive=archive)
    assert found == [inside, inside, "zipimporter", left, "2" if "2" in shipped else "1"]


def test_what_cannot_be_compiled_is_not_kept(tmp_path: Path) -> None:
    """A source with an error is left to the module that needs it."""
    bad = tmp_path / "bad.py"
    bad.write_text("def (")
    assert Stash().add_all([bad, tmp_path / "missing.py"]) == 0


def test_names_are_found_as_files(tmp_path: Path) -> None:
    """Modules and module utilities, of ansible-core and of collections, are found without an import."""
    module = tmp_path / "ansible_collections/a/b/plugins/modules/m.py"
    utility = tmp_path / "ansible_collections/a/b/plugins/module_utils/u/__init__.py"
    for path in (module, utility):
        path.parent.mkdir(parents=True)
        path.touch()
    names = ["a.b.m", "ansible_collections.a.b.plugins.module_utils.u", "ansible.builtin.ping", "no.such.module"]
    found = sources_of([*names, "ansible.module_utils.basic"], collections_path=[str(tmp_path)])
    assert found[:2] == [module, utility]
    assert [path.name for path in found[2:]] == ["ping.py", "basic.py"]
