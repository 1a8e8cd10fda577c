"""Compiled code of modules and module utilities, kept by the module server for the payloads that bring their source.

An AnsiballZ payload unpacks a zip of Python sources, puts it first in sys.path and imports from it; zipimport compiles
each source twice (once to find the file's name). Here zipimport is taught, in a module's own process, to take the code
from the stash where the zip's directory names a source with a checksum and a size that are known, under the name that
it has in the zip. Every import is still carried out there, in its order and with all its effects, so nothing of an
earlier run or of the server's files can show; what is not known is compiled as ever.
"""

from __future__ import annotations

import dis
import importlib.machinery
import importlib.util
import re
import sys
import zipimport
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

try:
    # what importlib does with code from __pycache__
    from _imp import _fix_co_filename  # type: ignore[attr-defined]
except ImportError:  # another implementation of Python, or a later one: nothing is handed out then
    _fix_co_filename = None

fix_filename: Callable[[CodeType, str], object] | None = _fix_co_filename

Checksum = tuple[int, int]
"""CRC-32 and length of a source: what a zip's directory tells of each file."""

_PAYLOAD = re.compile(r"/ansible_[^/]*_payload_[^/]*/ansible_[^/]*_payload\.zip\Z")
_ORDER = (("/__init__.pyc", False), ("/__init__.py", True), (".pyc", False), (".py", True))
"""Where zipimport looks for a module, and whether that is a source."""
_SHOWING = frozenset({"antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo", "__main__"})
"""Parts of the standard library that show something when they are imported."""
_COLLECTIONS = "ansible_collections"
_SIZE, _CRC = 3, 7
"""Fields of an entry of zipimport's directory."""


class Stash:
    """Code by the checksum of its source."""

    def __init__(self) -> None:
        self._code: dict[Checksum, CodeType] = {}
        self._taken: dict[tuple[str, str], CodeType] = {}

    def __len__(self) -> int:
        """Return how many sources are known."""
        return len(self._code)

    def add(self, path: Path) -> bool:
        """Keep the code of the source at *path*; tell whether that was possible."""
        try:
            source = path.read_bytes()
            # as the interpreter would load it: an up-to-date __pycache__ saves compiling
            code = importlib.machinery.SourceFileLoader(path.stem, str(path)).get_code(path.stem)
        except (OSError, SyntaxError, ValueError, UnicodeError):
            return False  # the module that needs it will say what is wrong with it
        if code is None:
            return False
        self._code[zlib.crc32(source), len(source)] = code
        return True

    def add_all(self, paths: Iterable[Path]) -> int:
        """Keep the code of all of *paths* that can be read, writing no __pycache__; return how many."""
        before = sys.dont_write_bytecode
        sys.dont_write_bytecode = True
        try:
            return sum(self.add(path) for path in paths)
        finally:
            sys.dont_write_bytecode = before

    def take(self, checksum: Checksum, *, filename: str) -> CodeType | None:
        """Return the code of that source as if it had been compiled from *filename*, or None.

        It is given away: the name is written into the code itself, so it serves once in a process.
        """
        if fix_filename is None or sys.flags.optimize != 0:
            return None
        code = self._code.pop(checksum, None)
        if code is not None:
            fix_filename(code, filename)
        return code

    def forget_taken(self) -> None:
        """Forget what was handed out, by whose path."""
        self._taken.clear()

    def standard_library(self) -> tuple[str, ...]:
        """Return what the sources import of the standard library when they are imported themselves."""
        found = {
            str(instruction.argval)
            for code in self._code.values()
            for instruction in dis.get_instructions(code)
            if instruction.opname == "IMPORT_NAME"
        }
        return tuple(sorted(name for name in found if name.partition(".")[0] in sys.stdlib_module_names - _SHOWING))

    def serve_payloads(self) -> None:
        """From now on zipimport in this process takes the code of payloads from here."""
        taken = self._taken
        compiled, named = zipimport.zipimporter.get_code, zipimport.zipimporter.get_filename

        def get_code(importer: zipimport.zipimporter, fullname: str) -> CodeType:
            known = source_in(importer, fullname)
            if known is None:
                return compiled(importer, fullname)
            key = (known.path, fullname)
            if key not in taken:
                taken[key] = self.take(known.checksum, filename=known.path) or compiled(importer, fullname)
            return taken[key]

        def get_filename(importer: zipimport.zipimporter, fullname: str) -> str:
            known = source_in(importer, fullname)
            if known is None:
                return str(named(importer, fullname))
            get_code(importer, fullname)  # what can't be compiled is refused already here
            return known.path

        zipimport.zipimporter.get_code = get_code  # type: ignore[method-assign,assignment]
        zipimport.zipimporter.get_filename = get_filename  # type: ignore[method-assign,assignment]


@dataclass(frozen=True, kw_only=True)
class Known:
    """A source in a payload's zip."""

    path: str
    checksum: Checksum


def source_in(importer: Any, fullname: str) -> Known | None:
    """Return the payload's source of a module, or None where zipimport shall look itself."""
    if not _PAYLOAD.search(importer.archive):
        return None
    part = importer.prefix + fullname.rpartition(".")[2]
    for suffix, is_source in _ORDER:
        entry = importer._files.get(part + suffix)  # noqa: SLF001 - since Python 3.8; the tests run on each we support
        if entry is not None:
            return Known(path=entry[0], checksum=(entry[_CRC], entry[_SIZE])) if is_source else None
    return None


def sources_of(names: Iterable[str], *, collections_path: Iterable[str] = ()) -> list[Path]:
    """Return the files of the modules and module utilities *names*, as far as they are found.

    `kubernetes.core.k8s` is a module, `ansible.module_utils.basic` and `ansible_collections...` are utilities.
    """
    core = [Path(folder) for folder in _folders_of("ansible")]
    collections = [
        path if path.name == _COLLECTIONS else path / _COLLECTIONS
        for path in (*map(Path, collections_path), *(folder.parent for folder in core))
    ]
    found = (_source_of(name.split("."), core=core, collections=collections) for name in names)
    return [path for path in found if path is not None]


def _source_of(parts: Sequence[str], *, core: Sequence[Path], collections: Sequence[Path]) -> Path | None:
    match parts:
        case ["ansible", "module_utils", *rest]:
            return _first(folder.joinpath("module_utils", *rest) for folder in core)
        case ["ansible_collections", *rest]:
            return _first(folder.joinpath(*rest) for folder in collections)
        case ["ansible", "builtin" | "legacy", *rest]:
            return _first(folder.joinpath("modules", *rest) for folder in core)
        case [namespace, collection, *rest]:
            return _first(folder.joinpath(namespace, collection, "plugins", "modules", *rest) for folder in collections)
    return None


def _first(paths: Iterable[Path]) -> Path | None:
    for path in paths:
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if candidate.is_file():
                return candidate
    return None


def _folders_of(package: str) -> Sequence[str]:
    """Return where *package* is, without importing it."""
    spec = importlib.util.find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec else []
