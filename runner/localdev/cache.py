"""The per-user cache of what is built once: where it is, who may write, how long things took last time.

`build` fills it, `assets` looks into it. A folder's name holds the Kubernetes version and a hash of the Go sources,
so that a change of either is another folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from runner.errors import LocalPlaneError

Report = Callable[[str], None]
"""Takes one line of progress for a person."""

SOURCES = Path(__file__).parent / "kubernetes"
_WATCHED = (".go", ".mod", ".sum")


def kubernetes_version(sources: Path = SOURCES) -> str:
    """Return the version of Kubernetes that *sources* pin in their go.mod, such as `1.36.3`."""
    found = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", (sources / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LocalPlaneError(
            f"{sources / 'go.mod'} names no version of k8s.io/kubernetes: restore it from the package"
        )
    return found.group(1)


def key(sources: Path = SOURCES) -> str:
    """Return the name of the cache folder for *sources* on this kind of machine."""
    digest = hashlib.sha256()
    for path in sorted(path for path in sources.iterdir() if path.suffix in _WATCHED):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    machine = f"{sys.platform}-{platform.machine().lower()}"
    return f"kubernetes-{kubernetes_version(sources)}-{machine}-{digest.hexdigest()[:12]}"


@contextlib.contextmanager
def locked(path: Path, *, waiting: str, report: Report) -> Iterator[None]:
    """Hold the lock file *path*; report *waiting*, and wait, while another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{waiting}: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Cache:
    """The folder of this package below the user's cache folder."""

    def __init__(self, root: Path) -> None:
        """Use *root*, which need not exist yet."""
        self.root = root

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Cache:
        """Return the cache below $XDG_CACHE_HOME (where it is absolute, as its specification asks), else ~/.cache."""
        named = Path(environ.get("XDG_CACHE_HOME", ""))
        base = named if named.is_absolute() else Path(environ.get("HOME") or Path.home()) / ".cache"
        return cls(base / "ansible-operator-runner" / "localplane")

    @property
    def binaries(self) -> Path:
        """Return the folder that holds the programs of this version, once they are built."""
        return self.root / key()

    @contextlib.contextmanager
    def lock(self, *, report: Report) -> Iterator[None]:
        """Hold the right to write."""
        with locked(self.root / "lock", waiting=f"another process is building in {self.root}", report=report):
            yield

    def last_duration(self, task: str) -> float | None:
        """Return how many seconds *task* took last time, None where nobody knows."""
        value = self._durations().get(task)
        return float(value) if isinstance(value, int | float) else None

    def remember_duration(self, task: str, *, seconds: float) -> None:
        """Keep the duration of *task* for the next one who waits."""
        self.root.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**self._durations(), task: round(seconds, 1)}, indent=1)
        (self.root / "durations.json").write_text(text)

    def _durations(self) -> Mapping[str, object]:
        """Return what is remembered; a damaged file costs only the estimate."""
        try:
            known = json.loads((self.root / "durations.json").read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}
