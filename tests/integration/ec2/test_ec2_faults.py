"""Faults on request, throttling and the call log, seen with boto3."""

from __future__ import annotations

import hashlib
import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from runner.errors import ConfigError
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.faults import Fault
from runner.testing.waiting import eventually
from tests.integration.ec2.conftest import Client, Launch, refused


def test_a_fault_hits_so_many_calls(ec2: Any, control: Ec2Control) -> None:
    """A fault gives its code, message and status to as many calls as it says, then is gone."""
    control.add_fault(Fault(action="DescribeVpcs", code="Oops", message="not <now>", status=418, times=2))
    for left in (1, 0):
        with refused("Oops", status=418, match="not <now>"):
            ec2.describe_vpcs()
        assert [fault.times for fault in control.faults()] == [left] * bool(left)
    ec2.describe_vpcs()


def test_no_capacity_for_one_type(control: Ec2Control, launch: Launch) -> None:
    """A fault that matches a parameter leaves other calls alone; without an end it stays until deleted."""
    fault = Fault(
        action="RunInstances", code="InsufficientInstanceCapacity", times=None, match={"InstanceType": "m6i.large"}
    )
    control.add_fault(fault)
    for _ in range(3):
        with refused("InsufficientInstanceCapacity", status=500):
            launch(InstanceType="m6i.large")
    launch(InstanceType="t3.micro")
    assert control.faults() == [fault]
    control.clear_faults()
    launch(InstanceType="m6i.large")


def test_matching_any_place_in_a_list(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """A match with * in its key finds an id wherever it stands in the request."""
    first, second = launch()["InstanceId"], launch()["InstanceId"]
    control.add_fault(Fault(action="TerminateInstances", code="UnauthorizedOperation", match={"InstanceId.*": second}))
    ec2.terminate_instances(InstanceIds=[first])
    with refused("UnauthorizedOperation", status=403):
        ec2.terminate_instances(InstanceIds=[first, second])


def test_a_lost_answer(control: Ec2Control, launch: Launch) -> None:
    """The call is carried out although its caller gets an error; the retry with the token finds the instance."""
    control.add_fault(Fault(action="RunInstances", code="InternalError", after=True))
    with refused("InternalError", status=500):
        launch(ClientToken="one")
    there = control.instances()
    assert len(there) == 1
    assert launch(ClientToken="one")["InstanceId"] == there[0].id
    first = control.calls()[0]
    assert (first.status, first.code, first.executed) == (500, "InternalError", True)


def test_a_dropped_connection(control: Ec2Control, launch: Launch) -> None:
    """The call is carried out and its connection closed without an answer."""
    control.add_fault(Fault(action="RunInstances", drop=True))
    with pytest.raises(ConnectionClosedError):
        launch(ClientToken="one")
    assert len(control.instances()) == 1
    assert launch(ClientToken="one")["InstanceId"] == control.instances()[0].id
    assert [(call.status, call.executed) for call in control.calls()] == [(0, True), (200, True)]


async def test_a_slow_call_holds_up_no_other(ec2: Any, control: Ec2Control) -> None:
    """While one call waits, others of the same action are answered; deleting the faults lets it go on."""
    control.add_fault(Fault(action="DescribeVpcs", delay=3600))
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ec2.describe_vpcs)
        await eventually(lambda: not control.faults())
        ec2.describe_vpcs()
        assert not slow.done()
        assert [call.status for call in control.calls()] == [None, 200]
        control.clear_faults()
        assert slow.result(timeout=60)["Vpcs"]


def test_every_action(ec2: Any, client: Client, control: Ec2Control) -> None:
    """A fault for * hits calls of all services, each in its own wire format."""
    control.add_fault(Fault(action="*", code="AccessDenied", message="no", times=None))
    calls = [
        ec2.describe_vpcs,
        client("iam").list_roles,
        client("sts").get_caller_identity,
        client("s3").list_buckets,
        client("ssm").describe_parameters,
    ]
    for call in calls:
        with refused("AccessDenied", status=403, match="no"):
            call()
    assert {call.code for call in control.calls()} == {"AccessDenied"}


def test_throttling(ec2: Any, client: Client, control: Ec2Control) -> None:
    """More calls than the burst get RequestLimitExceeded with 503; other services are free; 0 lifts the limit."""
    control.configure(rate=1e-9, burst=2)
    ec2.describe_vpcs()
    ec2.describe_vpcs()
    with refused("RequestLimitExceeded", status=503):
        ec2.describe_vpcs()
    client("sts").get_caller_identity()
    control.configure(rate=0)
    ec2.describe_vpcs()


def test_a_throttled_call_uses_up_no_fault(ec2: Any, control: Ec2Control) -> None:
    """A call that is throttled doesn't count for a fault."""
    control.configure(rate=1e-9, burst=1)
    ec2.describe_vpcs()
    control.add_fault(Fault(action="DescribeVpcs", code="Oops"))
    with refused("RequestLimitExceeded", status=503):
        ec2.describe_vpcs()
    assert len(control.faults()) == 1


