"""Keeps the operator's own environment out of what a run leaves behind: artifacts, events, messages.

A run inherits the environment on purpose, credentials and all. Gathered facts repeat all of it (`ansible_env`), and a
task that shows a command, or fails, may repeat a credential; neither may reach a disk, a log or a status.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.execution.files import write_private

MASK = "********"
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY", re.IGNORECASE)
_SHORTEST = 6
"""Shorter values would hide innocent text."""
_STRUCTURE = (
    "playbook_on_stats playbook_on_task_start runner_item_on_failed runner_on_unreachable runner_on_failed "
    "event_data localhost failures changed processed created counter stdout task_action operator_sdk.util.requeue_after"
)
"""Words that events are made of: a secret that is one of them could not be masked without breaking the event."""
_ENVIRONMENT_FACT = "ansible_env"


class Scrubber:
    """Masks the values of variables whose names say that they are secrets."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Learn the secrets of *environ*; the name of a file that holds one is none."""
        values = {
            value
            for name, value in environ.items()
            if _SECRET_NAME.search(name) and len(value) >= _SHORTEST
            if not value.startswith("/") and value not in _STRUCTURE
        }
        forms = values | {json.dumps(value)[1:-1] for value in values}
        self._forms = sorted(forms, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return *text* with secrets masked."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def document(self, text: str) -> str:
        """Return JSON *text* with secrets masked, and without gathered environments."""
        masked = self.text(text)
        return json.dumps(_without_environment(json.loads(masked))) if f'"{_ENVIRONMENT_FACT}"' in masked else masked

    def file(self, path: Path) -> None:
        """Mask secrets in a file of plain text."""
        with contextlib.suppress(FileNotFoundError):
            text = path.read_text(errors="replace")
            if (masked := self.text(text)) != text:
                write_private(path, masked)


def _without_environment(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_environment(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {key: _without_environment(item) for key, item in value.items() if key != _ENVIRONMENT_FACT}
