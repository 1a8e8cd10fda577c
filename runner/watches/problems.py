"""What the loader raises: one sentence that names file, line, entry and field, what is wrong, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runner.errors import ConfigError


class WatchesError(ConfigError):
    """watches.yaml is wrong."""

    notes: tuple[str, ...] = ()
    """What was odd before the fault, as an unknown key that is the reason of a missing one."""


class WatchesFileError(WatchesError):
    """watches.yaml cannot be read at all."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A place in watches.yaml; grows from the file to a field as the loader goes down."""

    file: str
    line: int = 0
    column: int = 0
    entry: str = ""
    field: str = ""

    def at(self, line: int, *, column: int = 0) -> Place:
        """Return the same place on another *line*."""
        return replace(self, line=line, column=column)

    def in_entry(self, entry: str) -> Place:
        """Return the place of an entry: its number and, once known, its GVK."""
        return replace(self, entry=entry)

    def in_field(self, field: str) -> Place:
        """Return the place of a field, written with dots: `finalizer.role`."""
        return replace(self, field=field)

    def error(self, wrong: str, *, remedy: str) -> WatchesError:
        """Return the error to raise here."""
        return WatchesError(f"{self}: {wrong}; {remedy}")

    def __str__(self) -> str:
        """Return for example `watches.yaml, line 7, entry 2 (test.io/v1, Kind=Web), field finalizer.role`."""
        parts = [
            self.file,
            self.line and f"line {self.line}",
            self.column and f"column {self.column}",
            self.entry,
            self.field and f"field {self.field}",
        ]
        return ", ".join(str(part) for part in parts if part)
