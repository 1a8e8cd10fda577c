"""`make demo SCENARIO=conflict`: an object is changed while its run is under way, and what that costs.

A playbook of ten steps is held before it writes the status. A person (or the story itself) edits the object, so that
the write gets 409. Beside one another: a run that fails then and is repeated (retry by error), and one that reads the
object again and writes once more (retry on conflict).
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import shlex
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rich.table import Table

from runner.localdev.narrator import Narrator
from runner.localdev.state import PlaneOptions
from runner.localdev.story import DemoOptions, Story

CONTENT = Path(__file__).with_name("conflict")
_GROUP = "demo.ansible-operator.io"
_KINDS = {"ByError": "retry by error", "OnConflict": "retry on conflict"}
_PATIENCE = 120.0
"""Seconds that a person has on a terminal; without one nobody is waited for."""
_STEP = re.compile(r"\bStep \d+$")


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Something that a person does while the runs are held."""

    title: str
    name: str
    """Of the two objects."""
    lines: tuple[tuple[str, ...], ...]
    """kubectl's arguments."""
    costs: str


EDITS = (
    Edit(
        title="Somebody sets a label while both runs are under way",
        name="labelled",
        lines=(
            ("label", "byerror/labelled", "team=blue", "--overwrite"),
            ("label", "onconflict/labelled", "team=blue", "--overwrite"),
        ),
        costs="A label is nothing that a run depends on: the repeated steps were for nothing.",
    ),
    Edit(
        title="Somebody edits the spec while both runs are under way",
        name="edited",
        lines=(
            ("patch", "byerror/edited", "--type=merge", "--patch", '{"spec": {"size": 2}}'),
            ("patch", "onconflict/edited", "--type=merge", "--patch", '{"spec": {"size": 2}}'),
        ),
        costs="A spec edit needs one further run whatever is done about the conflict; on conflict, the result of the "
        "first run is in the status before it, with the generation that it was for.",
    ),
)


