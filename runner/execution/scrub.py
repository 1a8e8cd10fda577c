"""Keeps the operator's own environment out of what a run leaves behind: artifacts, events, messages.

A run inherits the environment on purpose, credentials and all. Gathered facts repeat all of it (`ansible_env`), and a
task that shows a command, or fails, may repeat a credential; neither may reach a disk, a log or a status.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from runner.execution.files import write_private

MASK = "********"
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY", re.IGNORECASE)
_LIKELY_NAME = re.compile(
    r"(?:^|_)[A-Z0-9]*(?<!BY)(?<!COM)PASS(?:_|$)|_PWD$|(?:^|_)(?:PAT|AUTH|AUTHORIZATION|KEYS?|DSN)$", re.IGNORECASE
)
"""Such a variable holds a secret unless its value is a number or a switch."""
_HARMLESS = re.compile(r"[\d.,:-]+|enabled|disabled", re.IGNORECASE)
_PLACE_NAME = re.compile(r"(?:_|^)(?:FILE|FILENAME|PATH|DIR|DIRECTORY|FOLDER|SOCK|SOCKET)S?$", re.IGNORECASE)
"""Such a variable says where a secret is, and holds none."""
_URL_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s]+)@", re.IGNORECASE)
_BOTH = (True, False)
_ODD_ESCAPE = re.compile(r"\\(?:u00[2-7]|/)")
"""Writes a character of ASCII that needs no escape: who writes JSON so may hide a word from a plain search."""
_SHORTEST = 6
"""Shorter values would hide innocent text."""
_ENVIRONMENT_FACT = "ansible_env"

# What the runtime itself reads of an event stays, whatever the secrets are: one that equals a word of it would
# otherwise change how the run is judged.
_EVENT_VALUES = frozenset({"event", "uuid", "parent_uuid", "created", "runner_ident"})
_DATA_VALUES = frozenset({"host", "task_action", "resolved_action", "uuid", "task_uuid", "play_uuid", "playbook_uuid"})
_RECAP_VALUES = frozenset({"changed", "dark", "failures", "ignored", "ok", "processed", "rescued", "skipped"})
"""They count by host name."""
_KEYS = frozenset({
    "censored",
    "item",
    "_ansible_item_label",
    "module_stderr",
    "msg",
    "period",
    "reason",
    "results",
    "ansible_facts",
})


class Scrubber:
    """Masks the values of variables whose names say that they are secrets, and passwords in any variable's URLs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Learn the secrets of *environ*; where a file that holds one lies is none."""
        values = {value for name, value in environ.items() if _is_secret(name, value)}
        values |= {form for value in environ.values() for form in _url_passwords(value)}
        escaped = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for value in values for ascii_only in _BOTH}
        self._forms = sorted(values | escaped, key=len, reverse=True)
        self._in_json = {json.dumps(form, ensure_ascii=only)[1:-1] for form in self._forms for only in _BOTH}

    def text(self, text: str) -> str:
        """Return *text* with secrets masked."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def spares(self, document: str) -> bool:
        """Tell of JSON whether nothing in it needs to be masked or taken out; False where that isn't easily seen."""
        return not (
            any(form in document for form in self._in_json)
            or f'"{_ENVIRONMENT_FACT}"' in document
            or _ODD_ESCAPE.search(document)
        )

    def value(self, value: Any) -> Any:
        """Return parsed JSON with secrets masked in its strings and keys, and without gathered environments."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        return {self._key(key): self.value(item) for key, item in value.items() if key != _ENVIRONMENT_FACT}

    def event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event like `value`, but with the fields untouched that the runtime reads to judge a run."""
        return {
            key: value
            if key in _EVENT_VALUES
            else self._data(value, recap=event.get("event") == "playbook_on_stats")
            if key == "event_data"
            else self.value(value)
            for key, value in event.items()
        }

    def _data(self, data: Any, *, recap: bool) -> Any:
        if not isinstance(data, Mapping):
            return self.value(data)
        kept = _DATA_VALUES | _RECAP_VALUES if recap else _DATA_VALUES
        masked = {key: value if key in kept else self.value(value) for key, value in data.items()}
        result = data.get("res")
        asks_for_requeue = str(data.get("task_action")).rpartition(".")[2] == "requeue_after"
        if asks_for_requeue and isinstance(result, Mapping) and "period" in result:
            masked["res"]["period"] = result["period"]
        return masked

    def _key(self, key: str) -> str:
        return key if key in _KEYS else self.text(key)

    def fragment(self, text: str) -> str:
        """Return what was to be JSON with secrets masked, up to a gathered environment, whose end nobody can tell."""
        return self.text(text.partition(f'"{_ENVIRONMENT_FACT}"')[0])

    def file(self, path: Path) -> None:
        """Mask secrets in a file of plain text."""
        with contextlib.suppress(FileNotFoundError):
            text = path.read_text(errors="replace")
            if (masked := self.text(text)) != text:
                write_private(path, masked)


def _is_secret(name: str, value: str) -> bool:
    if len(value) < _SHORTEST or _PLACE_NAME.search(name):
        return False
    if not _SECRET_NAME.search(name) and (not _LIKELY_NAME.search(name) or _HARMLESS.fullmatch(value)):
        return False
    # many a generated key begins with a slash: only a path that is there is taken for one
    return not (value.startswith("/") and os.path.lexists(value))


def _url_passwords(value: str) -> set[str]:
    """Return the passwords in URLs such as `postgres://user:password@host`, as they stand there and decoded."""
    found = _URL_PASSWORD.findall(value)
    return {form for password in found for form in (password, unquote(password)) if len(form) >= _SHORTEST}
