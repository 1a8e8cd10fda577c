"""What botocore reads for its clients, parsed ahead of the fork: the same data, once per file and process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runner.execution.warm.far.aws_data import services_in

_ROOT = Path(__file__).parents[5]
_BEGIN = """
import builtins, json, os, sys
import boto3, botocore.loaders
from runner.execution.warm.far import aws_data
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event in ("open", "os.listdir") else None)
def read():
    return sorted({os.path.basename(path) for path in opened if path.endswith((".json", ".json.gz"))})
def loader():
    return boto3.session.Session(region_name="eu-west-1")._session.get_component("data_loader")
def client():
    session = boto3.session.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="eu-west-1")
    return session.client("ec2")
"""


def _run(program: str, *, home: Path) -> list[str]:
    answer = subprocess.run(
        [sys.executable, "-c", _BEGIN + program],
        cwd=_ROOT,
        env={"HOME": str(home)},
        text=True,
        capture_output=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split()


def test_a_client_reads_no_file_that_was_read_ahead(tmp_path: Path) -> None:
    """A client of a kept service opens none of botocore's JSON files and lists no folder of all services."""
    program = """
aws_data.keep(["ec2"])
opened.clear()
client().get_paginator("describe_instances")
print(*read(), len(opened) < 50)
"""
    assert _run(program, home=tmp_path) == ["True"]


def test_a_second_client_reads_the_files_itself(tmp_path: Path) -> None:
    """What was handed out, and may have been changed since, is read anew for the next one who asks."""
    program = """
aws_data.keep(["ec2"])
first = client()
opened.clear()
second = client()
print("service-2.json" in " ".join(read()), first.meta.service_model.metadata == second.meta.service_model.metadata)
"""
    assert _run(program, home=tmp_path) == ["True", "True"]


def test_the_data_is_that_of_the_file(tmp_path: Path) -> None:
    """What a loader gives for a kept file equals what it gives without, in contents and in order."""
    program = """
names = ["ec2/2016-11-15/" + kind for kind in ("service-2", "paginators-1", "waiters-2", "endpoint-rule-set-1")]
names += ["endpoints", "partitions"]
def texts():
    fresh = loader()
    listed = [fresh.list_available_services(kind) for kind in ("service-2", "paginators-1")]
    return listed, [json.dumps(fresh.load_data(name)) for name in names]
before = texts()
aws_data.keep(["ec2"])
opened.clear()
print(before == texts(), len(opened) < 50)
"""
    assert _run(program, home=tmp_path) == ["True", "True"]


@pytest.mark.parametrize("change", ["edited", "removed"])
def test_a_file_that_changed_is_read_again(tmp_path: Path, change: str) -> None:
    """A kept file that isn't as it was when it was read is not handed out."""
    program = f"""
folder = {str(tmp_path / ".aws/models/mine/2020-01-01")!r}
os.makedirs(folder)
file = os.path.join(folder, "service-2.json")
with builtins.open(file, "w") as target:
    target.write('{{"metadata": "old"}}')
aws_data.keep(["mine"])
os.remove(file)
if {change!r} == "edited":
    with builtins.open(file, "w") as target:
        target.write('{{"metadata": "newer"}}')
try:
    print(botocore.loaders.Loader().load_data("mine/2020-01-01/service-2")["metadata"])
except botocore.exceptions.DataNotFoundError:
    print("gone")
"""
    assert _run(program, home=tmp_path) == ["newer" if change == "edited" else "gone"]


@pytest.mark.parametrize("folder", ["", "/mine"])
def test_a_service_that_comes_later_is_listed(tmp_path: Path, folder: str) -> None:
    """A service of the user's own that comes after the lists were read is known to the next client."""
    program = f"""
own = {str(tmp_path / ".aws/models")!r}
os.makedirs(own + {folder!r})
aws_data.keep([])
os.makedirs(own + "/mine/2020-01-01")
with builtins.open(own + "/mine/2020-01-01/service-2.json", "w") as target:
    target.write("{{}}")
print("mine" in loader().list_available_services("service-2"))
"""
    assert _run(program, home=tmp_path) == ["True"]


def test_what_cannot_be_read_ahead_is_left_to_the_modules(tmp_path: Path) -> None:
    """Whatever botocore raises, nothing is kept and nobody is held up: a module that needs the data says so itself."""
    program = """
def fails(self, type_name):
    raise PermissionError("no")
own, botocore.loaders.Loader.list_available_services = botocore.loaders.Loader.list_available_services, fails
aws_data.keep(["ec2"])
print(botocore.loaders.Loader.list_available_services is fails)
botocore.loaders.Loader.list_available_services = own
print(client().meta.service_model.service_name)
"""
    assert _run(program, home=tmp_path) == ["True", "ec2"]


def test_an_unknown_service_is_left_to_who_names_it(tmp_path: Path) -> None:
    """A name that is no service costs nothing but itself: the others are kept."""
    program = """
aws_data.keep(["no-such", "ec2"])
opened.clear()
client()
print(*read(), "none")
"""
    assert _run(program, home=tmp_path) == ["none"]


def test_without_botocore_nothing_is_done(tmp_path: Path) -> None:
    """Where no module imported botocore, it is not imported for this."""
    program = """
for name in [name for name in sys.modules if name.startswith(("boto", "s3transfer"))]:
    del sys.modules[name]
aws_data.keep(["ec2"])
print("botocore" in sys.modules)
"""
    assert _run(program, home=tmp_path) == ["False"]


def test_services_are_found_by_how_clients_are_made(tmp_path: Path) -> None:
    """A service is what a source gives as a text to something called client or resource; the most frequent is first."""
    source = tmp_path / "module.py"
    source.write_text("""a = module.client("ec2", retry_decorator=x)\nb = boto3.resource( 's3')\nc = client(name)\n""")
    other = tmp_path / "other.py"
    other.write_text("""client("s3"); client("s3"); client("acm")\n""")
    assert services_in([source, tmp_path / "missing.py", other]) == ["s3", "acm", "ec2"]
