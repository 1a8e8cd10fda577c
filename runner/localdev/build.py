"""Builds the control plane's programs: one multi-call binary from the Go sources in this package, into the cache.

`assets` calls `build` when it finds no programs. Whoever comes second waits for the first; a half-built folder is
never seen, as the finished one is renamed into place.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from runner.errors import LocalPlaneError
from runner.localdev.cache import SOURCES, Cache, Report, kubernetes_version
from runner.localdev.progress import Task
from runner.localdev.toolchain import go_program

BINARY = "localplane"
APPLETS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
_PREFIX = "build-"


def build(environ: Mapping[str, str], *, cache: Cache, report: Report, sources: Path = SOURCES) -> Path:
    """Return the folder with the programs, building them unless they are there.

    Raises:
        LocalPlaneError: there is no Go, or it failed; the message has the end of the log.
    """
    target = cache.binaries
    with cache.lock(report=report):
        if target.is_dir():
            return target
        for left_over in cache.root.glob(f"{_PREFIX}*"):  # of a build that was killed: we hold the lock
            shutil.rmtree(left_over, ignore_errors=True)
        go = go_program(environ, cache=cache, report=report)
        scratch = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=cache.root))
        try:
            output = scratch / "bin"
            output.mkdir()
            _compile(go, environ=environ, scratch=scratch, cache=cache, report=report, sources=sources)
            link_applets(output)
            output.rename(target)
        finally:
            report(f"removing the build's own cache ({scratch})")
            shutil.rmtree(scratch, ignore_errors=True)
    return target


def link_applets(folder: Path) -> None:
    """Make one symbolic link for each program beside the binary."""
    for name in APPLETS:
        (folder / name).symlink_to(BINARY)


def compiler_arguments(go: Path, *, output: Path, version: str) -> list[str]:
    """Return the command that compiles: no debugging data (a third faster), and the version it will report."""
    major, minor, *_ = version.split(".")
    stamp = "k8s.io/component-base/version"
    flags = f"-s -w -X {stamp}.gitVersion=v{version} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    return [
        str(go), "build", "-trimpath", "-mod=readonly", "-gcflags=all=-dwarf=false", "-ldflags", flags,
        "-o", str(output), ".",
    ]  # fmt: skip


def compiler_environment(environ: Mapping[str, str], *, scratch: Path) -> dict[str, str]:
    """Return *environ* for a build whose own cache is in *scratch*; downloaded modules stay in the user's."""
    return {
        **environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(scratch / "gocache"),
        "GOTMPDIR": str(scratch),
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "",
        "GOWORK": "off",
        "GOGC": "400",  # 7 % less CPU for memory that is there
    }


def _compile(
    go: Path, *, environ: Mapping[str, str], scratch: Path, cache: Cache, report: Report, sources: Path
) -> None:
    version = kubernetes_version(sources)
    Task(
        name="build",
        title=f"building the local control plane (Kubernetes {version}; once, 8 to 15 minutes on two cores)",
        argv=compiler_arguments(go, output=scratch / "bin" / BINARY, version=version),
        environ=compiler_environment(environ, scratch=scratch),
        folder=sources,
        log=cache.root / "logs" / "build.log",
        remedy="It needs 4 GB of disk, 3 GB of memory and, the first time, a Go module proxy.",
    ).run(cache=cache, report=report)
    if not (scratch / "bin" / BINARY).is_file():
        raise LocalPlaneError(f"{go} built nothing from {sources}; the log is {cache.root / 'logs' / 'build.log'}")
