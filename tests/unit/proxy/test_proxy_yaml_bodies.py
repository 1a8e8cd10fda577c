"""Marks are put into YAML, and nothing else of it changes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from runner.proxy.bodies import UnreadableBody
from runner.proxy.ownership import Marks
from runner.proxy.yaml_bodies import marked_yaml

NEW = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}
REFERENCE = Marks(reference=NEW)
ANNOTATIONS = Marks(annotations={"x/a": "1", "x/b": "2"})
FOREIGN = {"uid": "f", "kind": "q"}


def marked(text: str, marks: Marks) -> str:
    """Return *text* with *marks*."""
    return marked_yaml(text.encode(), lambda _: marks).decode()


def loaded(text: str) -> Any:
    """Return the first document of *text*."""
    return next(iter(yaml.safe_load_all(text)))


@pytest.mark.parametrize(
    ("body", "references"),
    [
        ("apiVersion: v1\n", [NEW]),
        ("metadata:\n", [NEW]),
        ("metadata: ~\nx: 1\n", [NEW]),
        ("metadata: null", [NEW]),
        ("metadata: {name: x}\nmetadata: null\n", [NEW]),
        ("metadata: {name: x}", [NEW]),
        ("{metadata: {}}", [NEW]),
        ("---\nmetadata:\n    name: x\n", [NEW]),
        ("%YAML 1.1\n---\nmetadata:\n  name: x\n...\n", [NEW]),
        ("metadata:\n  name: x\nspec: {}\n---\n", [NEW]),
        ("metadata:\r\n  name: x\r\n", [NEW]),
        ("\ufeffmetadata: {name: x}\n", [NEW]),
        ("\ufeffmetadata:\n  name: \U0001f600\n  ownerReferences: [{uid: f, kind: q}]\n", [NEW, FOREIGN]),
        ("metadata:\n  name: x\nspec: " + "[" * 60 + "]" * 60 + "\n", [NEW]),
        ("metadata: {name: x}\ndata:\n  a: |\n" + "    a line\n" * 40_000, [NEW]),
        ("metadata:\n  ownerReferences:\n  name: x\n", [NEW]),
        ("metadata:\n  ownerReferences: []\n", [NEW]),
        ("metadata:\n  ownerReferences: [{uid: f, kind: q}]\n", [NEW, FOREIGN]),
        ("metadata:\n  ownerReferences:\n  - uid: f\n    kind: q\n  name: x\n", [NEW, FOREIGN]),
        ("metadata:\n  ownerReferences:\n      # why\n      - {uid: f, kind: q}\nx: y\n", [NEW, FOREIGN]),
        ("metadata:\n  ownerReferences:\n  - uid: u\n    controller: true\n", [{"uid": "u", "controller": True}]),
    ],
)
def test_a_reference_is_added_once(body: str, references: list[Any]) -> None:
    """Block and flow style, null and nothing, foreign owners and one of ours: each is extended in its place."""
    before, after = loaded(body), loaded(marked(body, REFERENCE))
    assert after["metadata"].pop("ownerReferences") == references
    (before.get("metadata") or {}).pop("ownerReferences", None)
    assert after == {**before, "metadata": before.get("metadata") or {}}


@pytest.mark.parametrize(
    ("body", "others"),
    [
        ("a: b\n", {}),
        ("metadata:\n  annotations:\n", {}),
        ("metadata: {annotations: {z: q}}\n", {"z": "q"}),
        ("metadata:\n  annotations:\n    z: |\n      long\n    x/a: old\n  name: n\n", {"z": "long\n"}),
        (
            "metadata:\n  annotations:\n    x/b: >\n      long\n    x/a:\n      odd: [1]\n    z: q\nspec: {}\n",
            {"z": "q"},
        ),
    ],
)
def test_annotations_are_always_overwritten(body: str, others: dict[str, str]) -> None:
    """What a body says under these two keys doesn't count; others stay."""
    before, after = loaded(body), loaded(marked(body, ANNOTATIONS))
    assert after["metadata"].pop("annotations") == {"x/a": "1", "x/b": "2", **others}
    assert {**after, "metadata": None} == {**before, "metadata": None}


