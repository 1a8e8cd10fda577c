"""What of a changed field people may read."""

from __future__ import annotations

from typing import Any

import pytest

from runner.kube.objects import GVK
from runner.sources.field_diff import ABSENT, Difference
from runner.sources.masking import shown

DEPLOYMENT = GVK("apps", "v1", "Deployment")
SECRET = GVK("", "v1", "Secret")


CONTAINER = ("spec", "template", "spec", "containers", "[name=a]")


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
        ((*CONTAINER, "args", "[1]"), DEPLOYMENT),
        ((*CONTAINER, "command", "[1]"), DEPLOYMENT),
        ((*CONTAINER, "livenessProbe", "exec", "command", "[0]"), DEPLOYMENT),
        ((*CONTAINER, "livenessProbe", "httpGet", "httpHeaders", "[name=X-Api-Key]", "value"), DEPLOYMENT),
        ((*CONTAINER, "livenessProbe", "httpGet", "httpHeaders", "[0]", "value"), DEPLOYMENT),
        (("spec", "extraArgs"), DEPLOYMENT),
        (("spec", "JAVA_OPTS"), DEPLOYMENT),
        (("spec", "parameters", "[name=adminPassword]", "value"), DEPLOYMENT),
        (("spec", "parameters", "[name=adminPassword]", "plain"), DEPLOYMENT),
        (("spec", "parameters", "[name=login]", "value"), DEPLOYMENT),
        (("spec", "parameters", "[name=login]", "stringValue"), DEPLOYMENT),
        (("spec", "parameters", "[3]", "default"), DEPLOYMENT),
        (("spec", "parameters", "[1]"), DEPLOYMENT),
        (("spec", "options", "[0]", "[1]"), DEPLOYMENT),
        (("binaryData", "a"), GVK("", "v1", "ConfigMap")),
        (("spec", "encryptedData", "a"), GVK("bitnami.com", "v1alpha1", "SealedSecret")),
        (("immutable",), SECRET),
        (("metadata", "annotations", "kapp.k14s.io/original"), SECRET),
        (("metadata", "annotations", "note"), GVK("bitnami.com", "v1alpha1", "SealedSecret")),
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
        "-----BEGIN OPENSSH PRIVATE KEY----- hunter2",
        "pass=hunter2",
        "Basic aHVudGVyMjo=",
        "basic hunter2",
        "mysql -phunter2",
        "-p hunter2",
        "https://hunter2@git.example.com/a",
        "https://user:hun/ter2@git.example.com/a",
        "https://a.example.com/download?sig=hunter2",
        "https://hooks.slack.com/services/a/b/c",
        "app:hunter2@tcp(db:3306)/shop",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "AKIAIOSFODNN7EXAMPLE",
        "id ASIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "ghp_abcdefgh",
        "xoxb-12345678",
        "5ebe2294ecd0e0f08eab7690d2a6ee69",
        '{"apiVersion": "v1", "stringData": {"a": "hunter2"}}',
        '["hunter2"]',
        "<login>hunter2</login>",
        "# a file of a ConfigMap\nlogin admin hunter2\n",
        "one line\n",
        "a\rb",
        "x" * 513,
        "key" * 400_000,
    ],
)
def test_a_value_that_says_itself_that_it_is_secret_is_not_shown(value: str) -> None:
    """An argument, a URL with a user, a known form of a key, a file or JSON with anything: neither side is shown."""
    for path in [("spec", "field"), ("data", "field"), ("metadata", "annotations", "example.com/field")]:
        assert line(*path, desired=value, actual="plain") == ("differs", "differs")
        assert line(*path, desired="plain", actual=value) == ("differs", "differs")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (True, "true"),
        (None, "null"),
        ("", '""'),
        ("web:1", "web:1"),
        ("a  b", "a b"),
        ("nginx:1.25-alpine", "nginx:1.25-alpine"),
        ("registry.example.com:5000/team/web:v1", "registry.example.com:5000/team/web:v1"),
        (
            "r.io:5000/web:1@sha256:" + "0123456789abcdef" * 4,
            "r.io:5000/web:1@sha256:0123456789abcdef0123456789abcdef01234 ...",
        ),
        ("web:da39a3ee5e6b4b0d3255bfef95601890afd80709", "web:da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("100m", "100m"),
        ("RollingUpdate", "RollingUpdate"),
        ("ReadWriteOnce", "ReadWriteOnce"),
        ("2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z"),
        ("http://shop.example.com:8080/path", "http://shop.example.com:8080/path"),
        (ABSENT, "absent"),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 60 + " ..."),
        ({"name": "side", "env": [{"name": "A", "value": "hunter2"}]}, "{name, env}"),
        (["--password=hunter2"], "[1 item]"),
        ({"annotation": "hunter2"}, "{annotation}"),
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
        ("spec", "containers", "[name=web]", "image"),
        ("spec", "ports", "[0]", "port"),
        ("spec", "type"),
        ("metadata", "labels", "team"),
        ("metadata", "finalizers", "[0]"),
        ("data", "a"),
        ("data", "LOG_LEVEL"),
    ],
)
def test_other_names_are_shown(path: tuple[str, ...]) -> None:
    """A name that only holds such letters, or none of them, hides nothing."""
    assert line(*path, desired="a", actual="b") == ("a", "b")


def test_a_long_field_is_cut() -> None:
    """A person can name a field of a ConfigMap as they like."""
    found = shown(Difference(path=("data", "x" * 1000), desired="a", actual="b"), gvk=GVK("", "v1", "ConfigMap"))
    assert len(found["field"]) == 128


def test_the_name_of_an_element_is_a_value_too() -> None:
    """What names an element of a list is not shown where it looks secret."""
    path = ("spec", "remotes", "[name=https://admin:hunter2@git.example.com]", "branch")
    found = shown(Difference(path=path, desired="a", actual="b"), gvk=DEPLOYMENT)
    assert found == {"field": "spec.remotes[differs].branch", "desired": "a", "actual": "b"}
