"""One case played with one operator: objects are made and changed, ends of runs awaited, and everything observed.

What a case's script gets in its hand. Observations are JSON values by name of the stage; they are raw, and
`normalise` makes them comparable.
"""

from __future__ import annotations

import contextlib
import json
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.compare.cluster import GROUP, VERSION, Cluster, History, Version, wait_for
from tools.compare.states import flips, is_terminal, is_under_way, summary

GRACE = 12.0
"""Seconds after a finished run in which a status may come; who writes none by then never does."""
_QUIET = 6.0
"""Seconds without a run that make all quiet: starting one takes a moment."""
_MERGE = "application/merge-patch+json"

Spec = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind that a case watches."""

    name: str
    namespaced: bool = True
    core: bool = False
    """Of Kubernetes' own, version v1."""

    @property
    def api_version(self) -> str:
        """Return group and version."""
        return VERSION if self.core else f"{GROUP}/{VERSION}"


@dataclass(kw_only=True)
class World:
    """One operator, one case."""

    cluster: Cluster
    kinds: Sequence[Kind]
    namespace: str
    runs: Path
    """Where the operator has its run folders."""
    seen: Path
    """Where the roles write what they see."""
    stages: dict[str, Any] = field(default_factory=dict)
    _histories: dict[str, History] = field(default_factory=dict)
    _objects: dict[str, Kind] = field(default_factory=dict)
    _marks: dict[str, int] = field(default_factory=dict)
    _states: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _runs: dict[str, set[str]] = field(default_factory=dict)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the kinds; afterwards every object is gone."""
        for kind in self.kinds:
            self._histories[kind.name] = History(self._resource(kind), namespace=self._namespace_of(kind))
        try:
            yield
        finally:
            for history in self._histories.values():
                history.stop()
            self.discard_all()

    def discard_all(self) -> None:
        """Delete every object, held by a finalizer or not."""
        for name, kind in self._objects.items():
            self.cluster.discard(self._resource(kind), name=name, namespace=self._namespace_of(kind))

    def create(self, name: str, *, kind: str = "", metadata: Mapping[str, Any] | None = None, **body: Any) -> None:
        """Create an object of *kind* (of the case's first one) with *body*, such as `spec`."""
        chosen = next(one for one in self.kinds if kind in {"", one.name})
        self._objects[name], self._runs[name], self._marks[name] = chosen, set(), 0
        namespace = self._namespace_of(chosen)
        place = {"namespace": namespace} if namespace else {}
        content = {
            "apiVersion": chosen.api_version,
            "kind": chosen.name,
            "metadata": {"name": name, **place, **(metadata or {})},
            **body,
        }
        self._resource(chosen).create(body=content, namespace=namespace)

    def change(self, name: str, **body: Any) -> None:
        """Merge *body* into the object; what `settle` waits for comes after this."""
        kind = self._objects[name]
        changed = self._resource(kind).patch(
            name=name, namespace=self._namespace_of(kind), body=body, content_type=_MERGE
        )
        version = changed.metadata.resourceVersion

        def told() -> bool:
            return version in self._numbers(name)

        wait_for(told, what=f"the change of {name} to be told")
        self._marks[name] = self._numbers(name).index(version)

    def delete(self, name: str, *, limit: float = 120.0) -> None:
        """Delete the object and wait until it is gone."""
        kind = self._objects[name]
        self._resource(kind).delete(name=name, namespace=self._namespace_of(kind))
        wait_for(lambda: self._gone(name), what=f"{name} to be gone", limit=limit)

    def settle(self, name: str, *, want: str = "") -> None:
        """Wait until the status tells the end of a run, of the condition *want* where it is given.

        An operator that has ended a run and tells nothing for `GRACE` seconds is not waited for any longer.
        """
        deadline = 0.0

        def done() -> bool:
            nonlocal deadline
            self._note_runs(name)
            versions = self._versions(name)[self._marks[name] :]
            before = versions[0].obj.get("status") if versions else None  # that of an earlier run ends nothing
            ended = (one.obj for one in versions if one.obj.get("status") != before)
            found = next((obj for obj in ended if is_terminal(obj, want=want)), None)
            if found is not None:
                self._states[name] = found
                return True
            if not deadline and self._finished(name):
                deadline = time.monotonic() + GRACE
            if deadline and time.monotonic() > deadline and not want:
                self._states[name] = versions[-1].obj
                return True
            return False

        wait_for(done, what=f"the end of a run of {name}")

    def await_runs(self, name: str, *, count: int) -> None:
        """Wait until the role of the object has begun *count* times."""

        def begun() -> bool:
            self._note_runs(name)
            return len(self._records(name)) >= count

        wait_for(begun, what=f"{count} runs of {name}")

    def await_quiet(self) -> None:
        """Wait until no run has been under way for some seconds."""
        since = time.monotonic()

        def quiet() -> bool:
            nonlocal since
            for name in self._objects:
                self._note_runs(name)
            if any(not self._finished(name) for name in self._objects if self._runs[name]):
                since = time.monotonic()
            return time.monotonic() - since > (GRACE if self._announced() else _QUIET)

        wait_for(quiet, what="all runs to end")

    def observe(self, stage: str, *, name: str, files: bool = False, counted: bool = True) -> None:
        """Keep everything that is to be compared about an object.

        Args:
            stage: what the observation is called.
            name: the object.
            files: also its run folder.
            counted: the number of runs does not depend on the moment; otherwise only the last run is compared.
        """
        self._note_runs(name)
        records = self._records(name)
        versions = self._versions(name)
        state = self._states.pop(name, None) or (versions[-1].obj if versions else {})
        self.stages[stage] = {
            "terminal": is_terminal(state),
            "status": state.get("status", {}),
            "finalizers": state.get("metadata", {}).get("finalizers", []),
            "states": list(dict.fromkeys(summary(one.obj) for one in versions)),
            "transition time moved at each flip": flips([(one.obj, one.at) for one in versions]),
            **({"runs": len(self._runs[name])} if counted else {}),
            "role saw": records if counted else records[-1:],
            "extravars": self._json(name, "env/extravars"),
            **(self._files(name) if files else {}),
        }

    def _files(self, name: str) -> dict[str, Any]:
        """Return the layout of the run folder with modes, and the command of the last run."""
        folder = self._folder(name)
        layout = {str(path.relative_to(folder)): _mode(path) for path in sorted(folder.rglob("*")) if _shown(path)}
        command = self._json(name, "artifacts/latest/command") or {}
        kept = [path for path in (folder / "artifacts").iterdir() if path.name.isdigit()]
        return {
            "files": layout,
            "runs kept": len(kept),
            "inventory": _text(folder / "inventory/hosts"),
            "envvars": self._json(name, "env/envvars"),
            "command": {key: command.get(key) for key in ("command", "cwd")},
            "command has environment": bool(command.get("env")),
        }

    def _versions(self, name: str) -> list[Version]:
        return self._histories[self._objects[name].name].versions(name)

    def _numbers(self, name: str) -> list[str]:
        return [one.obj["metadata"]["resourceVersion"] for one in self._versions(name)]

    def _gone(self, name: str) -> bool:
        self._note_runs(name)
        return any(one.event == "DELETED" for one in self._versions(name))

    def _finished(self, name: str) -> bool:
        """Tell whether the object's runs so far have ended."""
        artifacts = self._folder(name) / "artifacts"
        present = [run for run in self._runs[name] if (artifacts / run).is_dir()]
        return bool(self._runs[name]) and all((artifacts / run / "rc").exists() for run in present)

    def _announced(self) -> bool:
        """Tell whether some status says that a run is under way; with the peer it may say so for ever."""
        newest = [versions[-1].obj for name in self._objects if (versions := self._versions(name))]
        return any(is_under_way(obj) for obj in newest)

    def _note_runs(self, name: str) -> None:
        """Remember the runs that are there: an operator removes old ones."""
        folder = self._folder(name) / "artifacts"
        with contextlib.suppress(FileNotFoundError):
            self._runs[name].update(path.name for path in folder.iterdir() if path.name.isdigit())

    def _folder(self, name: str) -> Path:
        kind = self._objects[name]
        parts = (*kind.api_version.split("/"), kind.name, self._namespace_of(kind) or "", name)
        return self.runs.joinpath(*(part for part in parts if part))

    def _records(self, name: str) -> list[Any]:
        """Return what each run of the object's role saw, in order; a file that is being written comes later."""
        found = []
        for path in sorted(self.seen.glob(f"{name}.*.json")):
            with contextlib.suppress(ValueError):
                found.append(json.loads(path.read_text()))
        return found

    def _json(self, name: str, path: str) -> Any:
        text = _text(self._folder(name) / path)
        return json.loads(text) if text else None

    def _resource(self, kind: Kind) -> Any:
        return self.cluster.resource(kind.name, api_version=kind.api_version)

    def _namespace_of(self, kind: Kind) -> str | None:
        return self.namespace if kind.namespaced else None


@dataclass(frozen=True, kw_only=True)
class Case:
    """What both operators are put through."""

    name: str
    title: str
    kinds: tuple[Kind, ...]
    watches: Sequence[Mapping[str, Any]]
    files: Mapping[str, Any]
    """Of the project, by path: YAML values."""
    script: Callable[[World], None]
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


def _mode(path: Path) -> str:
    kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
    return f"{kind} {stat.S_IMODE(path.lstat().st_mode):04o}"


def _shown(path: Path) -> bool:
    """Leave out single events and facts, whose names are random, and what is behind a link."""
    return path.parent.name not in {"job_events", "fact_cache"} and "latest" not in path.parts[:-1]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
