"""The limits that ruff has no rule for: length of functions and files, and what a test's docstring is.

`make check` runs it and refuses; `--report` prints the figures that a review compares and that are no gate. A function
may be exempt by a reason on its `def` line: `def table() -> None:  # limit: one row per case`. A file may not.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("runner", "plugins", "handlers", "tools", "tests")
FUNCTION_LINES = 60
FILE_LINES = 500
EXEMPTION = re.compile(r"#\s*limit:\s*(?P<reason>.*)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One limit that is passed, as an editor can jump to it."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        """Return `file:line: message`."""
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True, kw_only=True)
class Source:
    """One parsed Python file."""

    path: Path
    lines: tuple[str, ...]
    tree: ast.Module

    def functions(self) -> Iterator[Function]:
        """Yield every function and method, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield node

    @property
    def is_test(self) -> bool:
        """Whether pytest collects this file."""
        return self.path.name.startswith("test_")


def load(root: Path) -> list[Source]:
    """Parse every Python file of our folders under *root*."""
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return [parse(path, shown=path.relative_to(root)) for path in paths if path.is_file()]


def parse(path: Path, *, shown: Path | None = None) -> Source:
    """Parse one file, that findings call *shown*."""
    text = path.read_text()
    return Source(path=shown or path, lines=tuple(text.splitlines()), tree=ast.parse(text, filename=str(path)))


def length(function: Function) -> int:
    """Return the lines from `def` to the end, docstring included, decorators not."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def findings(source: Source) -> Iterator[Finding]:
    """Yield everything that is over a limit in one file."""
    yield from file_findings(source)
    for function in source.functions():
        yield from function_findings(source, function=function)
        if source.is_test and function.name.startswith("test_"):
            yield from docstring_findings(source, test=function)


def file_findings(source: Source) -> Iterator[Finding]:
    """Yield the file's own length where it is over the limit."""
    if len(source.lines) > FILE_LINES:
        message = f"file has {len(source.lines)} lines, the limit is {FILE_LINES}: give a part a file of its own"
        yield Finding(path=source.path, line=1, message=message)


def function_findings(source: Source, *, function: Function) -> Iterator[Finding]:
    """Yield the function's length where it is over the limit and not exempt, and an exemption without a reason."""
    exemption = EXEMPTION.search(source.lines[function.lineno - 1])
    if exemption and len(exemption["reason"].strip()) < len("a reason"):
        message = "exemption without a reason: say why after `# limit:`"
        yield Finding(path=source.path, line=function.lineno, message=message)
    if length(function) > FUNCTION_LINES and not exemption:
        message = f"{function.name} has {length(function)} lines, the limit is {FUNCTION_LINES}: take a named step out"
        yield Finding(path=source.path, line=function.lineno, message=message)


def docstring_findings(source: Source, *, test: Function) -> Iterator[Finding]:
    """Yield a test that has no docstring, or more than one paragraph of it."""
    text = ast.get_docstring(test)
    if not text:
        message = f"{test.name} has no docstring: say in one sentence which behaviour it specifies"
        yield Finding(path=source.path, line=test.lineno, message=message)
    elif "\n\n" in text:
        message = f"{test.name}: the docstring is more than one paragraph; it is one sentence of behaviour"
        yield Finding(path=source.path, line=test.lineno, message=message)


def report(sources: Iterable[Source]) -> str:
    """Return the figures that describe the code and gate nothing."""
    listed = [source for source in sources if source.lines]
    tests = [source for source in listed if source.path.parts[0] == "tests"]
    code = [source for source in listed if source not in tests]
    sizes = sorted(length(function) for source in code for function in source.functions()) or [0]
    files = [len(source.lines) for source in code] or [0]
    test_lines = sum(len(source.lines) for source in tests)
    figures = {
        "functions": len(sizes),
        "median function, lines": f"{statistics.median(sizes):g}",
        "90th percentile": sizes[(len(sizes) - 1) * 9 // 10],
        "longest": sizes[-1],
        "files": len(files),
        "median file, lines": f"{statistics.median(files):g}",
        "longest file": max(files),
        "test lines per source line": f"{test_lines / max(1, sum(files)):.2f}",
    }
    return "\n".join(f"{name:<28}{value}" for name, value in figures.items())


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="limits", description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="print figures only")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to look at")
    options = parser.parse_args(arguments)
    sources = load(options.root)
    if options.report:
        print(report(sources))
        return 0
    found = [finding for source in sources for finding in findings(source)]
    for finding in found:
        print(finding)
    print(f"limits: {len(sources)} files, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
