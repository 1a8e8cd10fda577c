"""What modules import, by their syntax trees: module utilities, recursively, and third-party libraries.

Imports in functions and in `try` count as well: what is imported late is what a module pays for each time it runs.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .needs_files import Files, Source, parsed

_UTILITIES = "ansible.module_utils"
_PART_OF_COLLECTION = ".plugins.module_utils"
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_LAZY = {
    "boto3": ("boto3.session", "botocore.session", "botocore.client"),
    "kubernetes": ("kubernetes.client", "kubernetes.config", "kubernetes.dynamic"),
}
"""What a library imports only when it is first used, and always then."""


@dataclass
class Imports:
    """Collects from one source after the other."""

    files: Files
    own_utilities: Sequence[Path] = ()
    """Folders of the content that shadow `ansible.module_utils`: followed, never listed, as each role has its own."""
    utilities: set[str] = field(default_factory=set)
    libraries: set[str] = field(default_factory=set)
    _seen: set[Path] = field(default_factory=set)

    def add_module(self, name: str, source: Source) -> None:
        """Add what the module *name* imports."""
        package = f"{_collection_package(name)}.plugins.modules" if not source.name else source.package
        self._follow(source.path, package=package)

    def add_utility(self, source: Source) -> None:
        """Add a module utility, the packages around it, and what they import."""
        self.utilities.add(source.name)
        self._follow(source.path, package=source.package)
        above = source.name.rpartition(".")[0]
        if above.startswith(f"{_UTILITIES}.") or f"{_PART_OF_COLLECTION}." in above:
            parent = self.files.utility(above)
            if parent is not None and parent.name == above and above not in self.utilities:
                self.add_utility(parent)

    def _follow(self, path: Path, *, package: str) -> None:
        if path in self._seen:
            return
        self._seen.add(path)
        tree = parsed(path)
        for name, parts in _imported(tree, package=package) if tree else ():
            if _is_utility(name, parts):
                for full in [f"{name}.{part}" for part in parts] or [name]:
                    self._utility(full)
            else:
                self._library(name, parts)

    def _utility(self, name: str) -> None:
        own = self._own(name)
        if own is not None:
            self._follow(own, package=_UTILITIES)
        elif source := self.files.utility(name):
            self.add_utility(source)

    def _own(self, name: str) -> Path | None:
        if not name.startswith(f"{_UTILITIES}."):
            return None
        first = name.split(".")[2]
        below = (folder / part for folder in self.own_utilities for part in (f"{first}.py", f"{first}/__init__.py"))
        return next((path for path in below if path.is_file()), None)

    def _library(self, name: str, parts: Sequence[str]) -> None:
        top = name.partition(".")[0]
        if top in {"ansible", "ansible_collections", "__main__", ""} or top in sys.stdlib_module_names:
            return
        if not _installed(top):
            return
        self.libraries.update({top, *_LAZY.get(top, ())})
        for full in (name, *(f"{name}.{part}" for part in parts)):
            if _is_part(full):
                self.libraries.add(full)


def _imported(tree: ast.Module, *, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return each imported module's full name, and the names taken from it."""
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = _absolute(node, package=package)
            if name:
                yield name, tuple(alias.name for alias in node.names if alias.name != "*")


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Return all statements, without the expressions in them, which are most of a tree and import nothing."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in _BODIES:
            waiting += getattr(node, name, ())


def _absolute(node: ast.ImportFrom, *, package: str) -> str:
    if not node.level:
        return node.module or ""
    base = package.split(".")
    base = base[: len(base) - (node.level - 1)]
    return ".".join([*base, *([node.module] if node.module else [])])


def _is_utility(name: str, parts: Sequence[str]) -> bool:
    if name == "ansible":
        return "module_utils" in parts
    return name.startswith(_UTILITIES) or (name.startswith("ansible_collections.") and _PART_OF_COLLECTION in name)


def _collection_package(module: str) -> str:
    return "ansible_collections." + ".".join(module.split(".")[:2])


@cache
def _places(top: str) -> tuple[Path, ...]:
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return ()
    if spec is None:
        return ()
    return tuple(Path(place) for place in spec.submodule_search_locations or ()) or (Path(spec.origin or ""),)


def _installed(top: str) -> bool:
    return bool(_places(top))


def _is_part(name: str) -> bool:
    """Tell whether *name* is a module by its files: to ask the import system would import what is above it."""
    top, *rest = name.split(".")
    if not rest:
        return True
    paths = [place.joinpath(*rest) for place in _places(top) if place.is_dir()]
    return any((path / "__init__.py").is_file() or path.with_suffix(".py").is_file() for path in paths)
