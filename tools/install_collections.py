"""Put the Ansible collections of `requirements.yml` where Ansible finds them, without a Galaxy server.

`requirements/collections.txt` names the `ansible` distribution with its hash; pip fetches it, the two folders that we
use are kept in the per-user cache, and the environment's `ansible_collections` links to them. `plugins/` of this
repository joins as the collection `aws_operator.core`. Ansible, molecule and ansible-lint search sys.path, so no
variable is needed. Standard library only: `tools/setup.py` and a Dockerfile run it.

    python -m tools.install_collections                      link into the running environment
    python -m tools.install_collections --copy-to FOLDER     copy instead: what an image wants
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "collections.txt"
COLLECTIONS = ("amazon/aws", "kubernetes/core")
OURS = {"aws_operator/core": "plugins"}
BUNDLED = {"operator_sdk/util": "runner/collections/ansible_collections/operator_sdk/util"}
"""What the runtime brings to every run by itself; ansible-lint and molecule need it in the environment."""


class CollectionsError(Exception):
    """The collections cannot be had; the message says why and what to do."""


def cache_home() -> Path:
    """Return the folder of our per-user cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ansible-operator-runner"


def locked_version(lock: Path = LOCK) -> str:
    """Return the `ansible` version that *lock* pins."""
    found = re.search(r"^ansible==(\S+)", lock.read_text(), re.MULTILINE)
    if found is None:
        raise CollectionsError(f"{lock}: no line `ansible==VERSION`; restore the file from git")
    return found.group(1)


def ensure_cached(*, lock: Path = LOCK, cache: Path) -> Path:
    """Return the folder with `amazon/aws` and `kubernetes/core`, fetching and unpacking them the first time."""
    target = cache / "collections" / f"ansible-{locked_version(lock)}" / "ansible_collections"
    if all((target / name / "MANIFEST.json").is_file() for name in COLLECTIONS):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache / "collections", prefix=".unpack-") as scratch:
        unpacked = unpack(download(Path(scratch), lock=lock), into=Path(scratch) / "unpacked")
        publish(unpacked, target=target)
    return target


def download(folder: Path, *, lock: Path) -> Path:
    """Fetch the distribution into *folder* with pip, which checks the hash."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", "--dest", str(folder), "--requirement", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("ansible-*.whl"))
    if done.returncode != 0 or not wheels:
        tail = "\n".join(f"  {line}" for line in done.stderr.splitlines()[-8:])
        raise CollectionsError(
            f"pip could not fetch the distribution of {lock.name}:\n{tail}\n"
            "check the network, proxy or pip's index setting, then run `make setup` again"
        )
    return wheels[0]


def unpack(wheel: Path, *, into: Path) -> Path:
    """Unpack only our collections of *wheel*; return the folder that holds them."""
    wanted = tuple(f"ansible_collections/{name}/" for name in COLLECTIONS)
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.startswith(wanted)]
        archive.extractall(into, members)
    missing = [name for name in COLLECTIONS if not (into / "ansible_collections" / name / "MANIFEST.json").is_file()]
    if missing:
        raise CollectionsError(f"{wheel.name} holds no {', '.join(missing)}; correct {LOCK.name}")
    return into / "ansible_collections"


def publish(unpacked: Path, *, target: Path) -> None:
    """Move *unpacked* to *target* in one step; of two set-ups at the same time one wins and both are served."""
    if target.exists():
        shutil.rmtree(target)
    try:
        unpacked.rename(target)
    except OSError:
        if not all((target / name / "MANIFEST.json").is_file() for name in COLLECTIONS):
            raise


def versions(collections: Path) -> dict[str, str]:
    """Return the version of each of our collections under *collections*, by its dotted name."""
    found = {}
    for name in COLLECTIONS:
        manifest = json.loads((collections / name / "MANIFEST.json").read_text())
        found[name.replace("/", ".")] = manifest["collection_info"]["version"]
    return found


def sources(cached: Path, *, root: Path = ROOT, bundled: bool = False) -> dict[str, Path]:
    """Return where each collection comes from; ours only where the tree has them, the runtime's own only if asked."""
    found = {name: cached / name for name in COLLECTIONS}
    wanted = OURS | (BUNDLED if bundled else {})
    return found | {name: root / folder for name, folder in wanted.items() if (root / folder).is_dir()}


def link(found: dict[str, Path], *, into: Path) -> None:
    """Make `into/NAMESPACE/NAME` a link to each source; a link to elsewhere is replaced, a real folder too."""
    for name, source in found.items():
        place = into / name
        if place.is_symlink() and place.readlink() == source:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        spare = place.with_name(f".{place.name}.{os.getpid()}")
        spare.symlink_to(source)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        spare.replace(place)


def copy(found: dict[str, Path], *, into: Path) -> None:
    """Copy each source to `into/ansible_collections/NAMESPACE/NAME`."""
    for name, source in found.items():
        place = into / "ansible_collections" / name
        shutil.copytree(source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "tests"))


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="install_collections", description=__doc__.splitlines()[0])
    parser.add_argument("--copy-to", type=Path, metavar="FOLDER", help="copy below FOLDER instead of linking")
    options = parser.parse_args(arguments)
    try:
        cached = ensure_cached(cache=cache_home())
        if options.copy_to:
            copy(sources(cached), into=options.copy_to)
        else:
            link(sources(cached, bundled=True), into=Path(sysconfig.get_path("purelib")) / "ansible_collections")
    except (CollectionsError, OSError, zipfile.BadZipFile) as error:
        print(f"collections: {error}", file=sys.stderr)
        return 1
    print("collections: " + ", ".join(f"{name} {version}" for name, version in versions(cached).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
