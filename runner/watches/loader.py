"""watches.yaml to frozen `Watch` values: the first thing that happens at start, before any watch is opened.

The text goes through `expansion`, `document` makes nodes of it, `section` reads typed fields, `content` finds roles
and playbooks, `overrides` looks into the environment. Everything wrong raises a `WatchesError`; everything odd
becomes a note for the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import yaml

from runner.kube.objects import GVK
from runner.settings import Settings
from runner.watches import overrides
from runner.watches.content import ContentFinder
from runner.watches.document import NULL, kind_of, line_of, read_document
from runner.watches.expansion import expand
from runner.watches.model import Content, Finalizer, Watch
from runner.watches.overrides import Chosen, Origins
from runner.watches.own_keys import read_dependent_status, read_executor, read_handlers, read_run_timeout
from runner.watches.problems import Place, WatchesError, WatchesFileError
from runner.watches.section import Section
from runner.watches.selector import is_qualified_name, read_selector

GVK_KEYS = ("group", "version", "kind")
ENTRY_KEYS = (
    *GVK_KEYS,
    *("playbook", "role", "vars", "maxRunnerArtifacts", "reconcilePeriod", "manageStatus", "watchDependentResources"),
    *("watchClusterScopedResources", "snakeCaseParameters", "watchAnnotationsChanges", "markUnsafe"),
    *("blacklist", "selector", "finalizer", "watchDependentStatus", "executor", "runTimeout", "handlers"),
)
FINALIZER_KEYS = ("name", "playbook", "role", "vars")
_DEFAULT_ARTIFACTS = 20


@dataclass(frozen=True, kw_only=True)
class Watches:
    """A loaded watches.yaml."""

    watches: tuple[Watch, ...]
    notes: tuple[str, ...] = ()
    """Sentences for the log: ignored keys, deprecated variables and the like."""
    origins: Mapping[GVK, Origins] = field(default_factory=dict)
    """Which flag or variable the numbers of each watch come from."""


def load_watches(path: Path, *, settings: Settings, environ: Mapping[str, str], cwd: Path) -> Watches:
    """Return the watches of the file at *path*, in its order.

    Raises:
        WatchesFileError: the file cannot be read.
        WatchesError: anything in it is wrong; the notes up to there are its `notes`.
    """
    notes: list[str] = []
    try:
        return _load(path, settings=settings, environ=_effective(environ, settings=settings), cwd=cwd, notes=notes)
    except WatchesError as error:
        error.notes = tuple(dict.fromkeys(notes))
        raise


def _load(path: Path, *, settings: Settings, environ: Mapping[str, str], cwd: Path, notes: list[str]) -> Watches:
    place = Place(file=str(path))
    text = expand(_read(cwd / path, place=place), environ=environ)
    loader = _Loader(settings=settings, environ=environ, folders=(cwd, (cwd / path).parent), notes=notes)
    watches: dict[GVK, Watch] = {}
    for number, node in enumerate(_entries(text, place=place, notes=notes), start=1):
        watch, entry = loader.watch(node, place=place.in_entry(f"entry {number}"))
        if watch.gvk in watches:
            raise entry.error(f"duplicate GVK: {watch.gvk}", remedy="delete one of the entries or change its version")
        watches[watch.gvk] = watch
    return Watches(watches=tuple(watches.values()), notes=tuple(dict.fromkeys(notes)), origins=loader.origins)


class _Loader:
    """Makes one `Watch` of one node after the other."""

    def __init__(
        self, *, settings: Settings, environ: Mapping[str, str], folders: tuple[Path, Path], notes: list[str]
    ) -> None:
        """Take paths from the first of *folders*, the working directory; the second is that of the file."""
        self._settings = settings
        self._environ = environ
        self._finder = ContentFinder(cwd=folders[0], environ=environ)
        self._folders = folders
        self._notes = notes
        self.origins: dict[GVK, Origins] = {}

    def watch(self, node: yaml.Node, *, place: Place) -> tuple[Watch, Place]:
        place = place.at(line_of(node))
        if not isinstance(node, yaml.MappingNode):
            remedy = "write version, kind and role or playbook below its `- `"
            raise place.error(f"must be a mapping, not {kind_of(node)}", remedy=remedy)
        section = Section(node, place=place, known=ENTRY_KEYS, notes=self._notes)
        gvk = _gvk(section)
        section.place = section.place.in_entry(f"{place.entry} ({gvk})")
        return self._build(section, gvk=gvk), section.place

    def _build(self, section: Section, *, gvk: GVK) -> Watch:
        origins = self.origins[gvk] = self._origins(gvk)
        handlers = read_handlers(section, folders=self._folders)
        return Watch(
            gvk=gvk,
            content=self._content(section, handlers=handlers),
            vars=section.mapping("vars"),
            reconcile_period=_period(section),
            manage_status=section.boolean("manageStatus", default=True),
            watch_dependent_resources=section.boolean("watchDependentResources", default=True),
            watch_cluster_scoped_resources=section.boolean("watchClusterScopedResources", default=False),
            watch_annotations_changes=section.boolean("watchAnnotationsChanges", default=False),
            snake_case_parameters=section.boolean("snakeCaseParameters", default=True),
            mark_unsafe=section.boolean("markUnsafe", default=False),
            max_runner_artifacts=_artifacts(section),
            blacklist=tuple(_blacklisted(item) for item in section.sections("blacklist", known=GVK_KEYS)),
            selector=read_selector(section),
            finalizer=self._finalizer(section),
            max_concurrent_reconciles=origins.workers.value,
            ansible_verbosity=origins.verbosity.value,
            executor=read_executor(section),
            run_timeout=read_run_timeout(section),
            watch_dependent_status=read_dependent_status(section),
            handlers=handlers,
        )

    def _content(self, section: Section, *, handlers: Path | None) -> Content:
        """Find what runs; an entry with handlers needs nothing, but then it has no finalizer to run either."""
        if handlers is None or section.text("role") or section.text("playbook"):
            return self._finder.find(section)
        if "finalizer" in section:
            remedy = "add a role or playbook to the entry, or delete the finalizer"
            raise section.error("finalizer", "an entry with handlers alone runs nothing for its objects", remedy=remedy)
        return Content()

    def _origins(self, gvk: GVK) -> Origins:
        """Take the numbers of a watch from the environment, else from the flags."""
        settings, environ, notes = self._settings, self._environ, self._notes
        given = settings.given_flags
        workers = Chosen(
            value=settings.max_concurrent_reconciles,
            source="--max-concurrent-reconciles" if "max-concurrent-reconciles" in given else "number of CPUs",
        )
        verbosity = Chosen(
            value=settings.ansible_verbosity,
            source="--ansible-verbosity" if "ansible-verbosity" in given else "default",
        )
        return Origins(
            workers=overrides.workers(gvk, environ=environ, default=workers, notes=notes),
            verbosity=overrides.verbosity(gvk, environ=environ, default=verbosity, notes=notes),
        )

    def _finalizer(self, entry: Section) -> Finalizer | None:
        section = entry.section("finalizer", known=FINALIZER_KEYS)
        if section is None:
            return None
        name = section.text("name")
        if not name:
            raise section.error("name", "finalizer must have name", remedy="add `name: DOMAIN/finalizer`")
        if not is_qualified_name(name):
            remedy = "write name or dns.prefix/name, as in example.com/finalizer"
            raise section.error("name", f'"{name}" is not a finalizer name', remedy=remedy)
        return Finalizer(name=name, content=self._finalizer_content(section), vars=section.mapping("vars"))

    def _finalizer_content(self, section: Section) -> Content:
        """Find the finalizer's content; with vars, a missing one is only noted, as the peer starts with it."""
        try:
            return self._finder.find(section)
        except WatchesError as error:
            if not section.mapping("vars"):
                raise
            content = self._finder.unresolved(section)
            if content != Content():
                self._notes.append(f"{error} (deletions will fail until then)")
            return content


