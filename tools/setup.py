"""`make setup`: the environment `.venv` out of the hashed lock files, our package, and the Ansible collections.

`--ansible-2.18` makes the other environment instead, `.venv-2.18`: an older Ansible and Kubernetes client for the plays
of `make test-full`, with nothing of the operator's own.

Run by the system's Python with nothing installed, so standard library only. Each part has a stamp of what it was made
from; a part whose stamp still fits is left alone, and an interrupted set-up goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - run by whatever Python the machine has
    sys.exit(f"setup: Python {sys.version.split()[0]} is too old, 3.11 is needed: make setup PYTHON=python3.12")

from tools.install_collections import COLLECTIONS, LOCK, ROOT, cache_home
from tools.steps import Step, StepError, Steps

LINKER = "install_collections.py"
OTHER_ANSIBLE = "ansible-2.18"
OTHER_VENV = ".venv-2.18"
PIP_ENVIRON = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_NO_INPUT": "1"}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the environment: how it is made, and a digest of what it is made from."""

    step: Step
    digest: str


def plan(*, root: Path, venv: Path) -> dict[str, Part]:
    """Return the parts below the environment itself, in order."""
    python = str(venv / "bin" / "python")
    lock, project = root / "requirements" / "dev.txt", root / "pyproject.toml"
    pip = (python, "-m", "pip", "install", "--progress-bar", "off")
    packages = digest(lock)
    return {
        "packages": Part(
            digest=packages,
            step=Step(
                name="setup: packages",
                doing="install the packages of requirements/dev.txt (hash-checked)",
                command=(*pip, "--require-hashes", "--requirement", str(lock)),
                environ=PIP_ENVIRON,
            ),
        ),
        "project": Part(
            digest=digest(project) + packages + str(root),
            step=Step(
                name="setup: project",
                doing="install this package, editable",
                command=(*pip, "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(root)),
                environ=PIP_ENVIRON,
            ),
        ),
        "collections": Part(
            digest=digest(root / "requirements" / LOCK.name) + digest(Path(__file__).with_name(LINKER)) + str(root),
            step=Step(
                name="setup: collections",
                doing="fetch and link the Ansible collections",
                command=(python, "-m", "tools.install_collections"),
                environ={**PIP_ENVIRON, "PYTHONPATH": str(root)},
            ),
        ),
    }


def plan_ansible(*, root: Path, venv: Path) -> dict[str, Part]:
    """Return the parts of the environment that has only Ansible, in order."""
    python, lock = str(venv / "bin" / "python"), root / "requirements" / f"{OTHER_ANSIBLE}.txt"
    install = (python, "-m", "pip", "install", "--progress-bar", "off", "--require-hashes", "--requirement", str(lock))
    doing = f"install the packages of requirements/{lock.name} (hash-checked)"
    name = f"setup: {OTHER_ANSIBLE}"
    collections = plan(root=root, venv=venv)["collections"]
    return {
        "packages": Part(digest=digest(lock), step=Step(name=name, doing=doing, command=install, environ=PIP_ENVIRON)),
        "collections": collections,
    }


def digest(path: Path) -> str:
    """Return a digest of the file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_stamp(venv: Path) -> dict[str, str]:
    """Return what the parts of *venv* were made from; empty where nothing is known."""
    try:
        content = json.loads((venv / "setup.json").read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_stamp(venv: Path, *, stamp: dict[str, str]) -> None:
    """Write what the parts of *venv* were made from."""
    (venv / "setup.json").write_text(json.dumps(stamp, indent=2) + "\n")


def usable(venv: Path) -> bool:
    """Tell whether the environment's interpreter runs and is new enough (a system upgrade may take it away)."""
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        done = subprocess.run([venv / "bin" / "python", "-c", check], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def intact(venv: Path, *, program: str = "ansible-operator") -> bool:
    """Tell whether what the stamp promises is still there (somebody may have emptied the cache)."""
    if not (venv / "bin" / program).is_file():
        return False
    found = list((venv / "lib").glob("python3*/site-packages/ansible_collections"))
    return bool(found) and all((found[0] / name / "MANIFEST.json").is_file() for name in COLLECTIONS)


def setup(*, root: Path, steps: Steps) -> bool:
    """Bring the environment up to date; return False where nothing was to do."""
    venv = root / ".venv"
    return bring_up(venv, parts=plan(root=root, venv=venv), whole=lambda: intact(venv), steps=steps)


def setup_ansible(*, root: Path, steps: Steps) -> bool:
    """Bring the environment that has only Ansible up to date; return False where nothing was to do."""
    venv = root / OTHER_VENV
    parts = plan_ansible(root=root, venv=venv)
    return bring_up(venv, parts=parts, whole=lambda: intact(venv, program="ansible-playbook"), steps=steps)


def bring_up(venv: Path, *, parts: dict[str, Part], whole: Callable[[], bool], steps: Steps) -> bool:
    """Make the *parts* of *venv* whose stamp doesn't fit; return False where all did and it is *whole*."""
    stamp = read_stamp(venv)
    if whole() and stamp == {name: part.digest for name, part in parts.items()}:
        return False
    if not usable(venv):
        create = (sys.executable, "-m", "venv", "--clear", str(venv))
        steps.run(Step(name="setup: environment", doing=f"create the environment {venv.name}", command=create))
        stamp = {}
    elif not whole():
        stamp = {name: made_from for name, made_from in stamp.items() if name == "packages"}
    for name, part in parts.items():
        if stamp.get(name) != part.digest:
            steps.run(part.step)
            stamp[name] = part.digest
            write_stamp(venv, stamp=stamp)
    return True


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="setup", description=__doc__.splitlines()[0])
    parser.add_argument("--quiet", action="store_true", help="say nothing where nothing is to do")
    parser.add_argument(
        f"--{OTHER_ANSIBLE}", action="store_true", dest="other", help=f"make {OTHER_VENV} instead, for make test-full"
    )
    options = parser.parse_args(arguments)
    steps = Steps(cache=cache_home(), out=sys.stdout)
    try:
        changed = (setup_ansible if options.other else setup)(root=ROOT, steps=steps)
    except StepError as error:
        print(f"setup: {error}", file=sys.stderr)
        if "ensurepip" in str(error):
            print("  Debian and Ubuntu keep this part of Python apart: apt install python3-venv", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"setup: {error.filename or ''}: {error.strerror}; check rights and free space", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: stopped; run `make setup` again to go on", file=sys.stderr)
        return 130
    if changed or not options.quiet:
        print(f"setup: {OTHER_VENV if options.other else '.venv'} is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
