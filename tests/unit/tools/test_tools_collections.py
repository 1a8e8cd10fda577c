"""The Ansible collections: taken out of a wheel, linked into an environment or copied into an image."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import yaml

from tools import install_collections

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("amazon/aws", "kubernetes/core", "community/general")


def make_wheel(folder: Path, *, names: tuple[str, ...] = NAMES) -> Path:
    """Write a small `ansible` wheel with the collections *names*."""
    path = folder / "ansible-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            manifest = {"collection_info": {"version": "1.2.3"}}
            archive.writestr(f"ansible_collections/{name}/MANIFEST.json", json.dumps(manifest))
            archive.writestr(f"ansible_collections/{name}/plugins/modules/thing.py", "")
    return path


def make_lock(folder: Path, *, version: str = "1.0.0") -> Path:
    """Write a lock file that names *version* with a hash that nothing has."""
    lock = folder / "collections.txt"
    lock.write_text(f"# comment\nansible=={version} \\\n    --hash=sha256:{'0' * 64}\n")
    return lock


def make_cached(cache: Path) -> Path:
    """Put both collections into *cache* as if they had been fetched for the lock of `make_lock`."""
    folder = cache / "collections" / "ansible-1.0.0" / "ansible_collections"
    unpacked = install_collections.unpack(make_wheel(cache), into=cache / "unpacked")
    folder.parent.mkdir(parents=True)
    install_collections.publish(unpacked, target=folder)
    return folder


def test_only_our_collections_are_kept_of_the_wheel(tmp_path: Path) -> None:
    """The other hundred collections of the distribution are not unpacked."""
    unpacked = install_collections.unpack(make_wheel(tmp_path), into=tmp_path / "out")
    assert sorted(path.name for path in unpacked.iterdir()) == ["amazon", "kubernetes"]
    assert install_collections.versions(unpacked) == {"amazon.aws": "1.2.3", "kubernetes.core": "1.2.3"}


def test_a_wheel_without_a_collection_is_refused_by_name(tmp_path: Path) -> None:
    """A distribution that no longer carries one of ours says which, and where to correct it."""
    wheel = make_wheel(tmp_path, names=("kubernetes/core",))
    with pytest.raises(install_collections.CollectionsError, match=r"holds no amazon/aws; correct collections\.txt"):
        install_collections.unpack(wheel, into=tmp_path / "out")


def test_cached_collections_are_used_without_fetching(tmp_path: Path) -> None:
    """A second set-up reads the cache: the hash of this lock could never be fetched."""
    expected = make_cached(tmp_path)
    assert install_collections.ensure_cached(lock=make_lock(tmp_path), cache=tmp_path) == expected


def test_a_distribution_that_cannot_be_had_is_an_error_with_pips_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without index and without wheel, the error carries pip's reason and what to check."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(install_collections.CollectionsError, match=r"(?s)No matching distribution.*check the network"):
        install_collections.ensure_cached(lock=make_lock(tmp_path), cache=tmp_path)


def test_a_wheel_whose_hash_differs_is_refused_and_nothing_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tampered download leaves no folder behind that a later set-up would trust."""
    make_wheel(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(install_collections.CollectionsError, match="HASH"):
        install_collections.ensure_cached(lock=make_lock(tmp_path), cache=tmp_path)
    assert not (tmp_path / "collections" / "ansible-1.0.0" / "ansible_collections").exists()


def test_a_lock_without_a_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version alone is not enough to install from."""
    make_wheel(tmp_path)
    lock = tmp_path / "collections.txt"
    lock.write_text("ansible==1.0.0\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(install_collections.CollectionsError, match="Hashes are required"):
        install_collections.ensure_cached(lock=lock, cache=tmp_path)


def test_links_replace_wrong_links_and_real_folders_and_can_be_repeated(tmp_path: Path) -> None:
    """Linking twice is linking once; what stood there before gives way."""
    cached = make_cached(tmp_path)
    into = tmp_path / "site"
    (into / "amazon" / "aws" / "old").mkdir(parents=True)
    (into / "kubernetes").mkdir()
    (into / "kubernetes" / "core").symlink_to(tmp_path / "nowhere")
    for _ in range(2):
        install_collections.link(install_collections.sources(cached, root=tmp_path), into=into)
    for name in ("amazon/aws", "kubernetes/core"):
        assert (into / name).readlink() == cached / name
    assert sorted(path.name for path in (into / "amazon").iterdir()) == ["aws"]


def test_our_own_collections_join_where_the_tree_has_them(tmp_path: Path) -> None:
    """`plugins/` is `aws_operator.core`; the runtime's own collection is linked for the tools, and not copied."""
    cached = make_cached(tmp_path)
    assert set(install_collections.sources(cached, root=tmp_path, bundled=True)) == {"amazon/aws", "kubernetes/core"}
    (tmp_path / "plugins").mkdir()
    bundled = tmp_path / "runner" / "collections" / "ansible_collections" / "operator_sdk" / "util"
    bundled.mkdir(parents=True)
    copied = install_collections.sources(cached, root=tmp_path)
    assert copied["aws_operator/core"] == tmp_path / "plugins"
    assert "operator_sdk/util" not in copied
    assert install_collections.sources(cached, root=tmp_path, bundled=True)["operator_sdk/util"] == bundled


def test_a_copy_holds_real_files(tmp_path: Path) -> None:
    """An image gets files and no links into a cache that it doesn't have."""
    cached = make_cached(tmp_path)
    install_collections.copy(install_collections.sources(cached, root=tmp_path), into=tmp_path / "image")
    copied = tmp_path / "image" / "ansible_collections" / "amazon" / "aws"
    assert (copied / "MANIFEST.json").is_file()
    assert not copied.is_symlink()


def test_requirements_yml_names_the_versions_that_the_lock_brings() -> None:
    """Whoever installs from Galaxy by requirements.yml gets the collections that the tests ran with."""
    named = yaml.safe_load((ROOT / "requirements.yml").read_text())["collections"]
    cached = install_collections.ensure_cached(cache=install_collections.cache_home())
    assert {entry["name"]: entry["version"] for entry in named} == install_collections.versions(cached)
