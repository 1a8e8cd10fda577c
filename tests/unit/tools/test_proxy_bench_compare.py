"""When two answers are the same: what is forgiven, and that nothing else is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tools.proxy_bench.case import Case
from tools.proxy_bench.compare import differences
from tools.proxy_bench.target import Answer

CASE = Case(name="one", target="/api/v1/namespaces/n/configmaps/a")


def answer(body: Any = b"", *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer with *body*, sent as JSON unless it is bytes."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status=status, headers=headers or {}, body=raw, seconds=0)


def found(direct: Answer, proxied: Answer, *, case: Case = CASE, owned: bool = False) -> str:
    """Return the differences as one text."""
    return "; ".join(differences(case, direct, proxied, owned=owned))


def test_equal_answers_do_not_differ() -> None:
    """The order of keys and headers that belong to one connection make no difference."""
    one = answer({"a": 1, "b": [1, 2]}, headers={"Content-Type": "x", "Date": "today", "Audit-Id": "1"})
    two = answer({"b": [1, 2], "a": 1}, headers={"content-type": "x", "Date": "tomorrow", "Audit-Id": "2"})
    assert found(one, two) == ""


@pytest.mark.parametrize(
    ("two", "told"),
    [
        (answer({"a": 1}, status=404, headers={"ETag": "1"}), "status: direct 200, proxy 404"),
        (answer({"a": 1}), "header ETag: direct ['1'], proxy []"),
        (answer({"a": 1}, headers={"ETag": "1", "Warning": "299"}), "header Warning: direct [], proxy ['299']"),
        (answer({"a": 2}, headers={"ETag": "1"}), "body.a: direct 1, proxy 2"),
        (answer({"a": 1, "b": 0}, headers={"ETag": "1"}), "body.b: direct None, proxy 0"),
        (answer(b"text", headers={"ETag": "1"}), "body: direct {'a': 1}, proxy b'text'"),
    ],
)
def test_each_difference_is_told(two: Answer, told: str) -> None:
    """Status, headers that a client acts on, and each value of the body count."""
    assert told in found(answer({"a": 1}, headers={"ETag": "1"}), two)


def test_only_the_lists_own_version_is_forgiven() -> None:
    """Any write moves a list's resourceVersion, but not those of its items; that there is one still counts."""
    case = Case(name="list", target="/", of_list=True)

    def listed(version: str, item: str) -> Answer:
        metadata = {"resourceVersion": version}
        return answer({"kind": "L", "metadata": metadata, "items": [{"metadata": {"resourceVersion": item}}]})

    assert found(listed("1", item="5"), listed("2", item="5"), case=case) == ""
    assert "items[0].metadata.resourceVersion" in found(listed("1", item="5"), listed("1", item="6"), case=case)
    assert "metadata.resourceVersion: direct True, proxy False" in found(
        listed("1", item="5"), listed("", item="5"), case=case
    )


def test_a_watchs_events_come_in_any_order() -> None:
    """The first events of a watch have none; a bookmark's version moves, an object's doesn't."""

    def events(*pairs: tuple[str, str]) -> Answer:
        lines = [{"type": kind, "object": {"metadata": {"resourceVersion": version}}} for kind, version in pairs]
        return answer("\n".join(map(json.dumps, lines)).encode())

    case = Case(name="watch", target="/", lines=True)
    one = events(("ADDED", "1"), ("ADDED", "2"), ("BOOKMARK", "3"))
    assert found(one, events(("ADDED", "2"), ("ADDED", "1"), ("BOOKMARK", "4")), case=case) == ""
    assert found(one, events(("ADDED", "2"), ("ADDED", "5"), ("BOOKMARK", "3")), case=case) != ""
    assert found(one, events(("ADDED", "2"), ("BOOKMARK", "3")), case=case) != ""


def test_an_owner_reference_is_wanted_where_a_run_creates() -> None:
    """With it the answers are the same; without it they aren't; and nobody else's creation gets one."""
    case = Case(name="create", target="/", method="POST", injected=True)
    plain, owned = answer({"metadata": {}}), answer({"metadata": {"ownerReferences": [{"uid": "1"}]}})
    assert found(plain, owned, case=case, owned=True) == ""
    assert "no owner reference" in found(plain, plain, case=case, owned=True)
    assert "ownerReferences" in found(plain, owned, case=case, owned=False)
