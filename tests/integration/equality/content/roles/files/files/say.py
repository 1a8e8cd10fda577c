"""A script."""

import sys
from pathlib import Path

print(sys.argv[1:], Path.cwd().name, sys.flags.safe_path)
