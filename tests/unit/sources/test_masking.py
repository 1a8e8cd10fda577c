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
        (("spec", "parameters", "[name=adminPassword]", "from", "rawText"), DEPLOYMENT),
        (("spec", "parameters", "[name=JAVA_OPTS]", "plain"), DEPLOYMENT),
        (("spec", "users", "[name=auth]", "hash"), DEPLOYMENT),
        (("spec", "containers", "[name=auth]", "env", "[name=A]", "value"), DEPLOYMENT),
        (("spec", "containers", "[name=auth]", "args", "[0]"), DEPLOYMENT),
        (("spec", "containers", "[name=auth]", "apiToken"), DEPLOYMENT),
        (("spec", "environment"), DEPLOYMENT),
        (("spec", "labels", "env"), DEPLOYMENT),
        (("metadata", "annotations", "env"), DEPLOYMENT),
        (("metadata", "labels", "token"), DEPLOYMENT),
        (("spec", "selector", "env", "B"), DEPLOYMENT),
        (("spec", "env", "selector", "env"), DEPLOYMENT),
        (("spec", "auth", "image"), DEPLOYMENT),
        (("data", "image"), SECRET),
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
        "pass: hunter2",
        "key hunter2",
        "a key: hunter2",
        "'api-key': 'hunter2'",
        "X-Api-Key: hunter2",
        "DB_PASS: hunter2",
        "apikey: hunter2",
        "APIkey: hunter2",
        "authkey: hunter2",
        "sshkeys: hunter2",
        "userpass: hunter2",
        "wordpresspass=hunter2",
        "AWS_ACCESS_KEY_ID=hunter2",
        "auth: hunter2",
        "basicauth: hunter2",
        "Authorization: hunter2",
        "authentication: hunter2",
        "signature: hunter2",
        "sig=hunter2",
        "jdbc:mysql://h/db;user=a;pw=hunter2",
        "pw: hunter2",
        "db_pw = hunter2",
        "SharedAccessKey=hunter2",
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
        ("valkey/valkey:8.0", "valkey/valkey:8.0"),
        ("quay.io/keycloak/keycloak:22.0.1", "quay.io/keycloak/keycloak:22.0.1"),
        ("ghcr.io/authelia/authelia:4.38", "ghcr.io/authelia/authelia:4.38"),
        ("oauth2-proxy:v7.5", "oauth2-proxy:v7.5"),
        ("bitnami/passbolt:1", "bitnami/passbolt:1"),
        ("gcr.io/sigstore/cosign:v2", "gcr.io/sigstore/cosign:v2"),
        ("monkey: 3", "monkey: 3"),
        ("bypass: true", "bypass: true"),
        ("keyboard=us", "keyboard=us"),
        ("signal: 9", "signal: 9"),
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
    "value",
    [
        "external-secrets/external-secrets:v0.9",
        "auth:1",
        "auth.example.com:5000/web",
        "ghcr.io/team/token-service:V1.2_b",
        "r.io/secret:1@sha256:" + "0123456789abcdef" * 4,
        "r.io/secret:1@sha512:" + "0123456789abcdef" * 8,
    ],
)
def test_an_image_is_shown_whatever_it_is_called(value: str) -> None:
    """In a field `image` the reference of an image is shown, and in another one it is read as any text."""
    assert line(*CONTAINER, "image", desired=value, actual=ABSENT)[1] == "absent"
    assert line(*CONTAINER, "image", desired="a", actual=value)[0] == "a"
    assert line("spec", "field", desired=value, actual="a") == ("differs", "differs")


@pytest.mark.parametrize(
    "value",
    [
        "https://user:hunter2@r.io/web:1",
        "user:hunter2@r.io/web",
        "--password=hunter2",
        "token: hunter2",
        "secret:1\n",
        "token=hunter2",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_abcdefgh",
        "5ebe2294ecd0e0f08eab7690d2a6ee69",
        "r.io/secret:1@sha256:abc",
        "secret:" + "x" * 129,
        "secret/" * 400_000,
    ],
)
def test_what_is_no_image_is_not_shown_as_one(value: str) -> None:
    """A field `image` hides what looks secret and has not the form of an image."""
    assert line(*CONTAINER, "image", desired=value, actual="web:1") == ("differs", "differs")
    assert line(*CONTAINER, "image", desired="web:1", actual=value) == ("differs", "differs")


@pytest.mark.parametrize(
    "path",
    [
        ("metadata", "labels", "environment"),
        ("metadata", "labels", "example.com/env"),
        ("spec", "template", "metadata", "labels", "env"),
        ("spec", "selector", "env"),
        ("spec", "selector", "matchLabels", "environment"),
        ("spec", "template", "spec", "nodeSelector", "env"),
        ("spec", "containers", "[name=auth]", "image"),
        ("spec", "containers", "[name=auth]", "imagePullPolicy"),
        ("spec", "containers", "[name=auth]", "resources", "limits", "cpu"),
        ("spec", "containers", "[name=auth]", "ports", "[0]", "containerPort"),
        ("spec", "containers", "[name=auth]", "livenessProbe", "httpGet", "path"),
        ("spec", "containers", "[name=auth]", "workingDir"),
        ("spec", "containers", "[name=auth]"),
        ("spec", "initContainers", "[name=env-script]", "image"),
        ("spec", "volumes", "[name=token]", "hostPath", "path"),
        ("spec", "ports", "[name=auth]", "targetPort"),
        ("spec", "components", "[name=auth]", "replicas"),
        ("spec", "components", "[name=auth]", "image"),
        ("spec", "components", "[name=auth]", "resources", "limits", "cpu"),
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
