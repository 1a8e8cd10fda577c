"""Names to source files, as Ansible resolves them, without Ansible: modules, action plugins, module utilities, roles.

A short name is looked up in the collections of the `collections:` keyword, in the library/ folders beside the content,
then in ansible-core; redirects of meta/runtime.yml and of ansible-core's own table are followed.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import yaml

_BUILTIN = {"ansible.builtin", "ansible.legacy"}
_INTERNAL = ("_internal/_ansiballz", "_internal/_json")
"""Module utilities that ansible-core 2.19 adds to each payload by itself, some of them by a name made at run time."""
_LITERAL = re.compile(r"ansible\.(?:legacy|builtin)\.[a-z_]+\Z")
_HOPS = 5


class NamedAction(Protocol):
    """What a task names."""

    @property
    def name(self) -> str:
        """Return the action as the task has it."""
        ...

    @property
    def collections(self) -> tuple[str, ...]:
        """Return where a short name is looked up first."""
        ...


@dataclass(frozen=True, kw_only=True)
class Source:
    """A Python file, and what it is imported as (empty for a file of a library/ folder)."""

    path: Path
    name: str = ""

    @property
    def package(self) -> str:
        """Return the package that its relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


class Files:
    """The files of one interpreter's ansible-core and of the collections that it finds."""

    def __init__(self, *, collections_path: Sequence[Path]) -> None:
        """Take *collections_path*: folders that hold `ansible_collections`, or are that."""
        spec = importlib.util.find_spec("ansible")
        self._core = (
            Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else None
        )
        roots = [
            path if path.name == "ansible_collections" else path / "ansible_collections" for path in collections_path
        ]
        if self._core is not None:
            roots += [self._core.parent / "ansible_collections", self._core / "_internal/ansible_collections"]
        self._collections = [root for root in roots if root.is_dir()]
        self._routing = cache(self._read_routing)

    def modules(self, actions: Iterable[NamedAction], *, beside: Sequence[Path]) -> dict[str, Source]:
        """Return the modules that *actions* can run; short names may be those of folders *beside*."""
        found: dict[str, Source] = {}
        for action in actions:
            own = next((path for folder in beside if (path := folder / f"{action.name}.py").is_file()), None)
            if own is not None:
                found[action.name] = Source(path=own)
            for name in _full_names(action.name, action.collections):
                if of_name := self.modules_of(name):
                    found |= of_name
                    break
        return found

    def modules_of(self, name: str) -> dict[str, Source]:
        """Return the module *name* (a full name), and those that the action plugin of this name runs."""
        module = self._find("modules", name)
        redirected = (
            name.rpartition(".")[0] not in _BUILTIN
        )  # ansible-core's own table is long, and names none of these
        action = self._find("action", name, hops=_HOPS if redirected or module is None else 1)
        found = dict([module] if module else [])
        for literal in _literals(action[1].path) if action else ():
            if called := self._find("modules", literal):
                found |= dict([called])
        return found

    def lookup(self, name: str) -> Source | None:
        """Return the file of the lookup plugin *name* of a collection."""
        found = self._find("lookup", name)
        return found[1] if found else None

    def always_imported(self) -> list[Source]:
        """Return the module utilities that each payload has."""
        if self._core is None:
            return []
        root = self._core / "module_utils"
        paths = [root / "basic.py", *(path for part in _INTERNAL for path in sorted((root / part).rglob("*.py")))]
        return [Source(path=path, name=_dotted(path, below=self._core.parent)) for path in paths if path.is_file()]

    def utility(self, name: str) -> Source | None:
        """Return the file of the module utility *name*; a part that is no file is an attribute of what is above it."""
        parts = name.split(".")
        least = 3 if parts[0] == "ansible" else 6
        for length in range(len(parts), least - 1, -1):
            shorter = ".".join(parts[:length])
            if source := self._module_file(shorter):
                return source
            redirect = self._routed("module_utils", _key(shorter))
            if redirect and redirect != shorter:
                return self.utility(redirect)
        return None

    def roles(self, name: str, *, collections: Sequence[str]) -> list[Path]:
        """Return where a role of a collection may be: *name* is a full name, or a short one in one of *collections*."""
        full = [name] if name.count(".") == 2 else [f"{collection}.{name}" for collection in collections]
        split = [part.split(".") for part in full if part.count(".") == 2]
        return [root / space / coll / "roles" / role for space, coll, role in split for root in self._collections]

    def collection_of(self, folder: Path) -> list[str]:
        """Return the collection that *folder* is part of, or nothing."""
        for root in self._collections:
            if folder.is_relative_to(root) and len(parts := folder.relative_to(root).parts) > 2:
                return [".".join(parts[:2])]
        return []

    def _find(self, kind: str, name: str, /, *, hops: int = _HOPS) -> tuple[str, Source] | None:
        for left in range(hops, 0, -1):
            collection, _, short = name.rpartition(".")
            module = self._plugin_module(kind, collection=collection, short=short)
            if module and (source := self._module_file(module)):
                return (f"ansible.builtin.{short}" if collection in _BUILTIN else name), source
            redirect = self._routed(kind, (collection, short)) if left > 1 else ""
            if not redirect:
                return None
            name = redirect if "." in redirect else f"{collection}.{redirect}"
        return None

    @staticmethod
    def _plugin_module(kind: str, *, collection: str, short: str) -> str:
        if collection in _BUILTIN:
            return f"ansible.modules.{short}" if kind == "modules" else f"ansible.plugins.action.{short}"
        return f"ansible_collections.{collection}.plugins.{kind}.{short}" if collection.count(".") == 1 else ""

    def _module_file(self, name: str) -> Source | None:
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            return None
        core = [self._core] if self._core is not None else []
        for root in self._collections if parts[0] == "ansible_collections" else core:
            path = root.joinpath(*parts[1:])
            for candidate in (path / "__init__.py", path.with_suffix(".py")):
                if candidate.is_file():
                    return Source(path=candidate, name=name)
        return None

    def _routed(self, kind: str, place: tuple[str, str]) -> str:
        collection, key = place
        entry = self._routing("ansible.builtin" if collection in _BUILTIN else collection).get(kind)
        entry = entry.get(key) if isinstance(entry, Mapping) else None
        redirect = entry.get("redirect") if isinstance(entry, Mapping) else None
        if not isinstance(redirect, str):
            return ""
        if kind == "module_utils" and not redirect.startswith(("ansible.", "ansible_collections.")):
            space, coll, rest = [*redirect.split(".", 2), "", ""][:3]
            return f"ansible_collections.{space}.{coll}.plugins.module_utils.{rest}"
        return redirect

    def _read_routing(self, collection: str) -> Mapping[str, Any]:
        below = Path(*collection.split(".")) / "meta/runtime.yml"
        paths = [root / below for root in self._collections]
        if collection == "ansible.builtin" and self._core is not None:
            paths = [self._core / "config/ansible_builtin_runtime.yml"]
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        for path in paths:
            try:
                table = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - one of the two safe loaders
            except (OSError, ValueError, yaml.YAMLError):
                continue
            routing = table.get("plugin_routing") if isinstance(table, Mapping) else None
            return routing if isinstance(routing, Mapping) else {}
        return {}


def _full_names(name: str, collections: Sequence[str]) -> list[str]:
    """Return the full names that *name* may stand for, the one that wins first."""
    if name.count(".") > 1:
        return [name]
    return [f"{collection}.{name}" for collection in (*collections, "ansible.builtin")] if name.isidentifier() else []


def _literals(path: Path) -> list[str]:
    """Return the names of modules of ansible-core in an action plugin: `_execute_module('ansible.legacy.copy')`."""
    tree = parsed(path)
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)) if tree else ()
    return [value for value in constants if isinstance(value, str) and _LITERAL.match(value)]


def parsed(path: Path) -> ast.Module | None:
    """Return the syntax tree of *path*, or None."""
    try:
        return ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None


def _key(utility: str) -> tuple[str, str]:
    """Return the collection of a module utility, and its name in the collection's table."""
    parts = utility.split(".")
    if parts[0] == "ansible":
        return "ansible.builtin", ".".join(parts[2:])
    return ".".join(parts[1:3]), ".".join(parts[5:])


def _dotted(path: Path, *, below: Path) -> str:
    parts = path.relative_to(below).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
