"""A module server for payloads that are plain source, until its standard input ends; prints its process id.

Its arguments: a folder for its socket, and the source of what is done before it is forked, with its modules at hand.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import CodeType

FAR = Path(__file__).parents[5] / "runner" / "execution" / "warm" / "far"
PACKAGE = "ansible_operator_warm"


def main(folder: str, *, before: str) -> None:
    """Serve."""
    spec = importlib.util.spec_from_file_location(PACKAGE, FAR / "__init__.py", submodule_search_locations=[str(FAR)])
    assert spec is not None
    assert spec.loader is not None
    sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[PACKAGE])
    names = ("environment", "forking", "marking", "module_server", "needs", "payload", "shell", "telling")
    parts = {name: importlib.import_module(f"{PACKAGE}.{name}") for name in names}

    def code(_self: object, source: bytes, *, filename: str) -> list[CodeType]:
        return [compile(source, filename, "exec")]

    parts["payload"].Payloads.code = code
    exec(before, dict(parts))  # noqa: S102 - the test's own
    parts["marking"].remember()
    nothing = parts["needs"].Needs(modules=(), libraries=(), utilities=())
    print(parts["module_server"].fork(scratch=folder, needs=nothing, libraries=()).pid, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], before=sys.argv[2])
