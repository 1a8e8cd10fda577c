"""Importing modules' libraries before the fork, and telling in which environments those imports still stand.

A module that is started cold imports its libraries with its own environment. What they read of it while they were
imported here is recorded; a module whose environment differs there is started cold (`why_not`), except for what is
known how to bring up to date (`refresh`). Used by `server` (import) and `module_server` (the rest).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

_AT_START = ("PYTHON", "LC_", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_", "SSL_CERT_", "BASH_")
"""Beginnings of variables that the interpreter, the C library, OpenSSL or a shell read when they start."""
_ALSO_AT_START = frozenset({"LANG", "LANGUAGE", "HOME", "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "CDPATH"})
EVERYTHING = "*"
"""Stands for a look at all variables."""
_OWN_READERS = ("os", "_collections_abc", "collections", "posixpath", "genericpath", "pathlib", "importlib")
_KUBECONFIG = "KUBE_CONFIG_DEFAULT_LOCATION"
_HOLDING_CREDENTIALS = ("boto3", "DEFAULT_SESSION")


@dataclass(frozen=True, kw_only=True)
class Libraries:
    """What was imported for modules."""

    names: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """Names that can't be imported: a module that needs one will say so itself."""
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which variables were read, by which libraries; `*` for a look at all of them."""


def import_libraries(names: Iterable[str]) -> Libraries:
    """Import *names*, and record what they read of the environment."""
    done: list[str] = []
    failed: list[str] = []
    with reads_recorded() as reads, _same_path():
        for name in names:
            (done if _import(name) else failed).append(name)
    module, attribute = _HOLDING_CREDENTIALS
    if getattr(sys.modules.get(module), attribute, None) is not None:
        setattr(sys.modules[module], attribute, None)  # a session belongs to one object's run
    return Libraries(
        names=tuple(done), failed=tuple(failed), reads={name: tuple(sorted(by)) for name, by in reads.items()}
    )


def _import(name: str) -> bool:
    try:
        importlib.import_module(name)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever a library raises at import, it costs only speed here
        return False
    return True


@contextlib.contextmanager
def _same_path() -> Iterator[None]:
    """Keep what imports do to sys.path and sys.argv from later modules."""
    path, argv = list(sys.path), list(sys.argv)
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, argv


@contextlib.contextmanager
def reads_recorded() -> Iterator[Mapping[str, set[str]]]:
    """Record who reads which variable. os.environ stays the same object, as libraries keep it."""
    reads: dict[str, set[str]] = {}
    kind = type(os.environ)

    class Recording(kind):  # type: ignore[misc,valid-type]
        def __getitem__(self, key: str) -> str:
            reads.setdefault(key, set()).add(_reader())
            return super().__getitem__(key)  # type: ignore[no-any-return]

        def __iter__(self) -> Iterator[str]:
            reads.setdefault(EVERYTHING, set()).add(_reader())
            return super().__iter__()  # type: ignore[no-any-return]

    os.environ.__class__ = Recording
    try:
        yield reads
    finally:
        os.environ.__class__ = kind


def _reader() -> str:
    """Return the module outside os and pathlib that is reading."""
    depth = 1
    with contextlib.suppress(ValueError):  # no frame is so deep
        while depth:
            name = str(sys._getframe(depth).f_globals.get("__name__"))  # noqa: SLF001 - as warnings and logging do
            if name.partition(".")[0] not in _OWN_READERS and name != __name__:
                return name
            depth += 1
    return "?"


def _refresh_kubeconfig(environ: Mapping[str, str]) -> None:
    for name, default in (
        ("kubernetes.config.kube_config", "~/.kube/config"),
        ("kubernetes.aio.config.kube_config", str(Path("~/.kube/config").expanduser())),
    ):
        if name in sys.modules:
            location = environ.get("KUBECONFIG", default)
            for holder in (name, name.rpartition(".")[0]):
                setattr(sys.modules[holder], _KUBECONFIG, location)


_REFRESHERS: Mapping[str, Mapping[str, Callable[[Mapping[str, str]], None]]] = {
    "KUBECONFIG": {
        "kubernetes.config.kube_config": _refresh_kubeconfig,
        "kubernetes.aio.config.kube_config": _refresh_kubeconfig,
    }
}
"""By variable, which readers are known to keep it where, and how that is brought up to date."""


class ImportedIn:
    """The environment in which a process was started and imported libraries."""

    def __init__(self, reads: Mapping[str, Iterable[str]], *, environ: Mapping[str, str] | None = None) -> None:
        """Take *reads* of `Libraries`; the environment is this process's own."""
        self._environ = dict(os.environ if environ is None else environ)
        self._coerced = self._coerced_locale() if environ is None else {}
        self._refreshers = {
            refresh
            for name, known in _REFRESHERS.items()
            for reader, refresh in known.items()
            if reader in reads.get(name, ())
        }
        self._fixed = {
            name
            for name, readers in reads.items()
            if name != EVERYTHING and not set(readers) <= _REFRESHERS.get(name, {}).keys()
        }

    def of_interpreter(self, environ: MutableMapping[str, str]) -> None:
        """Add to *environ* what the interpreter itself would (the locale that it falls back to, PEP 538)."""
        if not environ.get("LC_ALL"):
            for name, value in self._coerced.items():
                if environ.get(name, "C") in {"", "C", "POSIX"}:
                    environ[name] = value

    def why_not(self, environ: Mapping[str, str]) -> str | None:
        """Return why a process with *environ* may not stand on these imports, or None; no value is in it."""
        names = environ.keys() | self._environ.keys()
        differing = sorted(
            name for name in names if self._matters(name) and environ.get(name) != self._environ.get(name)
        )
        return f"differs from the fork server's in {', '.join(differing)}" if differing else None

    def refresh(self, environ: Mapping[str, str]) -> None:
        """Bring up to date what was kept of variables that may differ. In the module's own process."""
        for refresh in self._refreshers:
            refresh(environ)

    def _matters(self, name: str) -> bool:
        return name in self._fixed or name in _ALSO_AT_START or name.startswith(_AT_START)

    def _coerced_locale(self) -> dict[str, str]:
        try:
            started_with = Path("/proc/self/environ").read_bytes().split(b"\0")
        except OSError:
            return {}
        given = any(variable.startswith(b"LC_CTYPE=") for variable in started_with)
        return {} if given or "LC_CTYPE" not in self._environ else {"LC_CTYPE": self._environ["LC_CTYPE"]}


def all_seen(reads: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the libraries that looked at all variables, which can't be told apart: worth a line in the log."""
    return tuple(sorted(reads.get(EVERYTHING, ())))
