"""Workers and verbosity of one watch from the environment: `MAX_CONCURRENT_RECONCILES_<KIND>_<GROUP>` and the like.

They beat the flags, so that who runs an operator can fit it to the cluster without touching its files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from runner.kube.objects import GVK
from runner.settings import MOST_VERBOSE, MOST_WORKERS

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}\Z")


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A number, and the flag or variable that it comes from."""

    value: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Origins:
    """The numbers of one watch."""

    workers: Chosen
    verbosity: Chosen


def workers(gvk: GVK, *, environ: Mapping[str, str], default: Chosen, notes: list[str]) -> Chosen:
    """Return how many objects of *gvk* are reconciled at once: the variable's value if it is positive; 1000 at most."""
    current = _given("MAX_CONCURRENT_RECONCILES", gvk, environ=environ)
    chosen = current or _given("WORKER", gvk, environ=environ)
    if chosen and not current:
        replacement = _names("MAX_CONCURRENT_RECONCILES", gvk)[0]
        notes.append(f"Environment variable {chosen} is deprecated, use {replacement} instead")
    given = _value(chosen, environ=environ, default=default, limits=(1, None), notes=notes)
    if given.value <= MOST_WORKERS:
        return given
    notes.append(f"{given.source} asks for {given.value} workers; using the most, {MOST_WORKERS}")
    return replace(given, value=MOST_WORKERS)


def verbosity(gvk: GVK, *, environ: Mapping[str, str], default: Chosen, notes: list[str]) -> Chosen:
    """Return the number of `v`s for *gvk*: the variable's value if it is 0 to 7."""
    chosen = _given("ANSIBLE_VERBOSITY", gvk, environ=environ)
    return _value(chosen, environ=environ, default=default, limits=(0, MOST_VERBOSE), notes=notes)


def _names(prefix: str, gvk: GVK) -> list[str]:
    """Return the peer's name, then one that a shell can set where the group has a `-`."""
    name = f"{prefix}_{gvk.kind}_{gvk.group}".upper().replace(".", "_")
    return [name, name.replace("-", "_")]


def _given(prefix: str, gvk: GVK, *, environ: Mapping[str, str]) -> str:
    return next((name for name in _names(prefix, gvk) if name in environ), "")


def _value(
    name: str, *, environ: Mapping[str, str], default: Chosen, limits: tuple[int, int | None], notes: list[str]
) -> Chosen:
    if not name:
        return default
    text = environ[name]
    lowest, highest = limits
    if _INTEGER.match(text) and lowest <= int(text) and (highest is None or int(text) <= highest):
        return Chosen(value=int(text), source=name)
    wanted = f"from {lowest} to {highest}" if highest is not None else f"of at least {lowest}"
    notes.append(f'Environment variable {name}="{text}" is not an integer {wanted}; using the default {default.value}')
    return default
