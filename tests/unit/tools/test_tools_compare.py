"""The comparison with the peer: what counts as the same, what as a difference, and what explains it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.compare.cases import CASES
from tools.compare.diffs import ABSENT, Difference, Known, compare, explain
from tools.compare.known import KNOWN
from tools.compare.normalise import normalise
from tools.compare.report import UNEXPLAINED, has_row, render
from tools.compare.states import flips, is_terminal, summary

COMPATIBILITY = Path(__file__).resolve().parents[3] / "docs/compatibility.md"
UID = "0d5c8a3e-13a1-4f4e-9f00-2f1d6c1d8b3a"


def _object(**conditions: tuple[str, str]) -> dict[str, Any]:
    """Return an object with *conditions*: status and reason by type, all of the same time."""
    time = "2026-11-29T10:00:00Z"
    entries = [
        {"type": type_, "status": status, "reason": reason, "lastTransitionTime": time}
        for type_, (status, reason) in conditions.items()
    ]
    return {"status": {"conditions": entries}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29T10:00:00Z", "TIME"),
        ("2026-11-29T14:40:25.94964+00:00", "TIME"),
        (f"uid {UID}", "uid UID"),
        ("http://localhost:8888/x", "http://HOST:PORT/x"),
        ("artifacts/7756186435459837900/rc", "artifacts/RUN/rc"),
        ("size 888", "size 888"),
        ("/x/ours/tmp/file", "TMP/file"),
        ("/x/ours/other", "FOLDER/other"),
    ],
)
def test_what_differs_by_nature_becomes_a_word(text: str, expected: str) -> None:
    """Times, UIDs, ports, ids of runs and the folders of a side are replaced, other text is left alone."""
    assert normalise(text, names={"/x/ours": "FOLDER", "/x/ours/tmp": "TMP"}) == expected


def test_an_unsafe_text_stays_apart_from_the_plain_one() -> None:
    """A text that is marked as no template is not the same as the plain text."""
    marked = normalise({"a": {"__ansible_unsafe": "x"}, "uid": {"__ansible_unsafe": UID}}, names={})
    plain = normalise({"a": "x", "uid": UID}, names={})
    assert [one.path for one in compare(plain, marked)] == ["a", "uid"]


def test_conditions_are_compared_by_type_and_their_order_apart() -> None:
    """Two lists of the same conditions in another order differ in the order only."""
    one = normalise(_object(Running=("True", "x"), Failure=("False", "")), names={})
    other = normalise(_object(Failure=("False", ""), Running=("True", "x")), names={})
    assert {difference.path.rsplit("/", 1)[0] for difference in compare(one, other)} == {"status/conditions/order"}


def test_of_managed_fields_the_writers_are_compared() -> None:
    """Which fields a writer manages, and when it wrote, plays no part."""
    left = {"managedFields": [{"manager": "a", "operation": "Update", "subresource": "status", "time": "1"}]}
    right = {"managedFields": [{"manager": {"__ansible_unsafe": "a"}, "operation": "Update", "subresource": "status"}]}
    assert normalise(left, names={}) == normalise(right, names={}) == {"managedFields": ["a Update status"]}


def test_every_leaf_that_is_not_the_same_is_a_difference() -> None:
    """Values, types, and members that only one side has are told with their paths."""
    left: Any = {"same": [1, {"x": None}], "type": 1, "value": "a", "left": {}}
    right: Any = {"same": [1, {"x": None}], "type": True, "value": "b", "right": [0]}
    assert compare(left, right) == [
        Difference(path="type", peer=1, ours=True),
        Difference(path="value", peer="a", ours="b"),
        Difference(path="left", peer={}, ours=ABSENT),
        Difference(path="right/0", peer=ABSENT, ours=0),
    ]


def test_the_first_known_difference_that_fits_explains() -> None:
    """A difference goes to the first rule that fits its case and path, and the unexplained come first."""
    differences = [Difference(path=path, peer=1, ours=2) for path in ("a/x", "a/y", "b")]
    rules = (Known(row="first", cases="01-*", paths="a/x"), Known(row="second", cases="*", paths="a/*"))
    groups = explain(differences, case="01-names", known=rules)
    assert [(group.known and group.known.row, [one.path for one in group.differences]) for group in groups] == [
        (None, ["b"]),
        ("first", ["a/x"]),
        ("second", ["a/y"]),
    ]


def test_rules_of_one_row_make_one_explanation() -> None:
    """Two rules that name the same row and reason are told once, with the differences of both."""
    rules = (Known(row="row", cases="*", paths="a"), Known(row="row", cases="*", paths="b"))
    groups = explain([Difference(path=path, peer=1, ours=2) for path in "ab"], case="c", known=rules)
    assert [len(group.differences) for group in groups] == [2]


def test_a_rule_for_marks_explains_nothing_else() -> None:
    """Where only the unsafe mark is wanted, another text stays unexplained."""
    rule = Known(row="marks", cases="*", paths="*", marked=True)
    assert rule.covers(Difference(path="a", peer="x", ours="(unsafe) x"), case="c")
    assert not rule.covers(Difference(path="a", peer="x", ours="(unsafe) y"), case="c")


def test_a_rule_for_other_values_does_not_explain_that_one_is_missing() -> None:
    """Where another value is wanted, a leaf that one side lacks stays unexplained."""
    rule = Known(row="modes", cases="*", paths="*", both=True)
    assert rule.covers(Difference(path="a", peer="0644", ours="0600"), case="c")
    assert not rule.covers(Difference(path="a", peer="0644", ours=ABSENT), case="c")


def test_the_report_names_the_row_or_says_unexplained() -> None:
    """A case without differences says so, an explained one names its row, any other is marked."""
    rules = (Known(row="a row", cases="*", paths="a"),)
    found = {
        case: explain([Difference(path=path, peer="(absent)", ours={"k": 1})] if path else [], case=case, known=rules)
        for case, path in (("equal", ""), ("explained", "a"), ("new", "b"))
    }
    lines = render(found, titles=dict.fromkeys(found, "title")).splitlines()
    assert "| equal: title | nothing | |" in lines
    assert "| explained: title | `a` | a row |" in lines
    assert f"| new: title | `b` | {UNEXPLAINED} |" in lines
    assert lines.count("  peer (absent)") == lines.count('  ours {"k": 1}') == 2


def test_every_known_difference_has_its_row_in_the_table() -> None:
    """A rule names a row that docs/compatibility.md has."""
    text = COMPATIBILITY.read_text()
    assert [known.row for known in KNOWN if not has_row(text, begins=known.row)] == []


def test_the_cases_are_ten_and_apart() -> None:
    """Ten cases, and no kind of our group is in two of them."""
    kinds = [kind.name for case in CASES for kind in case.kinds]
    assert (len(CASES), len(kinds)) == (10, len(set(kinds)))


@pytest.mark.parametrize(
    ("obj", "want", "expected"),
    [
        ({}, "", False),
        (_object(Running=("True", "Running")), "", False),
        (_object(Running=("True", "Running"), Failure=("True", "Failed")), "", False),
        (_object(Running=("False", "Running"), Failure=("True", "Failed")), "", True),
        (_object(Running=("False", "Running"), Failure=("True", "Failed")), "Successful", False),
        (_object(Running=("True", "Successful"), Successful=("True", "Successful")), "Successful", True),
        (_object(Failure=("True", "Failed")), "", True),
    ],
)
def test_a_status_is_terminal_after_the_run(obj: dict[str, Any], want: str, *, expected: bool) -> None:
    """A status is terminal when an outcome is true and no run is under way."""
    assert is_terminal(obj, want=want) is expected


def test_a_summary_tells_status_and_reason_sorted_by_type() -> None:
    """The line of a status does not depend on the order of its conditions."""
    assert summary(_object(B=("True", "x"), A=("False", ""))) == "A=False(), B=True(x)"


def test_a_flip_is_right_when_the_time_moved_with_it() -> None:
    """The transition time has to be about now where the status flips, and to stay where it doesn't."""
    ten = 1_795_946_400.0  # 2026-11-29T10:00:00Z
    before, after = _object(A=("True", ""), B=("True", "")), _object(A=("False", ""), B=("True", ""))
    moved = _object(B=("True", ""))
    moved["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-29T10:00:30Z"
    assert flips([(before, ten), (after, ten + 1)]) == {"A": True}
    assert flips([(before, ten), (after, ten + 30)]) == {"A": False}
    assert flips([(after, ten), (moved, ten + 30)]) == {"B": False}
