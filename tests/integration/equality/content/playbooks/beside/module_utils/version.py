"""Hides the utility of this name that Ansible brings."""

from __future__ import annotations


class LooseVersion(str):
    """Not what others would expect."""

    __slots__ = ()
    hides = True
