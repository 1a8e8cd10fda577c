"""Certificates and keys that stand in a kubeconfig: where they are, and that no end of the process leaves them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from runner.execution.leftovers import sweep_leftovers
from runner.kube.credential_files import PREFIX
from runner.settings import environment

_PROGRAM = """\
import asyncio, os, pathlib, signal, sys
from runner.kube.client import load_configuration
from runner.kube.credential_files import remove_folder
from runner.settings import KubeSettings
for _ in range(2):
    made = asyncio.run(load_configuration(KubeSettings(kubeconfig=sys.argv[1])))
key = pathlib.Path(made.key_file)
print(key.read_text(), oct(key.stat().st_mode & 0o777), oct(key.parent.stat().st_mode & 0o777), key.parent, flush=True)
{end}
"""
_AT_ONCE = "remove_folder(); os._exit(1)"
_KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Write a kubeconfig with certificates and a key in it."""
    data = {name: base64.b64encode(name.encode()).decode() for name in ("ca", "cert", "key")}
    user = {"client-certificate-data": data["cert"], "client-key-data": data["key"]}
    document = {
        "clusters": [
            {"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority-data": data["ca"]}}
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document))
    return path


def _run(kubeconfig: Path, *, temporary: Path, end: str) -> str:
    temporary.mkdir()
    argv = [sys.executable, "-c", _PROGRAM.format(end=end), str(kubeconfig)]
    environ = {**environment(), "TMPDIR": str(temporary)}
    return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False, timeout=120).stdout


@pytest.mark.parametrize("end", ["", _AT_ONCE], ids=["in-order", "at-once"])
def test_the_key_goes_with_the_process(kubeconfig: Path, tmp_path: Path, end: str) -> None:
    """It is in a file of 0600 in a folder of 0700, and the temporary folder is empty afterwards."""
    temporary = tmp_path / "tmp"
    text, file_mode, folder_mode, folder = _run(kubeconfig, temporary=temporary, end=end).split()
    assert (text, file_mode, folder_mode) == ("key", "0o600", "0o700")
    assert Path(folder).parent == temporary
    assert Path(folder).name.startswith(PREFIX)
    assert list(temporary.iterdir()) == []


def test_the_key_of_a_killed_process_is_swept(kubeconfig: Path, tmp_path: Path) -> None:
    """The next operator removes what a SIGKILL left."""
    temporary = tmp_path / "tmp"
    folder = Path(_run(kubeconfig, temporary=temporary, end=_KILLED).split()[3])
    assert list(temporary.iterdir()) == [folder]
    assert sweep_leftovers(temporary) == 1
    assert list(temporary.iterdir()) == []
