"""Makes forks cheaper: memory that all children share is arranged once, before the first fork.

A child copies each page that it writes to, and memory that an interpreter has freed lies about everywhere: a child that
allocates would touch, and so copy, a page for a few objects each. So what is free within pages in use is taken, for
good; then a child's new objects lie together. And what is shared is put into huge pages: a fork copies a table entry
for each page, its end drops them again, and there are 512 times fewer; a child that writes copies small pages as ever.
Linux 6.1 and later can; where something can't be done nothing happens, and forks are only a bit slower.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_COLLAPSE = 25
"""MADV_COLLAPSE of madvise(2)."""
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE, since Linux 5.14."""
_ONLY_HERE = 1 << 56
"""In /proc/self/pagemap: the page is mapped in this process only."""
_ENTRY = 8
"""Bytes about one page in there."""
_HUGE = 1 << 21
_OWN: tuple[list[str], ...] = ([], ["[heap]"])
"""What /proc/self/maps calls memory that belongs to no file."""

_SIZE_CLASS = re.compile(rb"^ *\d+ +(?P<size>\d+) +\d+ +\d+ +(?P<free>\d+) *$", re.MULTILINE)
"""A line of `sys._debugmallocstats`, about blocks of one size."""
_BYTES_OVERHEAD = sys.getsizeof(b"")
_LARGEST, _SMALLEST = 64 * 1024, 24
"""Of the C library's chunks that are looked for; larger ones have pages of their own."""
_STEP = 16
_held: list[object] = []
"""Objects that nobody needs: where they are, nobody else's can be."""


def fill_holes() -> int:
    """Take what is free within pages in use; return how many bytes that were."""
    return _fill_python_pools() + _fill_c_heap()


def _fill_python_pools() -> int:
    free = _free_blocks()
    for size, count in free.items():
        _held.append([_block(size, number) for number in range(count)])
    return sum(size * count for size, count in free.items())


def _block(size: int, number: int) -> object:
    """Return an object that takes one block of *size* bytes, which no other object shares."""
    if size > _BYTES_OVERHEAD:
        return bytes(size - _BYTES_OVERHEAD)
    return object() if size == sys.getsizeof(object()) else float(number)


def _free_blocks() -> dict[int, int]:
    """Return how many blocks are free in pools that the interpreter has begun, by their size."""
    show = getattr(sys, "_debugmallocstats", None)
    if show is None or sys.stderr is None:
        return {}
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        former = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            show()
        finally:
            os.dup2(former, 2)
            os.close(former)
        file.seek(0)
        return {int(found["size"]): int(found["free"]) for found in _SIZE_CLASS.finditer(file.read())}


_INFO = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _Info(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _INFO)


def _fill_c_heap() -> int:
    """Take what is free below the top of the C library's heap, the largest chunks first."""
    library = ctypes.CDLL(None)
    taken = 0
    with contextlib.suppress(AttributeError):  # another C library, or an older one
        library.mallinfo2.restype = _Info
        library.sbrk.restype = library.malloc.restype = ctypes.c_void_p
        library.malloc.argtypes, library.free.argtypes = (ctypes.c_size_t,), (ctypes.c_void_p,)
        size = _LARGEST
        while size >= _SMALLEST:
            top = library.sbrk(0) - library.mallinfo2().keepcost
            chunk = library.malloc(size)
            if chunk is not None and chunk < top - _STEP:
                taken += size
                continue  # it is never freed
            library.free(chunk)
            size -= max(_STEP, size // 64 // _STEP * _STEP)
    return taken


def make_huge() -> int:
    """Put this process's own memory into huge pages; return how many bytes were taken."""
    if sys.platform != "linux":
        return 0
    madvise = _madvise()
    # one that can't be (too little memory, a page that is pinned) stays as it is, and the next one may do
    return sum(_HUGE for address in list(_whole_pages()) if madvise(address, _HUGE, _COLLAPSE) == 0)


def _whole_pages() -> Iterator[int]:
    """Yield the address of each huge page that would be all of this process's own."""
    for begin, end in _own_memory():
        yield from range(-(-begin // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE)


def _madvise() -> Any:
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return madvise


def _own_memory(*, files: bool = False) -> Iterator[tuple[int, int]]:
    """Yield beginning and end of each piece of writable private memory, *files*' too."""
    try:
        with open("/proc/self/maps") as maps:  # noqa: PTH123 - no object more than needed while memory is looked at
            lines = [line.split() for line in maps]
    except OSError:
        return
    for addresses, rights, _offset, _device, _inode, *name in lines:
        begin, _, end = addresses.partition("-")
        if rights == "rw-p" and (files or name in _OWN):
            yield int(begin, 16), int(end, 16)


def note_copied(path: Path) -> None:
    """Write to *path*, once, which pages this process has for itself: those that a fork of its kind copies."""
    if sys.platform != "linux" or path.exists():
        return
    with contextlib.suppress(OSError):
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text("".join(f"{begin:x} {end:x}\n" for begin, end in _copied()))
        new.rename(path)


def copy_beforehand(path: Path) -> None:
    """Copy, while nobody waits, the pages that another fork of this kind has copied: see `note_copied`."""
    with contextlib.suppress(OSError, ValueError):
        ranges = [[int(number, 16) for number in line.split()] for line in path.read_text().splitlines()]
        madvise = _madvise()
        for begin, end in ranges:  # where there is nothing in this process, nothing happens
            madvise(begin, end - begin, _POPULATE_WRITE)


def _copied() -> Iterator[tuple[int, int]]:
    """Yield beginning and end of each piece of memory that this process has for itself."""
    size = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/pagemap", "rb", buffering=0) as file:  # noqa: PTH123 - as above
        for begin, end in list(_own_memory(files=True)):
            file.seek(begin // size * _ENTRY)
            entries = array.array("Q", file.read((end - begin) // size * _ENTRY))
            yield from _marked(entries, begin=begin, size=size)


def _marked(entries: Sequence[int], *, begin: int, size: int) -> Iterator[tuple[int, int]]:
    for own, pages in itertools.groupby(entries, key=lambda entry: bool(entry & _ONLY_HERE)):
        end = begin + sum(1 for _ in pages) * size
        if own:
            yield begin, end
        begin = end
