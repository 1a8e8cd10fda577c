"""Starts the fork server: `<python that has Ansible> -P <this file> --fd N`, N being its end of a socket pair.

This folder is loaded as a package of a name of its own: the interpreter may have neither the operator nor what the
operator needs, and nothing of the operator's is put where a play would find it.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

PACKAGE = "ansible_operator_warm"
"""As in the package, which has no name before it is loaded."""


def load() -> None:
    """Make this folder importable as `PACKAGE`, and only so."""
    folder = Path(__file__).resolve().parent
    if not sys.flags.safe_path and sys.path and Path(sys.path[0]).resolve() == folder:
        del sys.path[0]  # its modules are no top-level modules of the plays
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} cannot be loaded as a package")
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


def main() -> int:
    """Serve until the operator is done with it; return the exit code."""
    started = time.monotonic()
    match sys.argv[1:]:
        case ["--fd", number] if number.isdigit():
            load()
            server = importlib.import_module(f"{PACKAGE}.server")
            return int(server.main(int(number), started=started))
    sys.stderr.write("usage: python -P __main__.py --fd NUMBER (the operator starts this, not a person)\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
