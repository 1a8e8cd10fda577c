"""What libraries read when they are imported decides which modules may use them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from runner.execution.warm.far import environment
from runner.execution.warm.far.environment import ImportedIn, import_libraries

GIVEN = {"A": "1", "LANG": "C.UTF-8", "PYTHONPATH": "/x"}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A third-party library that reads the environment when it is imported."""
    name = "reads_at_import"
    text = "import os, sys\nA = os.environ.get('FIRST'), os.getenv('SECOND'), 'THIRD' in os.environ\n"
    (tmp_path / f"{name}.py").write_text(text + "sys.path.append('/its/own')\nfrom os import environ\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_reads_at_import_are_recorded_with_their_reader(library: str) -> None:
    """Each variable that a library read is known, os.environ stays what it was, and sys.path too."""
    before, kind, path = os.environ, type(os.environ), list(sys.path)
    found = import_libraries([library, "no_such_library"])
    assert found.names == (library,)
    assert found.failed == ("no_such_library",)
    assert {name: by for name, by in found.reads.items() if library in by} == {
        "FIRST": (library,),
        "SECOND": (library,),
        "THIRD": (library,),
    }
    assert (os.environ is before, type(os.environ), sys.path) == (True, kind, path)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"A": "2"}, None),
        ({"READ": "2"}, "READ"),
        ({"LANG": "de"}, "LANG"),
        ({"LC_ALL": "C"}, "LC_ALL"),
        ({"PYTHONPATH": "/y", "LD_PRELOAD": "x"}, "LD_PRELOAD, PYTHONPATH"),
        ({"KUBECONFIG": "/k"}, None),
    ],
)
def test_an_environment_that_differs_in_what_was_read_is_refused(change: dict[str, str], names: str | None) -> None:
    """A difference counts where the interpreter or a library had read it, and can't be brought up to date."""
    reads = {"READ": ("some.library",), "KUBECONFIG": ("kubernetes.config.kube_config",)}
    imported_in = ImportedIn(reads, environ=GIVEN)
    expected = f"differs from the fork server's in {names}" if names else None
    assert imported_in.why_not({**GIVEN, **change}) == expected


def test_kubernetes_finds_the_kubeconfig_of_the_run() -> None:
    """The default that kubernetes.config took from KUBECONFIG is the module's own."""
    found = import_libraries(["kubernetes.config"])
    reads = found.reads if "KUBECONFIG" in found.reads else {"KUBECONFIG": ("kubernetes.config.kube_config",)}
    config = sys.modules["kubernetes.config"]
    before = config.KUBE_CONFIG_DEFAULT_LOCATION
    ImportedIn(reads).refresh({"KUBECONFIG": "/of/the/run"})
    try:
        assert sys.modules["kubernetes.config.kube_config"].KUBE_CONFIG_DEFAULT_LOCATION == "/of/the/run"
        assert config.KUBE_CONFIG_DEFAULT_LOCATION == "/of/the/run"
    finally:
        ImportedIn(reads).refresh({"KUBECONFIG": before})


def test_no_session_is_left_by_an_import() -> None:
    """boto3 has no default session after the import."""
    import_libraries(["boto3"])
    assert sys.modules["boto3"].DEFAULT_SESSION is None


def test_libraries_that_looked_at_everything_are_known() -> None:
    """A look at all variables is told of, as it can't be taken apart."""
    assert environment.all_seen({"*": ("b", "a"), "X": ("c",)}) == ("a", "b")
