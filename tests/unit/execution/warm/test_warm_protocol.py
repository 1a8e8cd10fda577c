"""The messages between operator and fork server."""

from __future__ import annotations

import pytest

from runner.execution.warm.far.protocol import (
    LIMIT,
    Drain,
    Ended,
    Inbox,
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


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_messages_are_the_same_in_whatever_pieces_they_come(size: int) -> None:
    """An inbox gives each message once and in its order, and none before its line is whole."""
    sent: list[Message] = [Drain(), Started(id=1, pid=2), Ended(id=1, code=-9)]
    data = b"".join(encode(message) for message in sent)
    inbox, got = Inbox(), []
    for start in range(0, len(data), size):
        inbox.feed(data[start : start + size])
        while (message := inbox.next()) is not None:
            got.append(message)
    assert got == sent
    inbox.feed(encode(Drain())[:-1])
    assert inbox.next() is None


def test_what_came_before_a_broken_line_can_be_had() -> None:
    """A line that is no message is an error, and the message before it is there all the same."""
    inbox = Inbox()
    with pytest.raises(ProtocolError):
        inbox.feed(encode(Drain()) + b"{}\n")
    assert inbox.next() == Drain()


def test_a_line_without_an_end_is_refused() -> None:
    """More than the limit without a line's end is an error: nobody's memory is filled up."""
    inbox = Inbox()
    inbox.feed(b"x" * LIMIT)
    with pytest.raises(ProtocolError, match="more than"):
        inbox.feed(b"x")
