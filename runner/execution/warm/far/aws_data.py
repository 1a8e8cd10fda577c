"""botocore's data files, read before the fork: what an AWS module spends most of its time on is parsing JSON.

The module server has them parsed once (`keep`), for the services that the watched content's modules name
(`services_in`, asked by `needs`). In a module's process botocore gets them in place of reading the same file: each only
once, as it may change what it was given, and only while the file is as it was. Data is all that is kept: no session,
client or credential exists before the fork.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import telling

_CLIENT = re.compile(rb"""\b(?:client|resource)\s*\(\s*["']([a-z0-9-]+)["']""")
_COMMON = ("endpoints", "partitions", "sdk-default-configuration", "_retry")
"""What each client reads, whatever its service."""
_MODEL = "service-2"
_OF_SERVICE = (_MODEL, "endpoint-rule-set-1", "paginators-1", "waiters-2")
_SERVICES = 8
"""As many at most: EC2's data takes 16 MiB, S3's 9."""
_LOADERS = "botocore.loaders"

State = tuple[int, int, int, int]
"""What a file or folder is like: device, inode, time of modification, size."""


def services_in(paths: Iterable[Path]) -> list[str]:
    """Return the services that Python sources name, as in `client("ec2")`, those first that most of them name."""
    found: Counter[str] = Counter()
    for path in paths:
        with contextlib.suppress(OSError):
            found.update({name.decode() for name in _CLIENT.findall(path.read_bytes())})
    return sorted(found, key=lambda name: (-found[name], name))


def keep(services: Iterable[str]) -> None:
    """Have botocore read here once what clients of *services* need; nothing where botocore isn't loaded."""
    loaders: Any = sys.modules.get(_LOADERS)
    if loaders is None:
        return
    kept = _Kept(loaders)
    try:
        kept.fill(list(services)[:_SERVICES])
    except Exception as error:  # noqa: BLE001 - whatever botocore raises: a module that needs it will say so itself
        telling.tell("botocore's data is not read ahead", reason=type(error).__name__)
        return
    kept.install()


class _Kept:
    """Parsed files by their path without its ending, and which services there are in which folders."""

    def __init__(self, loaders: Any) -> None:
        """Take botocore's module of loaders, as it is."""
        self._loaders = loaders
        self._files: dict[str, tuple[str, State, Any]] = {}
        self._services: dict[tuple[str, ...], tuple[list[State | None], list[str]]] = {}

    def fill(self, services: Iterable[str]) -> None:
        """Read what is there: a service that isn't known is left to the module that names it."""
        loader = self._loaders.Loader()
        boto3 = sys.modules.get("boto3")
        if boto3 is not None and boto3.__file__:
            loader.search_paths.append(str(Path(boto3.__file__).parent / "data"))  # as its sessions do
        folders = _folders(loader)
        states = [_state(path) for path in folders]
        for kind in _OF_SERVICE if loader.CUSTOMER_DATA_PATH not in folders else ():  # where anybody may add anything
            self._services[kind, *folders] = states, loader.list_available_services(kind)
        for name in _COMMON:
            self._read(loader, name)
        for service in services:
            with contextlib.suppress(self._loaders.DataNotFoundError):
                version = loader.determine_latest_version(service, _MODEL)
                for kind in (*_OF_SERVICE, *(f"{kind}.sdk-extras" for kind in _OF_SERVICE)):
                    self._read(loader, f"{service}/{version}/{kind}")

    def _read(self, loader: Any, name: str) -> None:
        for folder in _folders(loader):
            path = os.path.join(folder, name)  # noqa: PTH118 - spelled as botocore will ask for it
            full = next((path + ending for ending in (".json", ".json.gz") if Path(path + ending).is_file()), None)
            state = _state(full) if full else None
            if full is None or state is None:
                continue
            with contextlib.suppress(OSError, ValueError):
                self._files[path] = full, state, loader.file_loader.load_file(path)
            return

    def install(self) -> None:
        """Hand out what was read, from now on: each file once, as whoever gets it may change it."""
        loaders, files, services = self._loaders, self._files, self._services
        load, list_services = loaders.JSONFileLoader.load_file, loaders.Loader.list_available_services

        def load_file(self: Any, file_path: str) -> Any:
            full, state, data = files.pop(file_path, ("", None, None))
            if state is None or _state(full) != state:
                return load(self, file_path)
            loaders.logger.debug("Loading JSON file: %s", full)
            return data

        def list_available_services(self: Any, type_name: str) -> Any:
            folders = _folders(self)
            states, names = services.get((type_name, *folders), (None, []))
            if states is None or states != [_state(path) for path in folders]:
                return list_services(self, type_name)
            return list(names)

        loaders.JSONFileLoader.load_file = load_file
        loaders.Loader.list_available_services = list_available_services


def _folders(loader: Any) -> list[str]:
    return [path for path in loader.search_paths if os.path.isdir(path)]  # noqa: PTH112 - as text


def _state(path: str) -> State | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as text
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
