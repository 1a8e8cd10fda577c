"""The messages between operator and fork server."""

from __future__ import annotations

import pytest

from runner.execution.warm.far.protocol import (
    Drain,
    Ended,
    Message,
    Note,
    ProtocolError,
    Ready,
    Refused,
    Retiring,
    Run,
    Start,
    Started,
    decode,
    encode,
)

MESSAGES = [
    Start(scratch="/s", roles=["/r"], playbooks=["/p.yml"], roles_path=["/roles"]),
    Run(id=1, ident="12", argv=["a", "b\n"], environ={"A": "ü\n", "B": "\udcff"}, cwd="/", complaints="/c"),
    Drain(),
    Ready(pid=4, core="2.19.14", preloaded=["boto3"], seconds=1.5),
    Started(id=1, pid=5),
    Ended(id=1, code=-9),
    Refused(id=1, reason="draining"),
    Retiring(reason="broken"),
    Note(level="info", message="m", fields={"a": [1]}, run=1),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_message_is_one_line_and_comes_back_as_it_was(message: Message) -> None:
    """Each message is one line whatever is in it, bytes of an environment that are no text too."""
    line = encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == message


@pytest.mark.parametrize(
    "line",
    [b"", b"nothing", b"[]", b"3", b"{}", b'{"kind": "Secret"}', b'{"kind": "Started"}', b'{"kind": ["x"]}', b"\xff"],
)
def test_what_is_no_message_is_refused_without_being_quoted(line: bytes) -> None:
    """A line that is no message, or lacks what its kind has, raises an error that has nothing of the line in it."""
    with pytest.raises(ProtocolError) as raised:
        decode(line)
    assert "Secret" not in str(raised.value)


def test_environment_of_a_run_is_not_shown() -> None:
    """What prints a Run doesn't print the credentials in its environment."""
    assert "hunter2" not in repr(Run(id=1, ident="1", argv=[], environ={"P": "hunter2"}, cwd="/", complaints="/c"))
