"""Plays a playbook as ansible-playbook does, with a module server (`warm`) or without one (`cold`).

Its arguments: `warm` or `cold`, a folder for the socket, then those of ansible-playbook, a playbook first.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

FAR = Path(__file__).parents[4] / "runner" / "execution" / "warm" / "far"


def load() -> None:
    """Make the far side a package of its own, as its `__main__` does."""
    spec = importlib.util.spec_from_file_location(
        "ansible_operator_warm", FAR / "__init__.py", submodule_search_locations=[str(FAR)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[spec.name])


def serve(scratch: str, *, playbook: str) -> None:
    """Fork a module server for *playbook*, and have Ansible's connections use it."""
    parts = ("marking", "module_client", "module_server", "needs")
    marking, client, server, needs = (importlib.import_module(f"ansible_operator_warm.{part}") for part in parts)
    marking.remember()
    found = needs.find(roles=[], playbooks=[playbook])
    address = server.fork(scratch=scratch, needs=found, libraries=found.libraries).address
    vars(client)["ADDRESS"] = address
    loader = importlib.import_module("ansible.plugins.loader")
    loader.connection_loader.add_directory(str(FAR / "plugins" / "connection"))


if __name__ == "__main__":
    mode, folder, *arguments = sys.argv[1:]
    load()
    if mode == "warm":
        serve(folder, playbook=arguments[0])
    sys.argv = ["ansible-playbook", *arguments]
    importlib.import_module("ansible.cli.playbook").main(sys.argv)
