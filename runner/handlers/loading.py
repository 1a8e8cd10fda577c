"""Files of handlers to one registry: each is imported once, at the start, and what cannot work here is refused.

An error names the file, the line and the remedy, and ends the start as a mistake in watches.yaml does.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kopf

from runner.errors import ConfigError
from runner.handlers.kopf_internals import Registered, add, as_path, registered
from runner.handlers.published import Publisher, collecting

PACKAGE = "handlers"
"""The first part of the modules' names, and so of their loggers' names in the log."""
GIVEN = ("body", "spec", "namespace", "name")
"""What functions that are `published` get of the object; no index may have such a name."""
_ROLE_INSTEAD = (
    "kopf remembers in annotations of each object what it has seen, and this runtime writes none: use @kopf.on.event, "
    "or a role or playbook, which is run for each change"
)
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("on.create", "on.update", "on.delete", "on.resume", "on.field"), _ROLE_INSTEAD),
    "on.login": "handlers use the operator's own credentials: delete it",
    "on.probe": "kopf's own health server doesn't run: delete it; /healthz and /readyz have a check `handlers`",
}


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What the files have in them."""

    registry: kopf.OperatorRegistry
    files: Mapping[Path, tuple[Registered, ...]]
    """The handlers of each file."""
    published: Mapping[Path, Mapping[str, Publisher]]
    """What each file hands to runs, by name."""

    def of(self, decorator: str) -> list[str]:
        """Return the handlers with *decorator*."""
        return [found.id for handlers in self.files.values() for found in handlers if found.decorator == decorator]


def load(files: Iterable[Path]) -> Loaded:
    """Import *files*; one that is named twice is imported once.

    Raises:
        ConfigError: a file can't be imported, or has something in it that can't work here.
    """
    registry = kopf.OperatorRegistry()
    found: dict[Path, tuple[Registered, ...]] = {}
    published: dict[Path, Mapping[str, Publisher]] = {}
    for path in dict.fromkeys(files):
        own = kopf.OperatorRegistry()
        with _default(own), collecting() as functions:
            _import(path)
        found[path] = tuple(registered(own))
        published[path] = _published(functions)
        add(own, to=registry)
    for path, handlers in found.items():
        _check(handlers, path=path)
    _check_ids([handler for handlers in found.values() for handler in handlers])
    return Loaded(registry=registry, files=found, published=published)


def place_of(function: Callable[..., Any]) -> str:
    """Return file and line of *function*."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


@contextlib.contextmanager
def _default(registry: kopf.OperatorRegistry) -> Iterator[None]:
    """Have decorators take *registry*, where no other is given, during the block."""
    before = kopf.get_default_registry()
    kopf.set_default_registry(registry)
    try:
        yield
    finally:
        kopf.set_default_registry(before)


def _import(path: Path) -> None:
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: is no Python file that can be imported; name one with the ending .py")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # its neighbours can be imported; what is installed wins, for the operator's own sake
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a file of the user's may raise whatever it likes: it ends the start
        del sys.modules[name]
        raise _broken(path, error) from error
    except SystemExit as error:
        del sys.modules[name]
        raise ConfigError(f"{path}: it ended the program ({error}) when it was imported; delete that call") from error


def _module_name(path: Path) -> str:
    """Return a name that no other module has."""
    name, number = f"{PACKAGE}.{path.stem}", 2
    while name in sys.modules:
        name, number = f"{PACKAGE}.{path.stem}-{number}", number + 1
    return name


def _broken(path: Path, error: Exception) -> ConfigError:
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    match error:
        case OSError() if getattr(error, "filename", None) == str(path):
            return ConfigError(f"{path}: cannot be read: {error.strerror}; check its path and rights")
        case SyntaxError():
            where = f"{error.filename or path}:{error.lineno or 1}"
            return ConfigError(f"{where}: {type(error).__name__}: {error.msg}; correct it")
        case ImportError() if error.name == PACKAGE or "relative import" in str(error):
            remedy = "a file of handlers is in no package: `import x`, not `from . import x`; its folder is searched"
            return ConfigError(f"{_line(path, error)}: {told}; {remedy}")
        case ModuleNotFoundError():
            remedy = (
                f"install what brings {error.name} in the environment of the operator (that of Ansible may be another)"
                ", or correct the name"
            )
            return ConfigError(f"{_line(path, error)}: {told}; {remedy}")
    return ConfigError(f"{_line(path, error)}: {told}; correct it: a file of handlers must be importable")


def _line(path: Path, error: Exception) -> str:
    """Return the last place in the file, or beside it, that the error came through."""
    places = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(path.parent)
    ]
    return places[-1] if places else str(path)


def _published(functions: Iterable[Publisher]) -> Mapping[str, Publisher]:
    found: dict[str, Publisher] = {}
    for function in functions:
        name = function.__name__
        if name in found:
            raise ConfigError(f"{place_of(function)}: {name} is published twice; give it another name")
        found[name] = function
    return found


def _check(handlers: Iterable[Registered], *, path: Path) -> None:
    handlers = tuple(handlers)
    if not handlers:
        raise ConfigError(
            f"{path}: there are no handlers in it; add one, as in `@kopf.on.event(...)`, or delete the key"
        )
    for handler in handlers:
        if handler.decorator in _REFUSED:
            where = place_of(handler.function)
            raise ConfigError(f"{where}: @kopf.{handler.decorator} can't be used here: {_REFUSED[handler.decorator]}")


def _check_ids(handlers: Iterable[Registered]) -> None:
    """Refuse two handlers of one name where kopf, to which all files are one, would take one for the other."""
    seen: dict[tuple[str, str], Registered] = {}
    for handler in handlers:
        what, name = _space(handler)
        if what == "index" and name in GIVEN:
            raise ConfigError(
                f"{place_of(handler.function)}: an index can't be called {name}, as functions get that of the object "
                "by this name; give it another name (`id=`)"
            )
        other = seen.setdefault((what, name), handler) if what else handler
        if other is not handler and (what == "admission handler" or other.function is not handler.function):
            raise ConfigError(
                f"{place_of(handler.function)}: there is another {what} {name} at {place_of(other.function)}; "
                "give one of them another name (`id=`)"
            )


def _space(handler: Registered) -> tuple[str, str]:
    """Return among which handlers the name of *handler* must be its own, empty: none; and that name."""
    match handler.decorator:
        case "index":
            return "index", handler.id
        case "on.validate" | "on.mutate":  # their names are the paths that the API server calls, and webhooks' names
            return "admission handler", as_path(handler.id)
        case "timer" | "daemon":
            return "timer or daemon", handler.id
    return "", handler.id
