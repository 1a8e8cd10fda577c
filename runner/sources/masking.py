"""What of a dependent's fields may be shown to everybody who reads logs and Events: short values, and no secret ones.

Pure. Better one value too few than one too many: a person who needs it looks at the object. So a value is hidden when
any of three says that it may be secret: where it is (a Secret, an environment, a command line, a list of names and
values), what something on its path is called, or what it looks like itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from runner.kube.objects import GVK
from runner.sources.field_diff import ABSENT, Difference, Path, text_of

DIFFERS = "differs"
"""In the place of a value that is not shown."""
_LONGEST = 64
_LONGEST_READ = 512
"""Characters; what is longer is not looked at, and not shown."""
_CUT = " ..."
_TELLING = re.compile(
    r"passw|passphrase|passcode|pwd|token|secret|credential|authorization|cookie|certificate|private|signature",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_TELLING_WORDS = {
    "key", "keys", "apikey", "pass", "pw", "auth", "cert", "pem", "dsn", "jwt", "bearer", "sas", "psk", "otp", "salt",
    "nonce", "binary",
}  # fmt: skip
"""Words of a name that tell only as a whole: `API_KEY`, and not `monkeys`."""
_FREE_WORDS = {
    "env", "envs", "environment", "arg", "args", "argv", "command", "commands", "cmd", "entrypoint", "script",
    "scripts", "opts", "flags",
}  # fmt: skip
"""Of fields whose parts may be anything, a password without any name included: `["--password", "hunter2"]`."""
_PAIR_WORDS = {"value", "values", "val", "content", "contents", "text", "default"}
"""Of fields beside which another one may say what they are: `{name: X-Api-Key, value: hunter2}`."""
_LIKE_PAIR_WORDS = _PAIR_WORDS | {"plain", "plaintext", "raw", "data", "string", "literal"}
"""The same, where a name is there and tells: `{name: adminPassword, plain: hunter2}`."""
_NAMED = "[name="
_WORKLOAD_LISTS = {"containers", "initContainers", "ephemeralContainers", "volumes", "ports"}
"""Lists whose elements have a name that says what they do: a container `auth` is as readable as others."""
_WORKLOAD_FIELDS = {
    "image", "imagePullPolicy", "port", "ports", "containerPort", "targetPort", "nodePort", "hostPort", "protocol",
    "resources", "replicas",
}  # fmt: skip
"""The same for a list of any custom resource: `components[name=auth].replicas`."""
_OF_LABELS = {"selector", "matchLabels", "nodeSelector"}
"""Beside `metadata.labels`: where `environment` is the name of a label."""
_INDEX = re.compile(r"\[[0-9]+\]\Z")
_SECRET_KINDS = re.compile(r"secret|credential", re.IGNORECASE)
_LOOKS_SECRET = re.compile(
    r"""
    (?i:passw|passphrase|passcode|pwd|token|secret|credential|cookie|authorization|authentication|signature)
      [\w.-]*["']?\s*[=:\s]\s*\S
    | \b(?i:basic|bearer)\s+\S
    | (?:^|\s)--?[a-zA-Z]                       # a command line
    | ://\S*[@?]                               # a URL with a user, or with parameters
    | ://hooks\.
    | [^\s/:@]:[^\s@]+@(?!sha(256|512):)       # user:password@host, and no image with its digest
    | -----BEGIN
    | \beyJ[\w-]{8,}                           # a JSON Web Token
    | \b(AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}
    | \b(gh[a-z]_|github_pat_|glpat-|xox[a-z]-|sk-|sk_|rk_|pk_|AIza|hf_|npm_|pypi-|dop_v1_|SG\.)[\w-]{8,}
    | (?<![\w+/=-])(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])(?=[\w+/-]*[0-9])[\w+/-]{20,}   # random, as far as one can see
    | (?<![\w:@.-])[0-9a-fA-F-]{32,}(?![\w.-])  # a number in hexadecimal, and no image's tag or digest
    """,
    re.VERBOSE,
)
"""A value that says itself what it is: an argument `--password=x`, a header, a URL with a user, a key of AWS."""
_ASSIGNED = re.compile(r"""([\w.-]+)["']?(\s*[=:\s]\s*)(?=\S)""")
"""A name within a value, and what is between it and what it names."""
_SHORT_WORD = re.compile(
    r"(api|app|access|account|admin|auth|basic|client|db|encryption|host|http|key|master|pass|private|proxy|root|shared"
    r"|signing|smtp|ssh|ssl|tls|user)*(keys?|pass|pw|auth|sig)"
)
"""Words that tell only as a whole, or after another such word: `authkey`, and neither `valkey` nor `keycloak`."""
_SHORT_ENDS = ("key", "keys", "pass", "pw", "auth", "sig")
"""Before `=`, which no image has, the end is enough: `wordpresspass=hunter2`."""
_IMAGE = re.compile(
    r"""
    (?=[^\s]*[/:])                             # what is but one word could be anything
    ([a-z0-9][a-z0-9.-]*(:[0-9]+)?/)?          # registry
    [a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*
    (:\w[\w.-]{0,127})?
    (@sha(256:[0-9a-f]{64}|512:[0-9a-f]{128}))?
    """,
    re.VERBOSE | re.ASCII,
)
_DOCUMENT = re.compile(r"\s*[\[{<]|.*[\r\n]", re.DOTALL)
"""A value that holds fields of its own, as a file in a ConfigMap or JSON in an annotation does."""


