"""Package facts of one interpreter: a script that `environment` runs there, never imported by us.

It prints one JSON object: `python`, `packages` (version by name; empty where a package has no version) and `conflicts`
(sentences). Only metadata is read and nothing is imported but `packaging`, so it takes a fraction of a second. It must
run on any Python 3.8, as that is where it finds out what is wrong with it.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata, util
from pathlib import Path

try:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name
except ImportError:  # then there is no ansible-core either, which needs it
    Requirement = None  # type: ignore[assignment,misc]  # a name that says so

SHOWN = ("ansible-core", "ansible-runner", "kubernetes")
MODULES = {"ansible-core": "ansible", "ansible-runner": "ansible_runner", "kubernetes": "kubernetes"}


def version_of(name: str) -> str | None:
    """Return the version of *name*, "" where it is there without one (unpacked by hand), None where it is not."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        module = MODULES.get(name)
        return "" if module and util.find_spec(module) else None


def conflicts(roots: list[str], *, leave_out: list[str]) -> list[str]:
    """Return what *roots*, and what they need, ask of each other and don't get; nobody asks for *leave_out*."""
    if Requirement is None:
        return []
    found, seen, waiting = [], set(leave_out), list(roots)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            needs = [Requirement(text) for text in metadata.requires(name) or []]
        except (metadata.PackageNotFoundError, InvalidRequirement):
            continue
        for need in needs:
            wanted = need.marker is None or need.marker.evaluate({"extra": ""})
            if wanted and canonicalize_name(need.name) not in leave_out:
                waiting.append(need.name)
                found += _unmet(name, need=need)
    return sorted(found)


def _unmet(name: str, *, need: Requirement) -> list[str]:
    version = version_of(need.name)
    if version is None:
        return [f"{name} {version_of(name)} needs {need.name}, which is not there"]
    if version and not need.specifier.contains(version, prereleases=True):
        return [f"{name} {version_of(name)} needs {need.name}{need.specifier}, but {version} is there"]
    return []


def main() -> None:
    """Print the facts; the two arguments are names with commas between: whose needs are looked at, and of whom not."""
    roots, leave_out = ([name for name in argument.split(",") if name] for argument in sys.argv[1:])
    packages = {name: version for name in SHOWN if (version := version_of(name)) is not None}
    python = ".".join(str(number) for number in sys.version_info[:3])
    print(json.dumps({"python": python, "packages": packages, "conflicts": conflicts(roots, leave_out=leave_out)}))


if __name__ == "__main__":
    if sys.path and sys.path[0] == str(Path(__file__).resolve().parent):
        del sys.path[0]  # our own modules are not for others
    main()
