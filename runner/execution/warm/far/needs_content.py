"""The actions that roles and playbooks name, read from their YAML: `needs` resolves them.

All files under a role's tasks/ and handlers/ are read, so that `include_tasks: "{{ state }}.yml"` is no obstacle; files
elsewhere, other roles and playbooks are followed where they are named literally.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .needs_files import Files

_SUFFIXES = (".yml", ".yaml")
_BLOCKS = ("block", "rescue", "always")
_INCLUDES = frozenset({"include_tasks", "import_tasks"})
_ROLES = frozenset({"include_role", "import_role"})
_PLAYBOOKS = frozenset({"import_playbook"})
_BUILTIN = ("ansible.builtin.", "ansible.legacy.")
# fmt: off
_KEYWORDS = frozenset([
    "any_errors_fatal", "args", "become", "become_user", "changed_when", "check_mode", "collections", "debugger",
    "delegate_to", "diff", "environment", "failed_when", "ignore_errors", "listen", "loop", "loop_control",
    "module_defaults", "name", "no_log", "notify", "poll", "register", "retries", "run_once", "tags", "until", "vars",
    "when",
])
# fmt: on
"""The usual words of a task that are no module's; any other would be looked for in vain, and only cost time."""
_LISTS = ("tasks", "pre_tasks", "post_tasks", "handlers")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # one of two classes of PyYAML
    """Reads any tag (`!vault`, `!unsafe`) as the plain value below it."""


def _plain(loader: Any, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return node.value


_Loader.add_multi_constructor("!", _plain)


def read_yaml(path: Path) -> Any:
    """Return what *path* holds; None where it isn't there or can't be read."""
    try:
        return yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 - a subclass of the safe loader
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError):
        return None


@dataclass(frozen=True, kw_only=True)
class Action:
    """A word of a task that may be a module's name: other words (`when`) are no module's."""

    name: str
    collections: tuple[str, ...] = ()
    """Where a short name is looked up first: the keyword of play, role, block and task."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a task stands."""

    folder: Path
    """That of the task file."""
    role: Path | None = None
    collections: tuple[str, ...] = ()


@dataclass
class Content:
    """Collects from one role and playbook after the other, and from those that they name."""

    files: Files
    roles_path: Sequence[Path] = ()
    actions: set[Action] = field(default_factory=set)
    libraries: list[Path] = field(default_factory=list)
    """Folders named library/ beside roles and playbooks: their modules win over Ansible's."""
    utilities: list[Path] = field(default_factory=list)
    """Folders named module_utils/ beside them."""
    places: list[Path] = field(default_factory=list)
    """The folders of the roles and the files of the playbooks."""
    _seen: set[Path] = field(default_factory=set)

    def add_role(self, role: Path) -> None:
        """Read the role in folder *role*, its dependencies too."""
        role = Path(role).absolute()
        if not self._first_time(role):
            return
        self.places.append(role)
        self._beside(role)
        meta = read_yaml(_with_suffix(role / "meta/main"))
        meta = meta if isinstance(meta, Mapping) else {}
        collections = (*_words(meta.get("collections")), *self.files.collection_of(role))
        for kind in ("tasks", "handlers"):
            for path in _yaml_files(role / kind):
                self._task_file(path, place=_Place(folder=path.parent, role=role, collections=collections))
        for entry in _list(meta.get("dependencies")):
            self._role_named(entry, place=_Place(folder=role, role=role))

    def add_playbook(self, playbook: Path) -> None:
        """Read the file *playbook*, and the roles, task files and playbooks that its plays name."""
        playbook = Path(playbook).absolute()
        if not self._first_time(playbook):
            return
        self.places.append(playbook)
        self._beside(playbook.parent)
        for play in _list(read_yaml(playbook)):
            if isinstance(play, Mapping):
                self._play(play, folder=playbook.parent)

    def _play(self, play: Mapping[Any, Any], *, folder: Path) -> None:
        place = _Place(folder=folder, collections=_words(play.get("collections")))
        for key, value in play.items():
            if _short(key) in _PLAYBOOKS and isinstance(value, str):
                self.add_playbook(folder / value)
        for entry in _list(play.get("roles")):
            self._role_named(entry, place=place)
        for key in _LISTS:
            self._tasks(play.get(key), place=place)

    def _task_file(self, path: Path, *, place: _Place) -> None:
        if self._first_time(path):
            self._tasks(read_yaml(path), place=place)

    def _tasks(self, tasks: Any, *, place: _Place) -> None:
        for task in _list(tasks):
            if isinstance(task, Mapping):
                self._task(task, place=place)

    def _task(self, task: Mapping[Any, Any], *, place: _Place) -> None:
        own = _words(task.get("collections"))
        place = _Place(folder=place.folder, role=place.role, collections=(*own, *place.collections))
        for key in _BLOCKS:
            self._tasks(task.get(key), place=place)
        for name, arguments in _possible_actions(task):
            self._action(name, arguments, place=place)

    def _action(self, name: str, arguments: Any, /, *, place: _Place) -> None:
        short = _short(name)
        if short in _INCLUDES:
            self._tasks_named(arguments, place=place)
        elif short in _ROLES:
            self._role_named(arguments, place=place)
        else:
            self.actions.add(Action(name=name, collections=place.collections))

    def _tasks_named(self, arguments: Any, *, place: _Place) -> None:
        name = arguments.get("file") if isinstance(arguments, Mapping) else arguments
        if not isinstance(name, str):
            return
        roots = [place.folder, *([place.role / "tasks", place.role] if place.role else [])]
        found = next((path for root in roots if (path := (root / name.split(" ")[0]).resolve()).is_file()), None)
        if found is not None:
            self._task_file(found, place=_Place(folder=found.parent, role=place.role, collections=place.collections))

    def _role_named(self, entry: Any, *, place: _Place) -> None:
        name = (entry.get("role") or entry.get("name")) if isinstance(entry, Mapping) else entry
        if not isinstance(name, str) or "{{" in name:
            return
        beside = place.role.parent if place.role else place.folder
        roots = [place.folder / "roles", beside, *self.roles_path]
        in_collections = self.files.roles(name, collections=place.collections)
        found = next((path for path in (*in_collections, *(root / name for root in roots)) if path.is_dir()), None)
        if found is not None:
            self.add_role(found)

    def _beside(self, folder: Path) -> None:
        for name, found in (("library", self.libraries), ("module_utils", self.utilities)):
            if (folder / name).is_dir() and folder / name not in found:
                found.append(folder / name)

    def _first_time(self, path: Path) -> bool:
        path = path.resolve()
        if path in self._seen:
            return False
        self._seen.add(path)
        return True


def _possible_actions(task: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Return each key of a task, and what the old `action: name arguments` names."""
    for key, value in task.items():
        if key in {"action", "local_action"}:
            given = value.get("module") if isinstance(value, Mapping) else value
            name, _, rest = str(given or "").partition(" ")
            yield name, value if isinstance(value, Mapping) else rest.strip()
        elif isinstance(key, str) and key not in _BLOCKS and key not in _KEYWORDS:
            yield key, value


def _short(name: Any) -> str:
    name = str(name)
    prefix = next((prefix for prefix in _BUILTIN if name.startswith(prefix)), "")
    return str(name.removeprefix(prefix))


def _words(value: Any) -> tuple[str, ...]:
    return tuple(word for word in ([value] if isinstance(value, str) else _list(value)) if isinstance(word, str))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _yaml_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file())
    except OSError:
        return []


def _with_suffix(path: Path) -> Path:
    return next((found for suffix in _SUFFIXES if (found := path.with_suffix(suffix)).is_file()), path)
