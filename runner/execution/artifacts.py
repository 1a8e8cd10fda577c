"""What a run leaves on disk: ansible-runner's artifacts, kept free of the environment, read and rotated here.

Layout and names are ansible-runner's; `latest` and the rotation are the peer's, without its crash on `latest`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from runner.execution.files import create_private, private_subfolder, read_all, write_private
from runner.execution.scrub import Scrubber

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ERROR_LINE = re.compile(r"^(?:ERROR!|\[ERROR\]|fatal:)", re.MULTILINE)
_TAIL_READ = 65536
_PIPE_READ = 65536
TAIL_LIMIT = 4096
_FEW_EVENTS = 200
_SMALL_OUTPUT = 1 << 17


class Artifacts:
    """The folder of one run."""

    def __init__(self, *, root: Path, ident: str, scrubber: Scrubber) -> None:
        """Stand for *root*/*ident*; *scrubber* knows what may not stay there."""
        self._root = root
        self._scrubber = scrubber
        self.path = root / ident
        self.unreadable: list[Path] = []
        """Event files that had to be skipped."""
        self._seen = 0
        self._doubtful = 0

    def create(self) -> None:
        """Make the folder, private, and the file that ansible-runner would make with any mode."""
        private_subfolder(self.path)
        create_private(self.path / "stderr", "")

    def new_events(self, *, final: bool = False) -> list[Mapping[str, Any]]:
        """Return the events that came since the last call, in their order.

        A file should be complete once it has its final name. One that can't be read holds the later ones back until
        the next call, where it is skipped and noted in `unreadable` if it still can't be; at once with *final*.
        """
        events: list[Mapping[str, Any]] = []
        for counter, path in self._fresh():
            event = self._read_event(path)
            if event is None and not final and counter != self._doubtful:
                self._doubtful = counter
                break
            self._seen = counter
            if event is None:
                self.unreadable.append(Path(path))
                self._scrub_broken(Path(path))
            else:
                events.append(event)
        return events

    def _fresh(self) -> list[tuple[int, str]]:
        """Return what is there beyond the highest counter seen; of what was seen only the names are looked at."""
        folder = self.path / "job_events"
        found: list[tuple[int, str]] = []
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(folder):  # noqa: PTH208 - five times a second: names, and no object for each
                counter = name.partition("-")[0]
                if counter.isdigit() and int(counter) > self._seen and name.endswith(".json"):
                    found.append((int(counter), name))
        names = ((counter, name) for counter, name in sorted(found) if not name.endswith("-partial.json"))
        return [(counter, f"{folder}{os.sep}{name}") for counter, name in names]

    def _read_event(self, path: str) -> Mapping[str, Any] | None:
        """Return the event in *path*, scrubbed there too; None if there is none to be read."""
        try:
            text = read_all(path).decode()
            event = json.loads(text)
            if not isinstance(event, dict) or not isinstance(event.get("event_data") or {}, dict):
                return None
            if self._scrubber.spares(text):
                return event
            cleaned = self._scrubber.event(event)
        except (FileNotFoundError, PermissionError, ValueError, RecursionError):
            return None
        if cleaned != event:
            write_private(Path(path), json.dumps(cleaned))
        return cleaned

    def _scrub_broken(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            write_private(path, self._scrubber.fragment(path.read_text(errors="replace")))

    def rc(self, *, of_runner: int | None) -> int | None:
        """Return the exit code of ansible-playbook, None if a signal ended it; *of_runner* where it never started.

        ansible-runner itself exits with 0 after a signal ended its child, so its file is what counts; one that was
        itself asked to end by a signal writes a code of its own making there.
        """
        with contextlib.suppress(OSError):
            if (self.path / "status").read_text() == "canceled":
                return None
        try:
            text = (self.path / "rc").read_text()
        except OSError:
            return None if of_runner is None or of_runner < 0 else of_runner
        return int(text) if text.isdigit() else None

    def output(self) -> str:
        """Return all that Ansible printed."""
        with contextlib.suppress(OSError):
            return (self.path / "stdout").read_text(errors="replace")
        return ""

    def output_tail(self) -> str:
        """Return the end of what Ansible printed, from its first error on where there is one."""
        return useful_tail(self._scrubber.text(_read_end(self.path / "stdout")))

    @property
    def are_few(self) -> bool:
        """Tell whether `finish` will have little to do."""
        with contextlib.suppress(OSError):
            return self._seen <= _FEW_EVENTS and (self.path / "stdout").stat().st_size <= _SMALL_OUTPUT
        return False

    def finish(self, *, keep: int) -> list[Path]:
        """Scrub, and point `latest` here.

        Returns:
            the folders of all but the *keep* newest runs, this one included (0 keeps all): to be removed.
        """
        self.new_events(final=True)  # scrubs those that a cancelled run left unread
        # gathered facts belong into the run's scratch folder; one who sends them here would keep the environment
        for pattern in ("job_events/*-partial.json", "job_events/*.tmp", "fact_cache/*"):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)
        scrub_command(self.path / "command")
        self._scrubber.file(self.path / "stdout")
        link = self._root / f".latest-{self.path.name}"
        link.unlink(missing_ok=True)
        link.symlink_to(self.path)
        link.replace(self._root / "latest")
        return self._superseded(keep) if keep > 0 else []

    def _superseded(self, keep: int) -> list[Path]:
        with os.scandir(self._root) as entries:
            others = [
                entry for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name != self.path.name
            ]
        if len(others) < keep:
            return []
        others.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
        return [self._root / entry.name for entry in others[keep - 1 :]]

    @contextlib.asynccontextmanager
    async def command_without_environment(self) -> AsyncIterator[None]:
        """Take what ansible-runner writes to `command` through a pipe, and keep it without the environment.

        The environment holds the operator's credentials; through a pipe they never reach the disk.
        """
        path = self.path / "command"
        os.mkfifo(path, mode=0o600)
        pipe = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
        keeper = _CommandKeeper(path)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: keeper, pipe)
        try:
            yield
        finally:
            if not transport.is_closing():
                keeper.take_rest(pipe)  # a short run is over before the event loop has seen what it wrote
            keeper.keep()
            transport.close()
            scrub_command(path)


class _CommandKeeper(asyncio.Protocol):
    """Takes what comes through the pipe at *path*, and puts it there without the environment once it is all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        """Take a part."""
        self._parts.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep it: the writer closed its end."""
        del exc
        self.keep()

    def take_rest(self, pipe: FileIO) -> None:
        """Take what is in the pipe now; it is empty where nobody wrote."""
        while data := pipe.read(_PIPE_READ):
            self._parts.append(data)

    def keep(self) -> None:
        """Write what came, once."""
        if self._parts:
            write_private(self._path, _scrubbed(b"".join(self._parts)))
            self._parts.clear()


def scrub_command(path: Path) -> None:
    """Make sure that *path* holds no environment; a pipe that nobody wrote to goes."""
    if path.is_fifo():
        path.unlink()
    elif path.exists():
        content = path.read_bytes()
        if (scrubbed := _scrubbed(content)) != content:
            write_private(path, scrubbed)


def _scrubbed(content: bytes) -> bytes:
    try:
        document = json.loads(content)
        return json.dumps({"command": document["command"], "cwd": document["cwd"]}).encode()
    except (ValueError, KeyError, TypeError):
        return b"{}"


def _read_end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_READ))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def useful_tail(output: str) -> str:
    """Return at most 4 KiB of *output* without colours: from its first error line on, else its end."""
    plain = _ANSI.sub("", output).replace("\r", "").strip()
    start = _ERROR_LINE.search(plain)
    if start:
        return _clip(plain[start.start() :])
    return plain.encode()[-TAIL_LIMIT:].decode(errors="ignore").strip()


def _clip(text: str) -> str:
    return text.encode()[:TAIL_LIMIT].decode(errors="ignore").strip()
