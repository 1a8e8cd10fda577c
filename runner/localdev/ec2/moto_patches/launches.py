"""RunInstances: checked names, client tokens, and what moto leaves out of a launch."""

# ruff: noqa: SLF001 - moto's internals are what this package changes
from __future__ import annotations

import base64
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from moto.core.responses import ActionResult
from moto.core.types import Base64EncodedString
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends, instances
from moto.ec2.responses import instances as responses
from moto.ec2.responses.instances import InstanceResponse

from runner.localdev.ec2.aws_request import Call
from runner.localdev.ec2.client_tokens import InstanceTerminated, ParameterMismatch, fingerprint
from runner.localdev.ec2.moto_patches.current import simulation as current_simulation
from runner.localdev.ec2.moto_patches.launch_checks import refuse_unknown
from runner.localdev.ec2.simulation import Simulation

_ROOT_SIZE = 8
_DEVICE = re.compile(r"^BlockDeviceMapping\.\d+\.DeviceName$")


def patch() -> None:
    """Put the rules of a launch into moto."""
    InstanceResponse.run_instances = _run_instances(InstanceResponse.run_instances)
    instances.InstanceBackend.run_instances = _launch(instances.InstanceBackend.run_instances)
    instances.Instance.setup_defaults = _setup_defaults
    responses.parse_user_data = _parse_user_data(responses.parse_user_data)


def _run_instances(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuse what EC2 refuses, and honour the client token."""

    @functools.wraps(original)
    def run_instances(response: Any) -> Any:
        simulation = current_simulation()
        call = simulation.call
        with simulation.seeing_all():
            refuse_unknown(response)
            if call is None or call.dry_run:
                return original(response)
            return ActionResult(_launch_once(simulation, call, launch=lambda: _finished(response, original)))

    return run_instances


def _launch_once(simulation: Simulation, call: Call, *, launch: Callable[[], Any]) -> Any:
    token = call.params.get("ClientToken")
    if not token:
        return launch()
    try:
        return simulation.tokens.launch(
            token_key(call),
            fingerprint(call),
            execute=launch,
            is_terminated=lambda launched: all(one.state == "terminated" for one in launched.instances),
        )
    except ParameterMismatch as error:
        raise _mismatch() from error
    except InstanceTerminated as error:
        raise EC2ClientError(
            "IdempotentInstanceTerminated",
            "The client token you have provided is associated with a terminated instance. "
            "Please use a different client token.",
        ) from error


def _mismatch() -> EC2ClientError:
    return EC2ClientError(
        "IdempotentParameterMismatch",
        "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
    )


def token_key(call: Call) -> tuple[str, str, str]:
    """Return where a launch's token holds: region, zone (empty where the request leaves it open) and token."""
    zone = str(call.params.get("Placement.AvailabilityZone", ""))
    if not zone and (subnet := call.params.get("SubnetId") or call.params.get("NetworkInterface.1.SubnetId")):
        zone = next((one.availability_zone for one in _subnets(call.region) if one.id == subnet), "")
    return call.region, zone, str(call.params.get("ClientToken", ""))


def _subnets(region: str) -> Iterator[Any]:
    for account in list(ec2_backends.values()):
        if region in account:
            for by_zone in account[region].subnets.values():
                yield from by_zone.values()


def _finished(response: Any, original: Callable[[Any], Any]) -> Any:
    """Launch, and add what moto leaves out of a launch."""
    reservation = original(response).result
    specified = {int(one["DeviceIndex"]): one for one in response._get_param("NetworkInterfaces", [])}
    for instance in reservation.instances:
        # Without a group named, EC2 takes the default one of the network; moto shows it on the interface only.
        instance.security_groups = instance.security_groups or list(instance.nics[0].group_set)
        # moto knows the attribute, but not as a parameter of RunInstances.
        instance.disable_api_termination = response._get_param("DisableApiTermination") or False
        for interface in instance.nics.values():
            given = specified.get(interface.device_index, {})
            if "NetworkInterfaceId" not in given:
                # EC2 deletes what the launch created; moto would leave the interface for ever.
                interface.delete_on_termination = given.get("DeleteOnTermination", True)
    return reservation


def _launch(original: Callable[..., Any]) -> Callable[..., Any]:
    """Launch MaxCount instances, as capacity is endless here, each with a root volume."""

    @functools.wraps(original)
    def launch(backend: Any, image_id: str, count: int, *others: Any, **options: Any) -> Any:  # noqa: PLR0917 - moto's own signature
        simulation = current_simulation()
        call = simulation.call
        if call is not None and call.action == "RunInstances":
            count = max(count, int(call.params.get("MaxCount", count)))
            if "block_device_mappings" in options and image_id in backend.amis:
                root = backend.amis[image_id].root_device_name
                options["block_device_mappings"] = _with_root(options["block_device_mappings"], call=call, root=root)
        with simulation.seeing_all():
            return original(backend, image_id, count, *others, **options)

    return launch


def _parse_user_data(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Take the user data of ModifyInstanceAttribute: moto has decoded it, and expects it to be encoded still."""

    @functools.wraps(original)
    def parse(value: Any) -> Any:
        if isinstance(value, bytes):
            return Base64EncodedString(base64.b64encode(value).decode("ascii"))
        return original(value)

    return parse


def _setup_defaults(instance: Any) -> None:
    """Attach the root volume where the image has it: moto always says /dev/sda1."""
    volume = instance.ec2_backend.create_volume(size=_ROOT_SIZE, zone_name=instance.availability_zone)
    instance.ec2_backend.attach_volume(volume.id, instance.id, instance.root_device_name, True)  # noqa: FBT003 - moto's


def _with_root(mappings: list[dict[str, Any]], *, call: Call, root: str) -> list[dict[str, Any]]:
    """Add the root volume that the request leaves to the image, and delete it on termination unless told otherwise."""
    named = {str(value): key.removesuffix(".DeviceName") for key, value in call.params.items() if _DEVICE.match(key)}
    if root not in named:
        mappings = [{"DeviceName": root, "NoDevice": None, "Ebs": {"VolumeSize": _ROOT_SIZE}}, *mappings]
    for mapping in mappings:
        if mapping["DeviceName"] == root and f"{named.get(root)}.Ebs.DeleteOnTermination" not in call.params:
            mapping["Ebs"]["DeleteOnTermination"] = True
    return mappings