def test_the_call_log(ec2: Any, client: Client, control: Ec2Control, launch: Launch) -> None:
    """Each call is told in order, with service, action, read or write, parameters and outcome."""
    since = control.last_call()
    instance = launch(ClientToken="one")["InstanceId"]
    ec2.describe_instances(InstanceIds=[instance])
    client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")
    client("sts").get_caller_identity()
    s3 = client("s3")
    s3.create_bucket(Bucket="data")
    s3.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="data", Key="a/b", Body=b"x")
    s3.get_object(Bucket="data", Key="a/b")["Body"].read()
    client("ssm").put_parameter(Name="p", Value="hush", Type="SecureString")
    calls = control.calls(since)
    assert [(call.service, call.action, call.write) for call in calls] == [
        ("ec2", "RunInstances", True),
        ("ec2", "DescribeInstances", False),
        ("iam", "CreateRole", True),
        ("sts", "GetCallerIdentity", False),
        ("s3", "CreateBucket", True),
        ("s3", "PutBucketVersioning", True),
        ("s3", "PutObject", True),
        ("s3", "GetObject", False),
        ("ssm", "PutParameter", True),
    ]
    assert [call.sequence for call in calls] == list(range(calls[0].sequence, calls[0].sequence + 9))
    assert {(call.status, call.code, call.executed) for call in calls} == {(200, "", True)}
    assert (calls[0].params["ClientToken"], calls[0].region) == ("one", "us-east-1")
    assert calls[1].params["InstanceId.1"] == instance
    assert "hush" not in str(calls)


def test_user_data_is_told_by_its_digest(ec2: Any, control: Ec2Control, launch: Launch) -> None:
    """User data is in the log as length and SHA-256 only; a simulated machine reads it on the side."""
    text = "#!/bin/sh\necho token"
    instance = launch(UserData=text)["InstanceId"]
    ec2.stop_instances(InstanceIds=[instance])
    ec2.modify_instance_attribute(InstanceId=instance, UserData={"Value": text.encode()})
    digest = {"length": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    launched, _, modified = control.calls()
    assert launched.params["UserData"] == digest
    assert modified.params["UserData.Value"] == digest
    assert control.user_data(instance) == text
    assert len(control.calls()) == 3


def test_refused_calls_are_told_with_their_code(control: Ec2Control, describe: Any) -> None:
    """A call that moto refuses is in the log with the code that its caller saw."""
    with refused("InvalidInstanceID.NotFound"):
        describe("i-0123456789abcdef0")
    call = control.calls()[0]
    assert (call.status, call.code, call.executed) == (400, "InvalidInstanceID.NotFound", False)


def test_numbers_go_on_after_clearing(ec2: Any, control: Ec2Control) -> None:
    """A cleared log starts empty, and its numbers never come twice."""
    ec2.describe_vpcs()
    last = control.last_call()
    control.clear_calls()
    assert control.calls() == []
    ec2.describe_vpcs()
    assert [call.sequence for call in control.calls(last)] == [last + 1]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"code": "Oops"}, "action"),
        ({"action": "RunInstances"}, "code"),
        ({"action": "RunInstances", "after": True, "delay": 1}, "code"),
        ({"action": "RunInstances", "drop": True, "code": "Oops"}, "drop"),
        ({"action": "RunInstances", "code": "Oops", "times": 0}, "times"),
        ({"action": "RunInstances", "code": "Oops", "times": True}, "times"),
        ({"action": "RunInstances", "code": "Oops", "status": 200}, "status"),
        ({"action": "RunInstances", "code": "Oops", "delay": -1}, "delay"),
        ({"action": "RunInstances", "code": "Oops", "after": "yes"}, "after"),
        ({"action": "RunInstances", "code": "Oops", "match": {"MinCount": 1}}, "match"),
        ({"action": 1, "code": "Oops"}, "action"),
        ({"action": "RunInstances", "code": "Oops", "probability": 0.5}, "probability"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value),
)
def test_wrong_faults(endpoint: str, control: Ec2Control, body: dict[str, Any], field: str) -> None:
    """A wrong fault is refused with a sentence that starts with the field."""
    status, answer = _post(endpoint, "/sim/faults", json.dumps(body))
    assert status == 400
    assert answer["error"].startswith(f"{field}: ")
    assert control.faults() == []


def test_wrong_settings(endpoint: str, control: Ec2Control) -> None:
    """Wrong settings are refused with the field's name and change nothing."""
    before = control.config()
    for key, value in [("pending", -1), ("pending", "long"), ("colour", 1), ("burst", 0)]:
        status, answer = _post(endpoint, "/sim/config", json.dumps({"rate": 1, key: value}))
        assert (status, answer["error"].split(":")[0]) == (400, key)
    for text in ("", "{", "[]"):
        assert _post(endpoint, "/sim/config", text)[0] == 400
    assert control.config() == before
    with pytest.raises(ConfigError, match="pending"):
        control.configure(pending=-1)


def test_unknown_paths(endpoint: str, control: Ec2Control) -> None:
    """A path that the control API doesn't know is answered with those that it knows."""
    status, answer = _post(endpoint, "/sim/nothing", "")
    assert status == 404
    assert "POST /sim/reset" in answer["error"]
    with pytest.raises(LookupError, match="no instance i-1"):
        control.stop("i-1")


def _post(endpoint: str, path: str, body: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"))
    try:
        connection.request("POST", path, body=body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()
