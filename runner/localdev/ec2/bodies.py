"""Reading the JSON bodies of the control API: each wrong one is refused with a sentence that names the field."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from runner.errors import ConfigError


def json_object(body: bytes, *, known: Collection[str]) -> dict[str, Any]:
    """Return *body* as an object with no other keys than the *known* ones."""
    try:
        value = json.loads(body)
    except ValueError as error:
        raise ConfigError(f"the body is not JSON: {error}; send an object") from error
    if not isinstance(value, dict):
        raise ConfigError(f"the body must be a JSON object, not {type(value).__name__}")
    for key in value:
        if key not in known:
            raise ConfigError(f"{key}: unknown key; known are {', '.join(sorted(known))}")
    return value


def seconds(body: Mapping[str, Any], key: str, *, default: float) -> float:
    """Return the number at *key*, zero or more."""
    value = body.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ConfigError(f"{key}: must be a number of zero or more, not {value!r}")
    return float(value)


def text(body: Mapping[str, Any], key: str) -> str:
    """Return the string at *key*, empty where it is missing."""
    value = body.get(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"{key}: must be a string, not {value!r}")
    return value


def flag(body: Mapping[str, Any], key: str) -> bool:
    """Return the boolean at *key*, False where it is missing."""
    value = body.get(key, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: must be true or false, not {value!r}")
    return value


def whole(body: Mapping[str, Any], key: str, *, default: int, low: int, high: int) -> int:
    """Return the whole number at *key*, between *low* and *high*."""
    value = body.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{key}: must be a whole number from {low} to {high}, not {value!r}")
    return value
