"""What may differ between two runs of the same content, and why: everything else has to be the same.

Ids are not dropped but numbered by their first use, so that what refers to what still has to agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?=\b|_\d+\b)|\b[0-9a-f]{32}\b")
"""Ids of events, plays and tasks (a number behind tells the batch of hosts); ansible-runner
names the playbook that it makes for a role by one without dashes."""
_TEXTS = (
    # (what differs, its place holder), each with its reason
    (re.compile(r"ansible-operator-run-\w{8}"), "<scratch>"),  # a run's scratch folder: mkdtemp
    (re.compile(r"ansible-local-\d+\w{8}"), "<local>"),  # Ansible's own temporary folder: pid and mkdtemp
    (re.compile(r"(?<=<local>/)(tmp|\.)\w{8}\b"), r"\1<random>"),  # a file rendered there: mkdtemp, mkstemp
    (re.compile(r"(?<=\"[acm]time\": )\d+\.\d+"), "<time>"),  # in text; see _NUMBERS
    (re.compile(r"(?<=\"inode\": )\d+"), "<inode>"),  # the same
    (re.compile(r"ansible-(?:moduletmp|tmp)-[\d.]+-(?:\d+-\d+|\w{8})"), "<module tmp>"),  # time, pid and random
    (re.compile(r"(?<=<module tmp>/)tmp\w{8}\b"), "<tmp>"),  # what get_url downloads to: mkstemp
    (re.compile(r"ansible_[\w.]+_payload_\w{8}"), "<payload>"),  # AnsiballZ's folder: mkdtemp
    (re.compile(r"\.source\.\w{8}\.?"), "<source>"),  # a file that copy or template transfers: mkstemp
    (re.compile(r"\bj\d{9,14}(?:\.\d+)?\b"), "<job>"),  # an async job: random number and pid
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d:\d\d:\d\d\.\d{6}\b"), "<delta>"),  # how long a command took
    (re.compile(r"\b(pipe|socket|anon_inode):\[\d+\]"), r"\1:[]"),  # the kernel's number of a descriptor
    (re.compile(r"(\"|')resourceVersion\1: *(\"|')\d+\2"), "<resourceVersion>"),  # in text; see _VERSION
    (re.compile(r"\"random\": \[[^]]*\]"), "<random>"),  # in text; see _RANDOM
    (re.compile(r"(?<=\"child_pid\": )\d+"), "<child_pid>"),  # of an async job; in text, see _NUMBERS
    (re.compile(r"(?<=date_time=datetime.datetime\()[\d, ]+"), "<time>"),  # in a payload: when it was made
    (re.compile(r"(?<=date_time = \()[\d, ]+"), "<time>"),  # the same, on ansible-core 2.18
    (re.compile(r"(?<=zip_data=')[A-Za-z0-9+/=]+"), "<zip>"),  # in a payload: its entries have that time
    (re.compile(r"(?<=ZIPDATA = ')[A-Za-z0-9+/=]+"), "<zip>"),  # the same, on ansible-core 2.18
    (re.compile(r"\b0x[0-9a-f]{8,16}\b"), "<address>"),  # of an object in memory
    # where the alarm of a task's time limit met Ansible: anywhere between the module's start and its result
    (re.compile(r"<frame at <address>, file '[^']+', line \d+, code \w+>"), "<frame>"),
    # below a warm module's frames are some 20 of the process that it was forked from: so much less deep it may go
    (re.compile(r"(?<=Previous line repeated )9[5-9]\d(?= more times)"), "<frames>"),
    (re.compile(r"(\"_original_basename\": \")\.[a-z0-9_]{8}\b"), r"\1.<random>"),  # of a copy's content: mkstemp
    (re.compile(r"\bansible\.\w{8}(?:probe)?\b"), "<tempfile>"),  # what `ansible.builtin.tempfile` makes: mkstemp
)
_WRAP = re.compile(r"(?:\x1b\[0m)?\r?\n(?:\x1b\[[\d;]+m)?")
"""Where Ansible begins a new line, in colour or without."""
_DOTTED = re.compile(r"\.[a-z0-9_]{8}")
"""Where `copy` writes the content of a task to: mkstemp; a module's arguments have it as `_original_basename`."""
_NUMBERS = frozenset({"pid", "child_pid", "duration", "atime", "mtime", "ctime", "inode", "elapsed"})
"""Keys whose value may differ where it is a number."""
_OF_SETS = frozenset({"ansible_facts", "before", "after"})
"""The collectors of facts run in the order of a set, and the keys of a module's diff come in one: that of hashes,
which differ by process."""
_SETS = frozenset({"ansible_interfaces", "ansible_virtualization_tech_guest", "ansible_virtualization_tech_host"})
"""Facts that are sets, so their order is that of hashes, too."""
_RANDOM = "random"
"""What the credentials module draws: the suite has a test of its own that no value comes twice."""
_VERSION = "resourceVersion"
"""Of the objects of a cluster that both sides write to."""
_MOVING = frozenset({
    _RANDOM,
    _VERSION,
    "ansible_date_time",
    "ansible_loadavg",
    "ansible_memfree_mb",
    "ansible_memory_mb",
    "ansible_mounts",
    "ansible_swapfree_mb",
    "ansible_uptime_seconds",
    "ansible_fibre_channel_wwn",
    "ansible_hostnqn",
})
"""Keys whose value is left out: facts that change by themselves, and the two above."""


@dataclass(kw_only=True)
class Masks:
    """The masks of one run; ids keep their number for all texts of it."""

    root: Path
    ident: str
    scratch: Path | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    """What else is the side's own, such as a namespace, and its place holder."""
    _ids: dict[str, str] = field(default_factory=dict)

    def event(self, event: Mapping[str, Any]) -> Any:
        """Return *event* masked."""
        return self.value(event)

    def value(self, value: Any, *, key: str = "") -> Any:
        """Return a JSON value masked, keys too."""
        if isinstance(value, Mapping):
            entries = sorted(value.items()) if key in _OF_SETS else value.items()
            return {
                self.text(str(name)): f"<{name}>" if name in _MOVING else self.value(entry, key=str(name))
                for name, entry in entries
            }
        if isinstance(value, list | tuple):
            return [self.value(entry) for entry in (sorted(value) if key in _SETS else value)]
        if isinstance(value, str):
            text = self.text(value)
            return ".<random>" if key == "_original_basename" and _DOTTED.fullmatch(text) else text
        if key in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool):
            return f"<{key}>"
        return value

    def text(self, text: str) -> str:
        """Return *text* masked."""
        text = text.replace(str(self.root), "<root>").replace(self.ident, "<ident>")
        text = self._wrapped_root.sub(lambda found: f"<root>{''.join(_WRAP.findall(found[0]))}", text)
        if self.scratch is not None:
            text = text.replace(str(self.scratch), "<scratch>")
        for name, holder in self.names.items():
            text = text.replace(name, holder)
        for pattern, holder in _TEXTS:
            text = pattern.sub(holder, text)
        return _ID.sub(self._numbered, text)

    def path(self, path: Path) -> str:
        """Return a path masked."""
        return self.text(str(path))

    @cached_property
    def _wrapped_root(self) -> re.Pattern[str]:
        """Return what finds the root where Ansible wraps a warning within it."""
        return re.compile(f"(?:{_WRAP.pattern})?".join(map(re.escape, str(self.root))))

    @property
    def _numbered(self) -> Callable[[re.Match[str]], str]:
        return lambda found: self._ids.setdefault(found[0], f"<id {len(self._ids) + 1}>")
