"""What a fork needs to be like a process that was just started, at its beginning and at its end.

Used by every process of the far side that forks: `fork` in the parent (or `os.fork`), then in the child `become_child`,
`rebuild_stdio` once 0, 1 and 2 are what they shall be, and `run_and_leave`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import io
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from . import marking

BROKEN = 70
"""Exit code of a child in which our own code broke (EX_SOFTWARE); no program that it stands in for has it."""
_FLUSH_FAILED = 120
"""What the interpreter exits with where standard output can't be flushed."""
_OWN_FOLDER = str(Path(__file__).parent)
_OF_THE_C_LIBRARY = {32, 33}
"""Signals that are for threads, and that nobody else can handle."""
_ALL_SIGNALS = frozenset(signal.valid_signals())
_SET_DEATH_SIGNAL, _SET_NAME, _SET_SUBREAPER = 1, 15, 36
"""Of prctl(2)."""

_inherited_mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
"""The signals that whoever started this program had blocked: what it starts inherits them, and so do its forks."""
_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONCOERCECLOCALE")
_former_streams: list[Any] = []
"""Replaced standard streams of the parent: destroyed, they would write what it had yet to write."""


def _given_variables() -> dict[str, str]:
    """Return what this program was started with; os.environ has what the interpreter made of it."""
    try:
        block = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environ)
    return dict(os.fsdecode(variable).partition("=")[::2] for variable in block.split(b"\0") if variable)


_given = _given_variables()
_coerced = os.environ.get("LC_CTYPE", "")
"""Equal to what was given, but where the interpreter didn't take the plain C locale that it found (PEP 538)."""


class ForkError(Exception):
    """There will be no child; the text tells why."""


def fork() -> int:
    """Fork, and return as `os.fork`. A signal that reaches the child early waits there for `become_child`.

    Raises:
        ForkError: it would be unsafe, as there are other threads that may hold locks, or the system refused it.
    """
    if len(threads := alive_threads()) > 1:
        raise ForkError(f"more than one thread is alive: {', '.join(threads)}")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)
    pid = -1
    try:
        pid = os.fork()
    except OSError as error:
        raise ForkError(f"the system cannot fork: {error}") from error
    finally:
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def alive_threads() -> list[str]:
    """Return what is known of each thread, Python's or not."""
    names = [thread.name for thread in threading.enumerate()]
    try:
        number = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - quick, once per fork
    except OSError:
        number = 0
    return [*names, *["one that Python didn't start"] * (number - len(names))]


def become_child(
    *, mark: str, environ: Mapping[str, str], cwd: str | None, keep: Collection[int] = (), session: bool = True
) -> None:
    """Leave behind what belongs to the parent: as if this process had been started with *environ* in *cwd*.

    Descriptors but 0, 1, 2 and *keep* are closed. *mark* is the ident of the run, see `marking`.

    Raises:
        OSError: *cwd* can't be entered.
        MarkError: *mark* is too long.
    """
    if session:
        os.setsid()
    marking.write(mark)
    _reset_signals()
    close_descriptors(keep)
    _set_environment({**environ, **_coerced_locale(environ)})
    time.tzset()
    if cwd is not None:
        os.chdir(cwd)
    tempfile.tempdir = None
    _forget_exit_handlers()
    if "numpy.random" in sys.modules:  # `random` sees to itself
        sys.modules["numpy.random"].seed()
    gc.freeze()  # what is the parent's is not looked at by the collector, nor by `_flush_writers`
    gc.enable()


def _coerced_locale(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return what the interpreter, started with *environ*, would add to it: what it did to this process."""
    if _coerced == _given.get("LC_CTYPE", "") or any(environ.get(name) != _given.get(name) for name in _LOCALE):
        return {}
    return {"LC_CTYPE": _coerced}


def _set_environment(environ: Mapping[str, str]) -> None:
    """Make *environ* that of this process, its order too; little is touched where little differs: memory is shared."""
    if list(os.environ) == list(environ):
        for name, value in environ.items():
            if os.environ[name] != value:
                os.environ[name] = value
        return
    os.environ.clear()
    os.environ.update(environ)


def _reset_signals() -> None:
    """Do what exec does: what was caught is the default, what was ignored stays so; the mask is the starter's."""
    signal.set_wakeup_fd(-1)
    for number in _caught_signals():
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, _inherited_mask)


