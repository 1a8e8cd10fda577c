#!/usr/bin/python
"""A module in the oldest way: its arguments are put into its text."""

from __future__ import annotations

import json

given = json.loads("""<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>""")
print(json.dumps({"given": given["word"]}))
