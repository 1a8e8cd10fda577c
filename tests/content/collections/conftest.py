"""Makes our collection importable: Ansible finds it by a path of its own."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "runner/collections"))
