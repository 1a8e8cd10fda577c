#!/usr/bin/python
"""Only documentation: the action plugin of this name does the work."""

from __future__ import annotations
