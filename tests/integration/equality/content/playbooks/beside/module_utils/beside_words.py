"""A utility beside a playbook."""

from __future__ import annotations

WORD = "beside"
