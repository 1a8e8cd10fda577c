"""The label selector of an entry (field case W2)."""

from __future__ import annotations

import pytest

from runner.watches.model import LabelRequirement
from runner.watches.problems import WatchesError
from tests.unit.watches.conftest import Project

ENTRY = "- version: v1\n  kind: Web\n  role: web\n  selector:\n"
PLACE = "watches.yaml, line 5, entry 1 (/v1, Kind=Web), field selector."


def selector(project: Project, text: str) -> tuple[LabelRequirement, ...]:
    """Return the requirements that *text* (below `selector:`) makes."""
    return project.one(f"{ENTRY}    {text}\n").selector


def test_match_labels_and_expressions_are_all_required(project: Project) -> None:
    """Labels become In with one value; expressions follow in their order."""
    text = (
        "matchLabels: {app.kubernetes.io/name: web, tier: ''}\n"
        "    matchExpressions:\n"
        "      - {key: t, operator: In, values: [a, b]}\n"
        "      - {key: t, operator: NotIn, values: [c]}\n"
        "      - {key: x, operator: Exists}\n"
        "      - {key: z, operator: DoesNotExist, values: []}\n"
    )

    assert selector(project, text) == (
        LabelRequirement(key="app.kubernetes.io/name", operator="In", values=("web",)),
        LabelRequirement(key="tier", operator="In", values=("",)),
        LabelRequirement(key="t", operator="In", values=("a", "b")),
        LabelRequirement(key="t", operator="NotIn", values=("c",)),
        LabelRequirement(key="x", operator="Exists"),
        LabelRequirement(key="z", operator="DoesNotExist"),
    )


def test_values_become_text(project: Project) -> None:
    """`true` and `1` in a selector are label values, as in the peer."""
    text = "matchLabels: {a: true}\n    matchExpressions: [{key: b, operator: In, values: [1, true]}]"

    assert selector(project, text) == (
        LabelRequirement(key="a", operator="In", values=("true",)),
        LabelRequirement(key="b", operator="In", values=("1", "true")),
    )


def test_an_empty_selector_selects_everything(project: Project) -> None:
    """No requirement at all."""
    assert selector(project, "matchLabels: {}") == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "matchExpressions: [{key: t, operator: Equals, values: [a]}]",
            (
                'matchExpressions.operator: "Equals" is not a valid label selector operator; '
                "write one of In, NotIn, Exists, DoesNotExist"
            ),
        ),
        (
            "matchExpressions: [{key: t}]",
            (
                'matchExpressions.operator: "" is not a valid label selector operator; '
                "write one of In, NotIn, Exists, DoesNotExist"
            ),
        ),
        (
            "matchExpressions: [{key: t, operator: In}]",
            "matchExpressions.values: must not be empty for In; list at least one value",
        ),
        (
            "matchExpressions: [{key: t, operator: Exists, values: [a]}]",
            "matchExpressions.values: must be empty for Exists; delete the values, or use In or NotIn",
        ),
        (
            "matchExpressions: [{operator: Exists}]",
            'matchExpressions.key: "" is not a label key; write name or dns.prefix/name',
        ),
        (
            "matchExpressions: [{key: t, operator: In, values: [a b]}]",
            (
                'matchExpressions.values: "a b" is not a label value; '
                "use at most 63 letters, digits, -, _ and ., with a letter or digit at both ends"
            ),
        ),
        ("matchLabels: {a b: c}", 'matchLabels: "a b" is not a label key; write name or dns.prefix/name'),
        ("matchLabels: {A.io/x/y: c}", 'matchLabels: "A.io/x/y" is not a label key; write name or dns.prefix/name'),
        ("matchLabels: {/x: c}", 'matchLabels: "/x" is not a label key; write name or dns.prefix/name'),
        (
            "matchLabels: {a: -b}",
            (
                'matchLabels: "-b" is not a label value; '
                "use at most 63 letters, digits, -, _ and ., with a letter or digit at both ends"
            ),
        ),
        ("matchLabels: [a]", "matchLabels: must be a mapping, not a list; write `name: value` lines below"),
        ("matchLabels: {a: [b]}", "matchLabels: must be a string, not a list; write it on one line"),
        ("matchExpressions: {key: t}", "matchExpressions: must be a list, not a mapping; begin each item with `- `"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_at_start(project: Project, text: str, sentence: str) -> None:
    """An operator with a wrong selector does not start, and says why."""
    with pytest.raises(WatchesError) as caught:
        selector(project, text)

    assert str(caught.value) == PLACE + sentence


def test_a_label_value_may_have_63_characters_and_no_more(project: Project) -> None:
    """The limit of Kubernetes."""
    assert selector(project, f"matchLabels: {{a: {'x' * 63}}}")
    with pytest.raises(WatchesError, match="is not a label value"):
        selector(project, f"matchLabels: {{a: {'x' * 64}}}")