class ConflictDemo(Story):
    """The story of two objects that are edited during their runs."""

    def __init__(self, *, options: DemoOptions, narrator: Narrator, person: TextIO | None = None) -> None:
        """Wait for Enter on *person*, by default standard input, where that is a terminal."""
        super().__init__(options=options, narrator=narrator)
        self._person = sys.stdin if person is None else person
        self._lock = threading.Lock()
        self._steps: Counter[str] = Counter()
        """By `KIND/NAME`."""
        self._told: set[str] = set()

    def tell(self, stack: contextlib.ExitStack, *, folder: Path) -> None:
        """Tell it all."""
        project, gate = folder / "project", folder / "gate"
        shutil.copytree(CONTENT, project)
        gate.mkdir()
        with self.narrator.chapter("A real Kubernetes, on this machine"):
            self.start_plane(stack, folder=folder, options=PlaneOptions(nodes=0))
        with self.narrator.chapter("An operator with one playbook of ten steps, for two kinds"):
            self._define()
            self.narrator.command(["cat", "ten_steps.yml"], (CONTENT / "ten_steps.yml").read_text())
            self.environ |= {"DEMO_GATE": str(gate), "ANSIBLE_GATHERING": "explicit"}
            self.start_operator(stack, folder=folder, project=project, follower=self._follow)
        costs = [self._edit(edit, gate=gate) for edit in EDITS]
        self._compare(costs)

    def _define(self) -> None:
        crds = [_crd(kind) for kind in _KINDS]
        self.quiet("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": crds}))
        names = [f"customresourcedefinition/{kind.lower()}s.{_GROUP}" for kind in _KINDS]
        self.quiet("wait", "--for=condition=Established", *names, "--timeout=60s")

    def _edit(self, edit: Edit, *, gate: Path) -> Mapping[str, tuple[int, float]]:
        """Tell one chapter, and return steps and seconds by kind."""
        with self.narrator.chapter(edit.title):
            for kind in _KINDS:
                head = {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": edit.name}}
                self.kubectl("create", "-f", "-", stdin=json.dumps({**head, "spec": {"size": 1}}))
            held = {f"{kind}/{edit.name}": 9 for kind in _KINDS}
            self.wait("both runs to be held before their last step", lambda: self._counted(held))
            before = self._versions(edit.name)
            self._let_a_person_edit(edit, changed=lambda: all(map(_differs, before, self._versions(edit.name))))
            (gate / edit.name).touch()
            return self._await(edit)

    def _let_a_person_edit(self, edit: Edit, *, changed: Callable[[], bool]) -> None:
        say = self.narrator.say
        say("Both runs are held before they write the status. In another terminal:")
        say(f"  export KUBECONFIG={self.kubeconfig}")
        for line in edit.lines:
            say(f"  kubectl {shlex.join(line)}")
        if self._person.isatty():
            say(f"Then press Enter; without an edit of yours within {_PATIENCE:.0f} s, the story does it itself.")
            ready, _, _ = select.select([self._person], [], [], _PATIENCE)
            if ready:
                self._person.readline()
        if changed():
            self.narrator.event("both objects were edited")
            return
        for line in edit.lines:
            self.kubectl(*line)

    def _await(self, edit: Edit) -> Mapping[str, tuple[int, float]]:
        """Wait for both objects to be done with what they are now; return steps and seconds by kind."""
        begun, ended = time.monotonic(), dict[str, float]()

        def done() -> bool:
            for kind in set(_KINDS) - ended.keys():
                if _is_done(self.get(kind, edit.name)):
                    ended[kind] = time.monotonic() - begun
                    self.narrator.event(f"{kind}/{edit.name} is done")
            return len(ended) == len(_KINDS)

        self.wait("both objects to be done", done)
        self.kubectl("get", "byerrors,onconflicts", "--show-labels")
        self.narrator.say(edit.costs)
        with self._lock:
            return {kind: (self._steps[f"{kind}/{edit.name}"], ended[kind]) for kind in _KINDS}

    def _compare(self, costs: list[Mapping[str, tuple[int, float]]]) -> None:
        table = Table("edit", *_KINDS.values(), title="What a conflict costs", title_justify="left", box=None)
        for edit, cost in zip(EDITS, costs, strict=True):
            table.add_row(edit.lines[0][0], *(f"{steps} steps, {seconds:.1f} s" for steps, seconds in cost.values()))
        self.narrator.table(table)

    def _versions(self, name: str) -> list[str]:
        return [str(self.get(kind, name)["metadata"]["resourceVersion"]) for kind in _KINDS]

    def _counted(self, wanted: Mapping[str, int]) -> bool:
        with self._lock:
            return all(self._steps[key] >= count for key, count in wanted.items())

    def _follow(self, record: Mapping[str, Any]) -> None:
        """Count the steps as the log tells them, and show what the API server said."""
        text = str(record.get("EventData.TaskArgs") or record.get("EventData.Name") or "")
        key = f"{str(record.get('gvk')).rpartition('=')[2]}/{record.get('name')}"
        if _STEP.search(text):
            with self._lock:
                self._steps[key] += 1
            return
        if "HTTP 409" in text:
            self.narrator.event(f"{key}: {_message_of(text)}")


def _is_done(obj: Mapping[str, Any]) -> bool:
    status = obj.get("status") or {}
    return bool(status.get("phase") == "Done" and status.get("observedGeneration") == obj["metadata"]["generation"])


def _differs(one: str, other: str) -> bool:
    return one != other


def _message_of(text: str) -> str:
    """Return the sentence of the API server's answer in *text*."""
    found = re.search(r'"message":\s*("(?:[^"\\]|\\.)*")', text)
    return f"HTTP 409: {json.loads(found[1])}" if found else text


def _crd(kind: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    columns = [
        ("Phase", "string", ".status.phase"),
        ("Size", "integer", ".status.size"),
        ("Generation", "integer", ".metadata.generation"),
        ("Observed", "integer", ".status.observedGeneration"),
    ]
    number = {"type": "integer"}
    status = {"phase": {"type": "string"}, "size": number, "observedGeneration": number}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": number}},
            "status": {"type": "object", "properties": status},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": name, "type": what, "jsonPath": path} for name, what, path in columns],
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }
