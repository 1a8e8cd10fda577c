"""What of a dependent's fields may be shown to everybody who reads logs and Events: short values, and no secret ones.

Pure. Better one value too few than one too many: a person who needs it looks at the object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from runner.kube.objects import GVK
from runner.sources.dependent_transform import SECRET
from runner.sources.field_diff import ABSENT, Difference, Path

DIFFERS = "differs"
"""In the place of a value that is not shown."""
_LONGEST = 64
_CUT = " ..."
_TELLING = re.compile(r"passw|passphrase|pwd|token|secret|credential|authorization|cookie|certificate", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_TELLING_WORDS = {"key", "keys", "apikey", "pass", "auth", "cert", "pem", "dsn", "jwt", "bearer"}
_IN_VALUE = re.compile(
    r"(passw|passphrase|pwd|token|secret|credential|key|auth)[\w.-]*[\"']?\s*[=:\s]\s*\S"
    r"|bearer\s+\S|://[^/\s@]*@|-----BEGIN ",
    re.IGNORECASE,
)
"""A value that says itself what it is: an argument `--password=x`, a line of a configuration, a URL with a user."""


def shown(difference: Difference, *, gvk: GVK) -> Mapping[str, str]:
    """Return *difference* as the log has it: `field`, and `desired` and `actual` as far as they may be read."""
    field = _cut(difference.field, limit=2 * _LONGEST)
    if is_secret(difference.path, gvk=gvk) or any(_says(value) for value in (difference.desired, difference.actual)):
        return {"field": field, "desired": DIFFERS, "actual": DIFFERS}
    return {"field": field, "desired": _text(difference.desired), "actual": _text(difference.actual)}


def is_secret(path: Path, *, gvk: GVK) -> bool:
    """Tell whether the values at *path* of a dependent of the kind *gvk* may be secret."""
    names = [part for part in path if not part.startswith("[")]
    if (gvk.group, gvk.kind) == (SECRET.group, SECRET.kind) and names[:1] in (["data"], ["stringData"]):
        return True
    return _is_environment(path) or any(_tells(name) for name in names)


def _is_environment(path: Path) -> bool:
    """Tell whether *path* is in an `env` of a container, by whatever name: `env[name=DB].value`, `env.DB`."""
    return any(part == "env" for part in path[:-1])


def _tells(name: str) -> bool:
    words = {word.lower() for word in _WORDS.findall(name)}
    return bool(_TELLING.search(name) or words & _TELLING_WORDS)


def _says(value: Any) -> bool:
    return isinstance(value, str) and bool(_IN_VALUE.search(value))


def _text(value: Any) -> str:
    """Return *value* in one short line; of one with parts only their names or number, as a part may be secret."""
    if value is ABSENT:
        return repr(ABSENT)
    if isinstance(value, Mapping):
        return _cut("{" + ", ".join(map(str, value)) + "}", limit=_LONGEST)
    if isinstance(value, list):
        return f"[{len(value)} items]" if len(value) != 1 else "[1 item]"
    if isinstance(value, str):
        return _cut(" ".join(value.split()) if value else '""', limit=_LONGEST)
    return json.dumps(value)


def _cut(text: str, *, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - len(_CUT)] + _CUT
