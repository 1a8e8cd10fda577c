#!/usr/bin/python
"""A module in the old way: WANT_JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

arguments = json.loads(Path(sys.argv[1]).read_text())
print(json.dumps({"given": arguments["a"], "parts": len(sys.argv), "loaded": "ansible" in sys.modules}))