def test_everything_else_survives_to_the_letter() -> None:
    """Scalars that YAML libraries read differently, comments and anchors elsewhere are sent as they came."""
    tail = "spec:  # why\n  a: y\n  b: 1e3\n  c: 1:30\n  d: 0o17\n  e: &x [1.10]\n  f: *x\n  t: 2001-01-01\n"
    body = f"metadata:\n  name: n\n{tail}"
    assert marked(body, REFERENCE).endswith(f"  name: n\n{tail}")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "no YAML mapping"),
        ("[]", "no YAML mapping"),
        ("- a: b", "no YAML mapping"),
        ("a: [\n", r"no YAML object: .*\(line 2\)"),
        ("a: \x01", "no YAML object"),
        ("a: b\n---\nc: d\n", "several YAML documents"),
        ("metadata: [1]", "metadata is no YAML mapping"),
        ("metadata: {<<: {a: b}}", "merge key"),
        ("a: &m {}\nmetadata: *m\n", "metadata is a YAML alias"),
        ("metadata: &m {}\na: *m\n", "anchor or tag"),
        ("metadata: !!map {}\n", "anchor or tag"),
        ("a: &m []\nmetadata:\n  ownerReferences: *m\n", "ownerReferences is a YAML alias"),
        ("metadata:\n  ownerReferences: &m [{uid: f}]\na: *m\n", "anchor or tag"),
        ("metadata:\n  ownerReferences: {}\n", "ownerReferences are no list"),
        ("? a\n: b\n", "the proxy can't extend"),
        ("[" * 500, "nested too deeply"),
        ("- " * 500, "nested too deeply"),
        ("a: {" * 100_000, "nested too deeply"),
        ("metadata: {}\na: [" + "a," * 60_000 + "]", "more than 50000 keys and values: send it as JSON"),
        ("metadata: {}\n" + "---\n" * 60_000, "more than 50000 keys and values"),
        ("metadata: {}\na: |\n" + " line\n" * 100_000, "more than 512 KiB takes too long to read: send it as JSON"),
    ],
)
def test_what_can_not_be_extended_is_refused(body: str, problem: str) -> None:
    """A document that would have to be rewritten, or of which the API server would drop a part, is told as such."""
    with pytest.raises(UnreadableBody, match=problem):
        marked(body, REFERENCE)


@pytest.mark.parametrize("body", ["a: b\n", "metadata: {}\n", "metadata:\n  name: n\n", "{metadata: {name: n}}"])
def test_reference_and_annotations_are_put_in_together(body: str) -> None:
    """All marks have a place, in a mapping of either style, with or without members."""
    after = loaded(marked(body, Marks(reference=NEW, annotations=ANNOTATIONS.annotations)))["metadata"]
    assert (after["ownerReferences"], after["annotations"]) == ([NEW], ANNOTATIONS.annotations)


def test_other_encodings_are_refused() -> None:
    """Only UTF-8 is read."""
    with pytest.raises(UnreadableBody, match="no UTF-8"):
        marked_yaml("a: b".encode("utf-16"), lambda _: REFERENCE)


def test_a_refusal_quotes_nothing() -> None:
    """A broken Secret stays out of answers and logs."""
    with pytest.raises(UnreadableBody) as refusal:
        marked("data:\n  password: hunter2\n broken\n", REFERENCE)
    assert "hunter2" not in str(refusal.value)


def test_the_namespace_is_told() -> None:
    """What the body says of its namespace decides about the marks where the URL doesn't."""
    asked: list[str] = []

    def choose(of_body: str) -> Marks:
        asked.append(of_body)
        return Marks()

    assert marked_yaml(b"metadata:\n  namespace: ns\n", choose) == b"metadata:\n  namespace: ns\n"
    assert asked == ["ns"]