def _caught_signals() -> list[int]:
    try:
        with open("/proc/self/status", "rb", buffering=0) as file:  # noqa: PTH123 - pages that are touched are copied
            mask = int(file.read(8192).partition(b"SigCgt:")[2].split(None, 1)[0], 16)
    except (OSError, ValueError, IndexError):
        return [number for number in signal.valid_signals() if callable(signal.getsignal(number))]
    return [number for number in range(1, signal.NSIG) if mask >> (number - 1) & 1 and number not in _OF_THE_C_LIBRARY]


def close_descriptors(keep: Collection[int]) -> None:
    """Close all descriptors but 0, 1, 2 and *keep*."""
    try:
        opened = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - as above
    except OSError:
        opened = list(range(os.sysconf("SC_OPEN_MAX")))
    for descriptor in opened:
        if descriptor > 2 and descriptor not in keep:
            try:  # noqa: SIM105 - as above
                os.close(descriptor)
            except OSError:
                pass


def _forget_exit_handlers() -> None:
    """Drop what the parent wants done at its own end, and keep what the standard library does at any end."""
    atexit._clear()  # noqa: SLF001 - there is no public way, and multiprocessing's own children avoid the question
    finalizers = weakref.finalize
    finalizers._registry.clear()  # type: ignore[attr-defined]  # noqa: SLF001 - the parent's temporary folders are its
    if finalizers._registered_with_atexit:  # type: ignore[attr-defined]  # noqa: SLF001 - it would never do so again
        atexit.register(finalizers._exitfunc)  # type: ignore[attr-defined]  # noqa: SLF001
    if logging := sys.modules.get("logging"):
        atexit.register(logging.shutdown)
    if util := sys.modules.get("multiprocessing.util"):
        util._finalizer_registry.clear()  # noqa: SLF001 - as multiprocessing does in its children
        atexit.register(util._exit_function)  # noqa: SLF001 - what its import registers


