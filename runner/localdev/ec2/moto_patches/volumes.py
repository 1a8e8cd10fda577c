"""EBS volumes: client tokens, a state before `available`, and what EC2 refuses of changes and attachments."""

# ruff: noqa: SLF001 - moto's internals are what this package changes
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import elastic_block_store as models
from moto.ec2.responses.elastic_block_store import ElasticBlockStore

from runner.localdev.ec2.client_tokens import ParameterMismatch, fingerprint
from runner.localdev.ec2.moto_patches.current import simulation

_CREATED = "created_moment"
_MODIFIED = "modified_moment"


def patch() -> None:
    """Put the rules of volumes into moto."""
    answers = ElasticBlockStore
    answers.create_volume = _create(answers.create_volume)
    answers.modify_volume = _modify(answers.modify_volume)
    answers.attach_volume = _attach(answers.attach_volume)
    models.Volume.status = _status(models.Volume.status)


def _create(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuse a zone that there is none of, and honour the client token."""

    @functools.wraps(original)
    def create(response: Any) -> Any:
        present = simulation()
        zone = response._get_param("AvailabilityZone")
        if response.ec2_backend.get_zone_by_name(zone) is None:
            raise EC2ClientError("InvalidZone.NotFound", f"The zone '{zone}' does not exist.")

        def execute() -> Any:
            volume = original(response).result
            setattr(volume, _CREATED, present.now())
            return volume

        call = present.call
        token = call.params.get("ClientToken") if call else None
        if call is None or not token:
            return ActionResult(execute())
        try:
            volume = present.tokens.launch(
                ("volume", call.region, token), fingerprint(call), execute=execute, is_terminated=lambda _volume: False
            )
        except ParameterMismatch as error:
            raise EC2ClientError(
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
            ) from error
        return ActionResult(volume)

    return create


def _status(original: Any) -> property:
    """Let a volume that a caller created be `creating` for a while."""

    def status(volume: Any) -> str:
        created = getattr(volume, _CREATED, None)
        if created is not None and simulation().now() - created < simulation().config.creating:
            return "creating"
        return str(original.fget(volume))

    return property(status)


def _modify(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuse to shrink a volume, and to change one again within EC2's six hours."""

    @functools.wraps(original)
    def modify(response: Any) -> Any:
        volume = response.ec2_backend.get_volume(response._get_param("VolumeId"))
        size = response._get_param("Size")
        if size and int(size) < int(volume.size):
            raise EC2ClientError("InvalidParameterValue", "New size cannot be smaller than existing size")
        present = simulation()
        last = getattr(volume, _MODIFIED, None)
        if last is not None and present.now() - last < present.config.modification_pause:
            raise EC2ClientError(
                "VolumeModificationRateExceeded",
                "You've reached the maximum modification rate per volume limit. Wait at least 6 hours between "
                "modifications per EBS volume.",
            )
        answer = original(response)
        setattr(volume, _MODIFIED, present.now())
        return answer

    return modify


def _attach(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuse what EC2 refuses: a volume that isn't free, another zone, an instance on its way, a name in use."""

    @functools.wraps(original)
    def attach(response: Any) -> Any:
        backend = response.ec2_backend
        volume = backend.get_volume(response._get_param("VolumeId"))
        instance = backend.get_instance(response._get_param("InstanceId"))
        device = response._get_param("Device")
        _refuse_attachment(volume, instance, device=device)
        return original(response)

    return attach


def _refuse_attachment(volume: Any, instance: Any, *, device: str) -> None:
    if volume.attachment is not None:
        raise EC2ClientError("VolumeInUse", f"{volume.id} is already attached to an instance")
    if volume.status != "available":
        raise EC2ClientError("IncorrectState", f"{volume.id} is not 'available'.")
    if instance.state not in {"running", "stopped"}:
        raise EC2ClientError("IncorrectState", f"Instance '{instance.id}' is not 'running'.")
    if volume.zone.name != instance.availability_zone:
        message = f"The volume '{volume.id}' is not in the same availability zone as instance '{instance.id}'"
        raise EC2ClientError("InvalidVolume.ZoneMismatch", message)
    if device in instance.block_device_mapping:
        message = f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use"
        raise EC2ClientError("InvalidParameterValue", message)