def _effective(environ: Mapping[str, str], *, settings: Settings) -> dict[str, str]:
    """Return *environ* with what the flags overwrite."""
    flags = {
        "ANSIBLE_ROLES_PATH": settings.execution.roles_path,
        "ANSIBLE_COLLECTIONS_PATH": settings.execution.collections_path,
    }
    return {**environ, **{name: value for name, value in flags.items() if value}}


def _read(path: Path, *, place: Place) -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        wrong = f"cannot be read: {error.strerror} ({path})"
        remedy = "name the file with --watches-file, or start in the folder that has it"
        raise WatchesFileError(f"{place}: {wrong}; {remedy}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise WatchesFileError(f"{place.at(line)}: is not UTF-8 text; save it as UTF-8") from error


def _entries(text: str, *, place: Place, notes: list[str]) -> list[yaml.Node]:
    root, second = read_document(text, place=place)
    if second is not None:
        notes.append(f"line {second}: only the first YAML document is read, this one is ignored")
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == NULL):
        return []
    if not isinstance(root, yaml.SequenceNode):
        wrong = f"must be a list of watches, not {kind_of(root)}"
        raise place.at(line_of(root)).error(wrong, remedy="begin each watch with `- `, as in `- version: v1`")
    entries: list[yaml.Node] = root.value
    return entries


def _gvk(section: Section) -> GVK:
    gvk = section.gvk()
    for name, value in (("version", gvk.version), ("kind", gvk.kind)):
        if not value:
            wrong = f"invalid GVK: {gvk}: {name} must not be empty"
            raise section.error(name, wrong, remedy=f"add `{name}: ` as the custom resource definition has it")
    return gvk


def _blacklisted(section: Section) -> GVK:
    """Return a kind that is on the blacklist; one that can match nothing is only noted, as the peer starts with it."""
    gvk = section.gvk()
    missing = " and ".join(name for name, value in (("version", gvk.version), ("kind", gvk.kind)) if not value)
    if missing:
        section.note("kind", f"the entry of blacklist ({gvk}) matches nothing; add its {missing}")
    return gvk


def _period(section: Section) -> timedelta | None:
    """Return the entry's own period; negative ones mean never, as zero does."""
    period = section.duration("reconcilePeriod")
    return None if period is None else max(period, timedelta())


def _artifacts(section: Section) -> int:
    """Return how many runs are kept: 20 for 0, as in the peer; for a negative number, all."""
    number = section.integer("maxRunnerArtifacts")
    return max(number, 0) if number else _DEFAULT_ARTIFACTS