def rebuild_stdio() -> None:
    """Open sys.stdin, stdout and stderr anew on 0, 1 and 2, as the interpreter does when it starts."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        started_with = getattr(sys, f"__{name}__")
        _former_streams.extend((started_with, getattr(sys, name)))
        stream = _standard_stream(descriptor, name=name, like=started_with)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _standard_stream(descriptor: int, *, name: str, like: io.TextIOWrapper | None) -> io.TextIOWrapper | None:
    """Return the stream, or None where *descriptor* is closed. Encoding and errors come from variables: as *like* has.

    A process whose variables for those differ is never forked, see `spawn`.
    """
    try:
        os.fstat(descriptor)
    except OSError:
        return None
    writes = name != "stdin"
    unbuffered = like is not None and like.write_through
    buffer: Any = open(  # noqa: SIM115 - a descriptor, for as long as the process lives
        descriptor, "wb" if writes else "rb", buffering=0 if unbuffered and writes else -1, closefd=False
    )
    raw = getattr(buffer, "raw", buffer)
    raw.name = f"<{name}>"
    stream = io.TextIOWrapper(
        buffer,
        encoding=like.encoding if like is not None else None,
        errors=like.errors if like is not None else "backslashreplace" if name == "stderr" else None,
        newline="\n",
        line_buffering=not unbuffered and (name == "stderr" or raw.isatty()),
        write_through=unbuffered,
    )
    stream.mode = "w" if writes else "r"  # type: ignore[misc]
    return stream


def run_and_leave(main: Callable[[], object]) -> NoReturn:
    """Run *main* as the interpreter runs a script, do what it does at its end, and leave the process."""
    code = _run(main)
    by_interrupt = code is None
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - joins threads, as the interpreter's end does
    atexit._run_exitfuncs()  # noqa: SLF001 - as the interpreter's end does
    if not _flush_standard_streams():
        code = _FLUSH_FAILED
    _flush_writers()
    if by_interrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(128 + signal.SIGINT if code is None else code)


def _run(main: Callable[[], object]) -> int | None:
    """Return the exit code, or None for a death by SIGINT."""
    try:
        main()
    except SystemExit as leaving:
        return _code_of(leaving.code)
    except BaseException as error:  # noqa: BLE001 - this is the top of the process
        return _report(error)
    return 0


def _report(error: BaseException) -> int | None:
    shown = error.with_traceback(_without_ours(error.__traceback__))
    try:
        sys.excepthook(type(shown), shown, shown.__traceback__)
    except SystemExit as leaving:
        return _code_of(leaving.code)
    except BaseException:  # noqa: BLE001 - somebody's hook is broken: the interpreter's own is left
        sys.__excepthook__(type(shown), shown, shown.__traceback__)
    return None if isinstance(error, KeyboardInterrupt) else 1


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    """Return what a process of its own would show: without the frames of this package at the top."""
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frames = frames.tb_next
    return frames


def _code_of(given: object) -> int:
    """Return the exit code that the interpreter makes of what SystemExit was given."""
    if given is None:
        return 0
    if isinstance(given, int):
        return given & 0xFF if -(2**63) <= given < 2**63 else 0xFF
    with contextlib.suppress(OSError, ValueError):  # it is closed
        if sys.stderr is None:
            os.write(2, f"{given}\n".encode())
        else:
            sys.stderr.write(f"{given}\n")
    return 1


def _flush_standard_streams() -> bool:
    fine = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError, AttributeError) as error:  # AttributeError: somebody's own object
            fine = False
            if stream is sys.stdout and sys.stderr is not None:
                what = "".join(traceback.format_exception_only(error))
                sys.stderr.write(f"Exception ignored in: {stream!r}\n{what}")
    return fine


def _flush_writers() -> None:
    """Write out files that nobody closed: the interpreter's end destroys them, and that flushes them."""
    text, binary = _kinds_of(io.TextIOWrapper), _kinds_of(io.BufferedWriter, io.BufferedRandom)
    objects = gc.get_objects()  # tens of thousands: one look at each, without a step of the interpreter
    writers = list(itertools.compress(objects, map((text | binary).__contains__, map(type, objects))))
    for kinds in (text, binary):
        for writer in [item for item in writers if type(item) in kinds]:
            with contextlib.suppress(OSError, ValueError):
                writer.flush()


def _kinds_of(*classes: type) -> set[type]:
    """Return *classes* and all that are derived from them."""
    return {kind for given in classes for kind in (given, *_kinds_of(*type.__subclasses__(given)))}


def set_name(name: str) -> None:
    """Make *name* (at most 15 bytes of it) what `ps` and `top` call this process."""
    _prctl(_SET_NAME, ctypes.c_char_p(name.encode()))


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent died, instead of process 1, which may not reap them."""
    _prctl(_SET_SUBREAPER, ctypes.c_ulong(1))


def die_with_parent(parent: int, *, by: signal.Signals = signal.SIGKILL) -> None:
    """End with *parent*, from which this process was forked, whatever ends it. Its own forks don't inherit this."""
    _prctl(_SET_DEATH_SIGNAL, ctypes.c_ulong(by))
    if os.getppid() != parent:
        os.kill(os.getpid(), by)


def outlive_parent() -> None:
    """Take back `die_with_parent`."""
    _prctl(_SET_DEATH_SIGNAL, ctypes.c_ulong(0))


def _prctl(option: int, value: Any) -> None:
    """Ask Linux; elsewhere there is no such call, and all of these are a help and no need."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