def shown(difference: Difference, *, gvk: GVK) -> Mapping[str, str]:
    """Return *difference* as the log has it: `field`, and `desired` and `actual` as far as they may be read."""
    field = _cut(text_of(tuple(map(_readable, difference.path))), limit=2 * _LONGEST)
    says = any(
        _says(value) and not _is_image(value, path=difference.path) for value in (difference.desired, difference.actual)
    )
    if says or is_secret(difference.path, gvk=gvk) or _in_list(difference):
        return {"field": field, "desired": DIFFERS, "actual": DIFFERS}
    return {"field": field, "desired": _text(difference.desired), "actual": _text(difference.actual)}


def is_secret(path: Path, *, gvk: GVK) -> bool:
    """Tell whether the values at *path* of a dependent of the kind *gvk* may be secret."""
    if _SECRET_KINDS.search(gvk.kind) and (path[:1] != ("metadata",) or path[1:2] == ("annotations",)):
        return True
    return any(_tells_at(path, place=place) for place in range(len(path))) or any(
        _is_of_pair(part, element=before) for before, part in pairwise(path)
    )


def _tells_at(path: Path, *, place: int) -> bool:
    """Tell whether the part of *path* at *place* says that the values there may be secret."""
    part = path[place]
    if part.startswith(_NAMED):
        return _tells(part) and _is_named_value(path[place + 1 :], of=path[place - 1])
    return _telling(part) or (bool(_words(part) & _FREE_WORDS) and not _is_label(path, place=place))


def _is_named_value(rest: Path, *, of: str) -> bool:
    """Tell whether *rest* leads to what the name of an element of the list *of* names, as in a pair."""
    if not rest or of in _WORKLOAD_LISTS or rest[0] in _WORKLOAD_FIELDS:
        return False
    return len(rest) == 1 or any(_words(part) & _LIKE_PAIR_WORDS for part in rest)


def _is_label(path: Path, *, place: int) -> bool:
    """Tell whether the part at *place* is the name of a label, and so the last one."""
    if place != len(path) - 1:
        return False
    return path[place - 2 : place] == ("metadata", "labels") or path[place - 1] in _OF_LABELS


def _is_of_pair(part: str, *, element: str) -> bool:
    """Tell whether *part* of *element* of a list is the value of a pair: `headers[0].value`, `options[0][1]`."""
    return element.startswith("[") and (part.startswith("[") or bool(_words(part) & _PAIR_WORDS))


def _in_list(difference: Difference) -> bool:
    """Tell whether a text stands in a list of texts, of which another may say what it is: `["-p", "hunter2"]`."""
    texts = isinstance(difference.desired, str) or isinstance(difference.actual, str)
    return texts and difference.path[0] != "metadata" and bool(_INDEX.match(difference.path[-1]))


def _tells(name: str) -> bool:
    return _telling(name) or bool(_words(name) & _FREE_WORDS)


def _telling(name: str) -> bool:
    return bool(_TELLING.search(name) or _words(name) & _TELLING_WORDS)


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name)}


def _says(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    if len(value) > _LONGEST_READ or _DOCUMENT.match(value) or _LOOKS_SECRET.search(value):
        return True
    return any(_names_secret(name, by=by) for name, by in _ASSIGNED.findall(value))


def _names_secret(name: str, *, by: str) -> bool:
    """Tell whether a short word of *name* says that what *by* (a sign) gives to it may be secret: `api_key: x`."""
    words = _words(name) | _words(name.lower())
    return any(_SHORT_WORD.fullmatch(word) or ("=" in by and word.endswith(_SHORT_ENDS)) for word in words)


def _is_image(value: Any, *, path: Path) -> bool:
    """Tell whether *value* is the reference of a container image, where one is expected."""
    of_image = path[-1] == "image" and isinstance(value, str) and len(value) <= _LONGEST_READ
    return of_image and bool(_IMAGE.fullmatch(value))


def _readable(part: str) -> str:
    """Return *part* of a path; the name of a list's element is a value, too."""
    return f"[{DIFFERS}]" if part.startswith(_NAMED) and _says(part.removeprefix(_NAMED)[:-1]) else part


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
