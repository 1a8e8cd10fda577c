"""Where credentials come from, and where they never appear."""

from __future__ import annotations

import base64
import json

import pytest

from runner.localdev.ec2.faults import Fault
from runner.testing.cluster import SECRETS
from tests.content.ec2_instance.role_harness import SECRET_KEY, Bench


async def make_secret(bench: Bench, name: str, **data: str) -> None:
    """Create a secret."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": bench.namespace}}
    await bench.kube.create(SECRETS, body={**body, "data": encoded}, namespace=bench.namespace)


async def test_missing_secret_is_named(bench: Bench) -> None:
    """A credentials secret that isn't there, or that lacks a key, is named in the condition, and AWS isn't asked."""
    await bench.create(credentialsSecretRef={"name": "aws"})
    missing = await bench.run()
    assert (missing.ok, missing.ready["reason"], list(missing.calls)) == (False, "CredentialsSecretNotFound", [])
    assert f"no secret aws in namespace {bench.namespace}" in missing.ready["message"]
    await make_secret(bench, "aws", AWS_ACCESS_KEY_ID="only")
    incomplete = await bench.run()
    assert incomplete.ready["reason"] == "CredentialsSecretInvalid"


async def test_wrong_credentials_are_told_until_they_are_corrected(bench: Bench) -> None:
    """Credentials that AWS refuses are the reason, with its code; the corrected secret is used by the next run."""
    await make_secret(bench, "aws", AWS_ACCESS_KEY_ID="AKIA0000000000000000", AWS_SECRET_ACCESS_KEY="wrong" * 8)
    obj = await bench.create(credentialsSecretRef={"name": "aws"})
    bench.aws.add_fault(Fault(action="DescribeInstances", code="AuthFailure", message="no", times=None))
    refused = await bench.run()
    assert (refused.ok, refused.ready["reason"], refused.writes) == (False, "AuthFailure", [])
    assert "AWS answered AuthFailure: no (request id " in refused.ready["message"]
    assert bench.mine(obj) == []
    bench.aws.clear_faults()
    assert (await bench.settle()).ready["status"] == "True"
    assert len(bench.mine(obj)) == 1


async def test_credentials_never_show(bench: Bench) -> None:
    """No credential and no user data of a secret shows in status or Events, or in output at verbosity 4 (S1)."""
    bench = bench.with_verbosity("-vvvv")
    canaries = {"AWS_ACCESS_KEY_ID": "CANARY1", "AWS_SECRET_ACCESS_KEY": "CANARY2", "AWS_SESSION_TOKEN": "CANARY3"}
    await make_secret(bench, "aws", **canaries)
    await make_secret(bench, "boot", userData="CANARY4")
    obj = await bench.create(credentialsSecretRef={"name": "aws"}, userDataSecretRef={"name": "boot"})
    run = await bench.run()
    assert run.ok, run.output[-3000:]
    (machine,) = bench.mine(obj)
    assert bench.aws.user_data(machine.id) == "CANARY4"
    own = await bench.create(name="own")
    plain = await bench.run(name="own")
    assert len(bench.mine(own)) == 1
    sinks = run.output + plain.output + json.dumps([run.obj, plain.obj]) + json.dumps(await bench.events())
    for canary in (*canaries.values(), "CANARY4", SECRET_KEY, "CANARYaccesskey"):
        assert canary not in sinks


async def test_user_data_of_the_spec_never_shows(bench: Bench) -> None:
    """User data shows neither in a successful nor in a failed run's output, at verbosity 4 (S1)."""
    loud = bench.with_verbosity("-vvvv")
    obj = await bench.create(userData="CANARY5")
    bench.aws.add_fault(Fault(action="RunInstances", code="UnauthorizedOperation", message="no", times=None))
    failed = await loud.run()
    assert (failed.ok, failed.ready["reason"]) == (False, "UnauthorizedOperation")
    assert "UnauthorizedOperation: AWS answered UnauthorizedOperation: no (request id " in failed.output
    bench.aws.clear_faults()
    launched = await loud.run()
    assert launched.ok, launched.output[-3000:]
    (machine,) = bench.mine(obj)
    assert bench.aws.user_data(machine.id) == "CANARY5"
    told = json.dumps([failed.status, launched.status, await bench.events()])
    assert "CANARY5" not in failed.output + launched.output + told


@pytest.mark.full
async def test_missing_user_data_is_named(bench: Bench) -> None:
    """A secret without the key of the user data is named, and nothing is launched."""
    await make_secret(bench, "boot", other="x")
    obj = await bench.create(userDataSecretRef={"name": "boot"})
    run = await bench.run()
    assert (run.ok, run.ready["reason"], run.writes) == (False, "UserDataNotFound", [])
    assert bench.mine(obj) == []


@pytest.mark.full
async def test_region_is_never_guessed(bench: Bench) -> None:
    """Without a region anywhere the object says what to set."""
    await bench.create(region=None)
    run = await bench.run()
    assert (run.ok, run.ready["reason"], list(run.calls)) == (False, "RegionMissing", [])
