"""What each contestant is: the versions that its plays see, told by its own interpreter."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.bench.contestants import COLD, FLOOR, PEER, WARM, Contestant
from tools.operators import Side

_ASK = (
    "import platform; from importlib.metadata import version; "
    "print('ansible-core', version('ansible-core') + ',', 'ansible-runner', version('ansible-runner') + ',', "
    "'kubernetes client', version('kubernetes') + ',', 'Python', platform.python_version())"
)
_WHAT = {
    WARM: "ours with `--executor=warm`",
    COLD: "ours with `--executor=cold`",
    FLOOR: f"a run's API calls, made directly by one warm process (aiohttp, Python {platform.python_version()})",
    PEER: "the Go operator",
}  # fmt: skip


def describe(contestant: Contestant) -> str:
    """Return one sentence about *contestant*."""
    parts = [_WHAT[contestant.name]]
    if contestant.name == PEER:
        parts.append(_peer_version(contestant.side.program))
    if contestant.has_ansible:
        parts.append(_ansible(contestant.side))
    if contestant.environ:
        parts.append(_variables(contestant.environ))
    return "; ".join(parts)


def _ansible(side: Side) -> str:
    """Return the versions beside the ansible-playbook that *side* finds first."""
    path = ":".join(map(str, side.path))
    found = shutil.which("ansible-playbook", path=path)
    if found is None:
        raise OSError(f"{side.name}: no ansible-playbook in {path}: name its folder (PEER_PATH for the peer)")
    answer = subprocess.run([Path(found).parent / "python", "-c", _ASK], capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def _peer_version(program: Path) -> str:
    answer = subprocess.run([program, "version"], capture_output=True, text=True, check=False)
    return answer.stdout.strip().removeprefix("ansible-operator ").replace('"', "") or "of unknown version"


def _variables(environ: Mapping[str, str]) -> str:
    return "with " + ", ".join(f"`{name}={value}`" for name, value in sorted(environ.items()))
