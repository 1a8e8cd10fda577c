"""The flags of the metrics endpoints and their settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cli.configure import Configured, configure
from runner.cli.flags import FLAGS
from runner.cli.run import run

DEFAULT = "/tmp"  # noqa: S108 - the peer's path


def configured(*arguments: str, environ: dict[str, str] | None = None) -> Configured:
    """Return what *arguments* configure."""
    context = run.make_context("run", list(arguments))
    given = {argument.partition("=")[0].removeprefix("--") for argument in arguments}
    values = {flag.name: context.params[flag.parameter] for flag in FLAGS}
    return configure(values, given=given, environ=environ or {})


def test_user_metrics_have_an_address_of_their_own() -> None:
    """The peer's fixed port is the default, and another one or none can be chosen."""
    addresses = [
        configured(*arguments).settings.serving.user_metrics_bind_address
        for arguments in ([], ["--user-metrics-bind-address=127.0.0.1:5051"], ["--user-metrics-bind-address=0"])
    ]
    assert addresses == ["localhost:5050", "127.0.0.1:5051", "0"]


@pytest.mark.parametrize(("environ", "root"), [({}, DEFAULT), ({"TMPDIR": ""}, DEFAULT), ({"TMPDIR": "/x"}, "/x")])
def test_the_serving_certificate_is_looked_for_where_the_peer_does(environ: dict[str, str], root: str) -> None:
    """The folder is below TMPDIR, /tmp by default."""
    folder = configured(environ=environ).settings.serving.metrics_cert_dir
    assert folder == Path(root) / "k8s-metrics-server" / "serving-certs"


def test_http2_is_accepted_with_a_note() -> None:
    """The flag changes nothing, and the log says so."""
    notes = [note.sentence for note in configured("--enable-http2").notes]
    assert [note for note in notes if "--enable-http2 has no effect" in note]
    assert not [note.sentence for note in configured().notes if "http2" in note.sentence]


def test_every_metrics_flag_works() -> None:
    """None of them is said to have no effect in this version."""
    names = [flag.name for flag in FLAGS if "metrics" in flag.name]
    assert len(names) == 5
    given = ["--metrics-bind-address=:1", "--metrics-secure", "--metrics-require-rbac", "--user-metrics-bind-address=0"]
    assert not [note for note in configured(*given).notes if "no effect" in note.sentence]


def test_the_build_info_has_a_commit() -> None:
    """What the version command tells is handed on."""
    assert configured().settings.commit
