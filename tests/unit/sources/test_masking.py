"""What of a changed field people may read."""

from __future__ import annotations

from typing import Any

import pytest

from runner.kube.objects import GVK
from runner.sources.field_diff import ABSENT, Difference
from runner.sources.masking import shown

DEPLOYMENT = GVK("apps", "v1", "Deployment")
SECRET = GVK("", "v1", "Secret")


def line(*path: str, desired: Any = "hunter2", actual: Any = "hunter3", gvk: GVK = DEPLOYMENT) -> tuple[str, str]:
    """Return the two values as they are shown."""
    found = shown(Difference(path=path, desired=desired, actual=actual), gvk=gvk)
    return found["desired"], found["actual"]


@pytest.mark.parametrize(
    ("path", "gvk"),
    [
        (("data", "anything"), SECRET),
        (("data",), SECRET),
        (("stringData", "anything"), SECRET),
        (("spec", "template", "spec", "containers", "[name=a]", "env", "[name=B]", "value"), DEPLOYMENT),
        (("spec", "env", "B"), DEPLOYMENT),
        (("spec", "adminPassword"), DEPLOYMENT),
        (("spec", "api_token"), DEPLOYMENT),
        (("spec", "clientSecret", "value"), DEPLOYMENT),
        (("data", "db-passwd"), GVK("", "v1", "ConfigMap")),
        (("spec", "sshKey"), DEPLOYMENT),
        (("spec", "API_KEY"), DEPLOYMENT),
        (("data", "tls.key"), GVK("", "v1", "ConfigMap")),
        (("spec", "credentials", "user"), DEPLOYMENT),
        (("spec", "PWD"), DEPLOYMENT),
    ],
)
def test_a_value_that_may_be_secret_is_not_shown(path: tuple[str, ...], gvk: GVK) -> None:
    """A Secret's data, an environment, and whatever a name calls secret only differ."""
    assert line(*path, gvk=gvk) == ("differs", "differs")


@pytest.mark.parametrize(
    "value",
    [
        "--password=hunter2",
        "DB_PASSWORD: hunter2",
        "user:\n  apiKey = hunter2",
        "--token hunter2",
        "Bearer hunter2",
        "postgres://admin:hunter2@db/app",
        "-----BEGIN PRIVATE KEY-----\nhunter2",
    ],
)
def test_a_value_that_says_itself_that_it_is_secret_is_not_shown(value: str) -> None:
    """An argument, a line of a configuration, a URL with a user: neither side is shown."""
    assert line("spec", "args", "[0]", desired=value, actual="plain") == ("differs", "differs")
    assert line("spec", "args", "[0]", desired="plain", actual=value) == ("differs", "differs")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (True, "true"),
        (None, "null"),
        ("", '""'),
        ("web:1", "web:1"),
        ("a\n  b", "a b"),
        (ABSENT, "absent"),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 60 + " ..."),
        ({"name": "side", "env": [{"name": "A", "value": "hunter2"}]}, "{name, env}"),
        (["--password=hunter2"], "[1 item]"),
        ([{"value": "hunter2"}, 2], "[2 items]"),
    ],
)
def test_other_values_are_short_and_in_one_line(value: Any, text: str) -> None:
    """Texts are cut; of a value with parts only their names or number are shown, as one of them may be secret."""
    assert line("spec", "field", desired=value, actual=1) == (text, "1")


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "replicas"),
        ("spec", "monkeys"),
        ("spec", "containers", "[name=token-refresher]", "image"),
        ("data", "a"),
    ],
)
def test_other_names_are_shown(path: tuple[str, ...]) -> None:
    """A name that only holds such letters, and the name of a list's element, hide nothing."""
    assert line(*path, desired="a", actual="b") == ("a", "b")


def test_a_long_field_is_cut() -> None:
    """A person can name a field of a ConfigMap as they like."""
    found = shown(Difference(path=("data", "x" * 1000), desired="a", actual="b"), gvk=GVK("", "v1", "ConfigMap"))
    assert len(found["field"]) == 128
