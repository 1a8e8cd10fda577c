"""What ansible-runner itself writes of one output, whichever way it reads it, is taken for the same."""

from __future__ import annotations

import base64
import io
import json
import random
from typing import Any

import pytest
from ansible_runner.utils import OutputEventFilter

from tests.integration.execution.runner_output import whole


def _told(text: str, *, uuid: str) -> str:
    """Return *text* as Ansible's callback of ansible-runner prints it: between two tokens."""
    return f"{_token({'uuid': uuid, 'event': 'runner_on_ok'})}{text}{_token({})}"


def _token(data: dict[str, str]) -> str:
    encoded = base64.b64encode(json.dumps(data).encode()).decode()
    return f"\x1b[K{encoded}\x1b[{len(encoded)}D\x1b[K"


OUTPUT = "".join([
    "a warning\r\nof two lines\r\n",
    _told("\r\nPLAY [all]\r\n", uuid="1"),
    _told("", uuid="2"),
    "\r\nskipping\r\n\r\n",
    _told("ok: [localhost] => {\r\n    a: b\r\n}\r\n", uuid="3"),
    "the last\r\nwords\r\n",
])


def _read(output: str, *, pieces: list[int]) -> tuple[str, list[dict[str, Any]]]:
    """Return the artifact and the events of *output*, read in *pieces*."""
    artifact = io.StringIO()
    artifact.close = lambda: None  # type: ignore[method-assign]
    events: list[dict[str, Any]] = []
    reader = OutputEventFilter(artifact, lambda event: events.append(dict(event)), suppress_ansible_output=True)
    for start, end in zip([0, *pieces], [*pieces, len(output)], strict=True):
        reader.write(output[start:end])
    reader.close()
    return artifact.getvalue(), [event for event in events if event["event"] != "EOF"]


@pytest.mark.parametrize("end", ["", "an unfinished line"])
def test_the_same_output_read_in_other_pieces_is_the_same(end: str) -> None:
    """Whatever ansible-runner left out of its artifact, it is the same text as where it left out nothing."""
    output = OUTPUT + end
    draw = random.Random(7)  # noqa: S311 - the same pieces each time
    wholes, artifacts = set(), set()
    for _ in range(500):
        pieces = sorted(draw.sample(range(1, len(output)), draw.randrange(6)))
        stdout, events = _read(output, pieces=pieces)
        artifacts.add(stdout)
        wholes.add(whole(stdout, events=events))
    assert len(artifacts) > 5
    assert len(wholes) == 1
    assert "skipping\n\nok: [localhost]" in wholes.pop()


@pytest.mark.parametrize("line", ["PLAY [all]\n", "    a: b\r\n", "words\r\n", "\nskipping\r\n\r\n"])
def test_an_artifact_that_lacks_anything_else_stays_as_it_is(line: str) -> None:
    """What belongs to an event, one of the last lines, or the line before an event can't be missing."""
    tokens = [token.span() for token in OutputEventFilter.EVENT_DATA_RE.finditer(OUTPUT)]
    stdout, events = _read(OUTPUT, pieces=sorted({place for span in tokens for place in span}))
    lacking = stdout.replace(line, "")
    assert lacking != stdout
    assert whole(lacking, events=events) == lacking
