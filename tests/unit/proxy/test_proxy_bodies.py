"""Marks are put into JSON, and nothing else of it changes."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest

from runner.proxy.bodies import UnreadableBody, is_json, marked_json, unpacked
from runner.proxy.ownership import Marks

NEW = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}
REFERENCE = Marks(reference=NEW)
ANNOTATIONS = Marks(annotations={"a": "1", "b": "2"})


def marked(text: str, marks: Marks) -> str:
    """Return *text* with *marks*."""
    return marked_json(text.encode(), lambda _: marks).decode()


@pytest.mark.parametrize(
    ("body", "references"),
    [
        ("{}", [NEW]),
        ('{"metadata":null}', [NEW]),
        ('{"metadata":{}}', [NEW]),
        ('{"metadata":{"name":"x"}}', [NEW]),
        ('{"metadata":{"ownerReferences":null}}', [NEW]),
        ('{"metadata":{"ownerReferences":[]}}', [NEW]),
        (
            '{"metadata":{"ownerReferences" : [ {"uid":"f","controller":true} ] }}',
            [{"uid": "f", "controller": True}, NEW],
        ),
        ('{"metadata":{"ownerReferences":[{"uid":"u","controller":true}]}}', [{"uid": "u", "controller": True}]),
    ],
)
def test_a_reference_is_added_once(body: str, references: list[Any]) -> None:
    """Null and nothing become a list, foreign owners stay, and one with our UID stays as it is written."""
    assert json.loads(marked(body, REFERENCE))["metadata"]["ownerReferences"] == references


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        '{"metadata":null}',
        '{"metadata":{"annotations":null}}',
        '{"metadata":{"annotations":{"b":"x","a":["odd"]}}}',
    ],
)
def test_annotations_are_always_overwritten(body: str) -> None:
    """What a body says under these two keys doesn't count."""
    assert json.loads(marked(body, ANNOTATIONS))["metadata"]["annotations"] == {"a": "1", "b": "2"}


def test_other_annotations_stay() -> None:
    """Only our two keys are touched."""
    assert json.loads(marked('{"metadata":{"annotations":{"z":"9"}}}', ANNOTATIONS))["metadata"] == {
        "annotations": {"a": "1", "b": "2", "z": "9"}
    }


def test_everything_else_survives_to_the_byte() -> None:
    """Numbers, blanks, escapes, repeated keys, unknown fields and bytes that are no UTF-8 are sent as they came."""
    head = b'{ "x" : 1.10, "n":12345678901234567890123, "e":1E+400, "x":"\\ud800\\u0041", "bad":"\xff", "metadata"\n:'
    tail = b', "spec":{"a":[1.0,{"b":-0}]} }\r\n'
    old, new = b'{"name":"\xc3\xa9","generation":1e0}', json.dumps([NEW]).encode()
    expected = head + b'{"ownerReferences": ' + new + b", " + old[1:] + tail
    assert marked_json(head + old + tail, lambda _: REFERENCE) == expected


def test_many_digits_are_no_trouble() -> None:
    """A number is never converted."""
    body = '{"metadata":{},"n":' + "9" * 10_000 + "}"
    assert ("9" * 10_000) in marked(body, REFERENCE)


def test_of_a_repeated_key_the_last_one_counts() -> None:
    """The API server takes the last `metadata` for a custom resource, and so does this."""
    body = marked('{"metadata":{"name":"a"},"metadata":{"name":"b"}}', REFERENCE)
    assert json.loads(body)["metadata"]["ownerReferences"] == [NEW]


@pytest.mark.parametrize(("metadata", "namespace"), [('{"namespace":"ns"}', "ns"), ("{}", ""), ("null", "")])
def test_the_namespace_is_told(metadata: str, namespace: str) -> None:
    """What the body says of its namespace decides about the marks where the URL doesn't."""
    asked: list[str] = []

    def choose(of_body: str) -> Marks:
        asked.append(of_body)
        return Marks()

    body = f'{{"metadata":{metadata}}}'.encode()
    assert marked_json(body, choose) == body
    assert asked == [namespace]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "no JSON object"),
        ("[]", "no JSON object"),
        ('"x"', "no JSON object"),
        ("\ufeff{}", "no JSON object"),
        ("{} {}", "something follows"),
        ('{"a":1,}', "no JSON"),
        ('{"a" 1}', "lacks a ':'"),
        ('{"a":1 "b":2}', "lacks a ','"),
        ('{"a":tru}', "no JSON"),
        ("{1:2}", "key of its JSON is no string"),
        ('{"a":"x', "no JSON"),
        ('{"a":' + "[" * 100_000, "nested too deeply"),
        ('{"metadata":3}', "metadata is no object"),
        ('{"metadata":{"ownerReferences":{}}}', "ownerReferences are no list"),
    ],
)
def test_what_is_no_object_is_refused(body: str, problem: str) -> None:
    """A body without a place for an owner is never taken for one that has it."""
    with pytest.raises(UnreadableBody, match=problem):
        marked(body, REFERENCE)


def test_annotations_that_are_no_object_are_refused() -> None:
    """There is no place for a key in a list."""
    with pytest.raises(UnreadableBody, match="annotations are no object"):
        marked('{"metadata":{"annotations":[]}}', ANNOTATIONS)


def test_a_refusal_quotes_nothing() -> None:
    """A broken Secret stays out of answers and logs."""
    with pytest.raises(UnreadableBody) as refusal:
        marked('{"data":{"password":"hunter2"', REFERENCE)
    assert "hunter2" not in str(refusal.value)


def test_every_object_gets_its_marks_and_keeps_the_rest() -> None:
    """Whatever an object holds, it is the same but for the marks."""
    source = random.Random(7)  # noqa: S311 - the same cases each time
    for _ in range(500):
        value = {**_object(source, depth=3), "metadata": _object(source, depth=2)}
        value["metadata"].pop("ownerReferences", None)
        body = json.dumps(value, indent=source.choice([None, 1, 4]))
        result = json.loads(marked(body, REFERENCE))
        assert result["metadata"].pop("ownerReferences") == [NEW]
        assert result == value


def _object(source: random.Random, *, depth: int) -> dict[str, Any]:
    return {source.choice('abc"\\é{}[],: '): _value(source, depth=depth - 1) for _ in range(source.randint(0, 4))}


def _value(source: random.Random, *, depth: int) -> Any:
    if depth and source.random() < 0.5:
        return _object(source, depth=depth) if source.random() < 0.6 else [_value(source, depth=depth - 1)]
    return source.choice([None, True, 0, -1.5, 10**30, "", "}{", '"\\', "\U0001f600\n"])


def test_gzip_is_unpacked() -> None:
    """A packed body is read like any other; what isn't packed passes as it is."""
    assert unpacked(gzip.compress(b'{"a":1}'), limit=100) == b'{"a":1}'
    assert unpacked(b'{"a":1}', limit=3) == b'{"a":1}'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (gzip.compress(bytes(10_000_000)), "more than 1000 bytes"),
        (gzip.compress(b"{}")[:-3], "ends too early"),
        (gzip.compress(b"{}") + b"x", "goes on"),
        (b"\x1f\x8b junk of some length", "can't be unpacked"),
    ],
)
def test_broken_and_bursting_gzip_is_refused(body: bytes, problem: str) -> None:
    """A small body that would fill the memory, and one that is cut, are told as such."""
    with pytest.raises(UnreadableBody, match=problem):
        unpacked(body, limit=1000)


def test_json_is_told_from_yaml() -> None:
    """A body that opens a brace may be JSON, which is YAML too."""
    assert is_json(b" \n{}")
    assert not is_json(b"a: {}")
