"""Where on disk everything lies that a fork server has loaded or has looked at: what `changes` watches.

A place may be missing: then it is its coming that matters. Paths are kept as they are configured, links and all, as it
may be a link that changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.execution.chosen import WarmContent
from runner.execution.command import ansible_python, collections_path, config_files
from runner.settings import ExecutionSettings

_PLUGINS = ("action", "become", "callback", "connection", "filter", "inventory", "lookup", "strategy", "test", "vars")
_BESIDE_A_PLAYBOOK = (
    *("roles", "tasks", "handlers", "vars", "group_vars", "host_vars", "library", "module_utils"),
    *(f"{kind}_plugins" for kind in _PLUGINS),
)
_LOADED_PACKAGES = ("ansible", "ansible_collections", "ansible_runner")
"""Watched file by file, as somebody may mend one in place; of others an installation is noticed."""
_PATIENCE = 30.0
_TELL_PATH = "import json, sys; print(json.dumps(sys.path))"


@dataclass(frozen=True, kw_only=True)
class Place:
    """One file or folder that matters."""

    path: Path
    deep: bool = True
    """With everything below it; else only the entry itself."""
    listing: bool = False
    """Besides, the entries of the folder."""
    memory: bool = False
    """Everything there is part of what a server holds in memory."""


def is_plugin_folder(name: str) -> bool:
    """Tell whether files of such a folder, beside a role or playbook, become part of a process that loads them."""
    return name in {"library", "module_utils"} or name.endswith("_plugins")


def places(content: WarmContent, *, settings: ExecutionSettings, packages: Iterable[Path]) -> list[Place]:
    """Return the places of *content*, of collections and ansible.cfg, and of what is installed in *packages*."""
    home = settings.environ.get("HOME", "")
    found = [Place(path=_with_its_neighbours(role)) for role in content.roles]
    roles_path = settings.roles_path or settings.environ.get("ANSIBLE_ROLES_PATH", "")
    found += [Place(path=path) for path in _paths(roles_path, home=home)]
    for playbook in content.playbooks:
        found.append(Place(path=playbook, deep=False))
        found += [Place(path=playbook.parent / name) for name in _BESIDE_A_PLAYBOOK]
        found.append(Place(path=playbook.parent / "collections" / "ansible_collections", memory=True))
    for path in _paths(collections_path(settings), home=home):
        found.append(Place(path=path / "ansible_collections", memory=True))
    found += [Place(path=path.absolute(), deep=False, memory=True) for path in config_files(settings)]
    for folder in packages:
        found.append(Place(path=folder, deep=False, listing=True, memory=True))
        found += [Place(path=folder / name, memory=True) for name in _LOADED_PACKAGES if (folder / name).is_dir()]
    return list(dict.fromkeys(found))


async def package_folders(settings: ExecutionSettings) -> list[Path]:
    """Return the folders that the plays' interpreter has installed packages in; none where it doesn't say.

    Raises:
        ExecutionError: there is no such interpreter.
    """
    python = ansible_python(settings)
    if python == sys.executable:
        path = sys.path
    else:
        path = await _path_of(python, environ=dict(settings.environ))
    folders = (Path(entry) for entry in path)
    return [folder for folder in folders if folder.name in {"site-packages", "dist-packages"} and folder.is_dir()]


async def _path_of(python: str, *, environ: dict[str, str]) -> list[str]:
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            python, "-P", "-c", _TELL_PATH, stdin=null, stdout=pipe, stderr=null, env=environ
        )
    except OSError:
        return []  # the fork server will say it better
    try:
        async with asyncio.timeout(_PATIENCE):
            said, _ = await process.communicate()
        return [str(entry) for entry in json.loads(said)]
    except (TimeoutError, ValueError):
        return []
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _with_its_neighbours(role: Path) -> Path:
    """Return the folder of roles that *role* is in, as it may include any of them; the role alone elsewhere."""
    return role.parent if role.parent.name == "roles" else role


def _paths(joined: str, *, home: str) -> Iterator[Path]:
    """Return the absolute ones of *joined*; what only Ansible can expand is left out."""
    for part in joined.split(os.pathsep):
        expanded = f"{home}{part[1:]}" if home and (part == "~" or part.startswith("~/")) else part
        if expanded and not expanded.startswith(("~", "{", "$")):
            yield Path(expanded).absolute()
