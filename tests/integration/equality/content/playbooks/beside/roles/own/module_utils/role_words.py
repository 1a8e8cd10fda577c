"""A utility of a role."""

from __future__ import annotations

WORD = "of the role"
