"""Sentences for the Failure condition."""

from __future__ import annotations

import pytest

from runner.errors import Call, Forbidden, Invalid, Unauthorized
from runner.kube.objects import Object
from runner.status.explain import explain, is_ours, name_taken

CALL = Call(verb="update", resource="widgets.example.com/status", namespace="shop", name="web")


def test_a_missing_right_is_named_in_full() -> None:
    """Forbidden names verb, resource and namespace, and what to grant."""
    text = explain(Forbidden("no RBAC", call=CALL))
    assert text == (
        "Not allowed to update widgets.example.com/status web in namespace shop: grant the verb update on "
        "widgets.example.com/status to the operator's service account (no RBAC)"
    )


def test_refused_credentials_are_told_as_such() -> None:
    """Unauthorized says that the credentials were read anew and are still not accepted."""
    assert "does not accept the operator's credentials" in explain(Unauthorized("expired", call=CALL))


def test_other_errors_keep_the_servers_words() -> None:
    """Any other error is told with its call and the server's own message."""
    assert explain(Invalid("spec.size: must be a number", call=CALL)).endswith("spec.size: must be a number")


def _existing(**metadata: object) -> Object:
    return {"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop", **metadata}}


OWNER = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "web", "uid": "u1"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{**OWNER, "uid": "u0"}, OWNER]},
        {"labels": {"ansible-operator.io/uid": "u1"}},
        {"annotations": {"ansible-operator.io/uid": "u1"}},
    ],
)
def test_what_was_made_for_the_object_may_be_adopted(metadata: dict[str, object]) -> None:
    """An owner reference, a label or an annotation with the UID makes a thing that is there already ours."""
    assert is_ours(_existing(**metadata), uid="u1")


@pytest.mark.parametrize("metadata", [{}, {"ownerReferences": [OWNER]}, {"labels": {"ansible-operator.io/uid": ""}}])
def test_what_was_made_for_others_may_not_be_adopted(metadata: dict[str, object]) -> None:
    """The name alone, or the owner of another UID, makes nothing ours; an empty UID is nobody's."""
    assert not is_ours(_existing(**metadata), uid="u2")
    assert not is_ours(_existing(**metadata), uid="")


def test_a_taken_name_names_its_owner() -> None:
    """The Failure message says whose the object of that name is, and what to do."""
    text = name_taken(_existing(ownerReferences=[OWNER]))
    assert "ConfigMap settings in namespace shop exists already and belongs to Widget web (UID u1)" in text
    assert "delete it, or choose another name" in text


def test_a_taken_name_names_the_uid_tag() -> None:
    """Where only a tag tells whose it is, its UID is named."""
    assert "belongs to the object with UID u9" in name_taken(_existing(labels={"ansible-operator.io/uid": "u9"}))


def test_a_taken_name_without_owner_says_so() -> None:
    """An object that belongs to nobody is left alone, too."""
    assert "has no owner" in name_taken(_existing())
