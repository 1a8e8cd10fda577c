"""Makes forks cheaper: memory that all children share is put into huge pages once, before the first fork.

A fork copies a table entry for each page, its end drops them again, and there are 512 times fewer. A child that writes
copies small pages as ever. Linux 6.1 and later can; elsewhere nothing happens, and forks are only a bit slower.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

_COLLAPSE = 25
"""MADV_COLLAPSE of madvise(2)."""
_HUGE = 1 << 21
_OWN: tuple[list[str], ...] = ([], ["[heap]"])
"""What /proc/self/maps calls memory that belongs to no file."""


def make_huge() -> int:
    """Put this process's own memory into huge pages; return how many bytes were taken."""
    if sys.platform != "linux":
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    # one that can't be (too little memory, a page that is pinned) stays as it is, and the next one may do
    return sum(_HUGE for address in list(_whole_pages()) if madvise(address, _HUGE, _COLLAPSE) == 0)


def _whole_pages() -> Iterator[int]:
    """Yield the address of each huge page that would be all of this process's own."""
    for begin, end in _own_memory():
        yield from range(-(-begin // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE)


def _own_memory() -> Iterator[tuple[int, int]]:
    try:
        with open("/proc/self/maps") as maps:  # noqa: PTH123 - no object more than needed while memory is looked at
            lines = [line.split() for line in maps]
    except OSError:
        return
    for addresses, rights, _offset, _device, _inode, *name in lines:
        begin, _, end = addresses.partition("-")
        if rights == "rw-p" and name in _OWN:
            yield int(begin, 16), int(end, 16)
