"""Command lines of programs that take long options, and what a kubelet's flags say about its Node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from runner.errors import LocalPlaneError

_NO = {"0", "f", "false"}


@dataclass(frozen=True, kw_only=True)
class KubeletFlags:
    """What the kubelet is started with, as far as it shows in the Node."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    provider_id: str = ""
    name: str = ""
    max_pods: int = 0


def options_of(
    words: Sequence[str], *, taking: str = "", switches: Collection[str] = ()
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options, each with all its values, and the words that belong to none.

    The value of the option *taking* may begin with a dash; *switches* have a value only after a `=`.
    """
    options: dict[str, list[str]] = {}
    others: list[str] = []
    position = 0
    while position < len(words):
        name, equals, value = words[position].partition("=")
        following = words[position + 1] if position + 1 < len(words) else "-"
        if not name.startswith("-"):
            others.append(words[position])
        elif equals or name in switches or (following.startswith("-") and name != taking):
            options.setdefault(name, []).append(value)
        else:
            options.setdefault(name, []).append(following)
            position += 1
        position += 1
    return options, others


def last(options: Mapping[str, Sequence[str]], *names: str) -> str:
    """Return the last value of the first option of *names* that is given, empty where none is."""
    return next((options[name][-1] for name in names if options.get(name)), "")


def is_set(options: Mapping[str, Sequence[str]], name: str) -> bool:
    """Tell whether the switch *name* is given, and not with a value that means no."""
    return name in options and last(options, name).lower() not in _NO


def kubelet_flags(options: Mapping[str, Sequence[str]]) -> KubeletFlags:
    """Return what the kubelet's *options* say, by name without dashes.

    Raises:
        LocalPlaneError: a label or taint isn't written as the kubelet wants it.
    """
    labels: dict[str, str] = {}
    for pair in listed(options.get("node-labels", ())):
        key, _, value = pair.partition("=")
        labels[key] = value
    pods = last(options, "max-pods")
    return KubeletFlags(
        labels=labels,
        taints=tuple(_taint(text) for text in listed(options.get("register-with-taints", ()))),
        provider_id=last(options, "provider-id"),
        name=last(options, "hostname-override").lower(),
        max_pods=int(pods) if pods.isdecimal() else 0,
    )


def listed(values: Iterable[str]) -> list[str]:
    """Return the items of values that are lists with commas."""
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _taint(text: str) -> Mapping[str, str]:
    front, colon, effect = text.rpartition(":")
    key, _, value = front.partition("=")
    if not colon or not key or effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
        raise LocalPlaneError(f"the kubelet does not start: invalid taint spec {text!r}, write KEY=VALUE:EFFECT")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def bare(options: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return *options* without the dashes before their names."""
    return {name.lstrip("-"): list(values) for name, values in options.items()}


def merged(*sources: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return all values of all *sources*."""
    result: dict[str, list[str]] = {}
    for source in sources:
        for name, values in source.items():
            result.setdefault(name, []).extend(values)
    return result


def taint_text(taint: Mapping[str, str]) -> str:
    """Return a taint as the kubelet's flag has it."""
    return f"{taint['key']}={taint.get('value') or ''}:{taint['effect']}"
