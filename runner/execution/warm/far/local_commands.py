"""The commands that Ansible has the local connection do around a module, known by their text, done without a shell.

Asked by the connection plugin (`plugins/connection/local.py`). Only characters that mean nothing to a shell are let
through, only absolute paths, and only the exact forms that ansible-core 2.18 and 2.19 write.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import module_client
from .shell import Shells

Answer = tuple[int, bytes, bytes]
Known = Callable[[str], Answer]
"""Does the command in a working directory. Raises `OSError` or `Unreachable` where a shell shall do it after all."""

_WORD = r"[\w@%+=:,./-]+"
_PATH = r"/[\w@%+=:,./-]*"
_HOME = re.compile(r"echo ~(?P<user>[A-Za-z_][\w-]*)")
_FOLDER = re.compile(
    rf'\( umask 77 && mkdir -p "` echo (?P<base>{_PATH}) `"&& mkdir "` echo (?P<path>{_PATH}) `"'
    rf' && echo (?P<name>{_WORD})="` echo (?P=path) `" \)'
)
_RIGHTS = re.compile(rf"chmod u\+rwx (?P<paths>{_PATH}(?: {_PATH})*)")
_REMOVAL = re.compile(rf"rm -f -r (?P<path>{_PATH}/ansible-tmp-{_WORD}) > /dev/null 2>&1")
_MODULE = re.compile(rf"(?P<interpreter>{_PATH})(?: (?P<script>{_PATH}/AnsiballZ_{_WORD}\.py))?")
_WRAPPER = b"_ANSIBALLZ_WRAPPER = True"
_WRAPPER_WITHIN = 4096


def understand(command: str, *, shells: Shells, in_data: bytes | None) -> Known | None:
    """Return how to do *command*, or None where only a shell knows."""
    start, end = f"{shells.inner} -c '", " && sleep 0'"
    if not (command.startswith(start) and command.endswith(end)) or not command.isascii():
        return None
    inner = command[len(start) : -len(end)]
    if module := _MODULE.fullmatch(inner):
        return _module(module["interpreter"], script=module["script"], shells=shells, in_data=in_data)
    for form, known in _FORMS:
        if in_data is None and (found := form.fullmatch(inner)):
            return partial(known, **found.groupdict())
    return None


def _module(interpreter: str, *, script: str | None, shells: Shells, in_data: bytes | None) -> Known | None:
    by_stdin = in_data is not None
    if module_client.ADDRESS is None or by_stdin == bool(script) or not _is_this_python(interpreter):
        return None
    if in_data is not None and _WRAPPER not in in_data[:_WRAPPER_WITHIN]:
        return None
    return partial(_run, interpreter=interpreter, script=script, shells=shells, payload=in_data)


def _is_this_python(interpreter: str) -> bool:
    """Tell whether *interpreter* is another name of this one in the same folder: so it finds the same packages."""
    given, own = Path(interpreter), Path(sys.executable)
    try:
        return given.parent.samefile(own.parent) and given.samefile(own)
    except OSError:
        return False


def _run(cwd: str, *, interpreter: str, script: str | None, shells: Shells, payload: bytes | None) -> Answer:
    if module_client.ADDRESS is None:
        raise module_client.Unreachable("there is no module server")
    wanted = module_client.request(interpreter=interpreter, script=script, shells=shells, cwd=cwd, payload=payload)
    finished = module_client.run(wanted, address=module_client.ADDRESS)
    return finished.code, finished.stdout, finished.stderr


def _home(_cwd: str, *, user: str) -> Answer:
    try:
        home = pwd.getpwnam(user).pw_dir
    except KeyError as error:
        raise FileNotFoundError(f"no user {user}") from error
    if not re.fullmatch(_PATH, home):
        raise FileNotFoundError(f"the home folder of {user} has a name that only a shell can print")
    return 0, f"{home}\n".encode(), b""


def _folder(_cwd: str, *, base: str, path: str, name: str) -> Answer:
    before = os.umask(0o077)
    try:
        Path(base).mkdir(parents=True, exist_ok=True)
        Path(path).mkdir()
    finally:
        os.umask(before)
    return 0, f"{name}={path}\n".encode(), b""


def _rights(_cwd: str, *, paths: str) -> Answer:
    for path in paths.split(" "):
        Path(path).chmod(stat.S_IMODE(Path(path).stat().st_mode) | stat.S_IRWXU)
    return 0, b"", b""


def _removal(_cwd: str, *, path: str) -> Answer:
    folder = Path(path.rstrip("/"))
    if folder.is_symlink() or not folder.is_dir():
        raise NotADirectoryError(path)
    shutil.rmtree(folder)
    return 0, b"", b""


_FORMS: tuple[tuple[re.Pattern[str], Callable[..., Answer]], ...] = (
    (_HOME, _home),
    (_FOLDER, _folder),
    (_RIGHTS, _rights),
    (_REMOVAL, _removal),
)
