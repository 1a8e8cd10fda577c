"""The cloud behind the API: what really is there, and what happens to it without a call."""

# ruff: noqa: SLF001 - moto's internals are what this package changes
from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import StateReason

from runner.errors import ConfigError
from runner.localdev.ec2.moto_patches import application
from runner.localdev.ec2.moto_patches.current import simulation
from runner.localdev.ec2.records import InstanceRecord

_FROM = {"stop": {"running"}, "start": {"stopped"}, "terminate": {"pending", "running", "stopping", "stopped"}}
_FROM["interrupt"] = {"pending", "running"}


class MotoCloud:
    """The cloud that the control API sees."""

    def __init__(self, application: Any) -> None:
        """Take moto's WSGI *application*, to be warmed up again after a reset."""
        self._application = application

    def instances(self) -> list[InstanceRecord]:
        """Return all instances of all regions, in the order of their launch, the terminated ones too."""
        with simulation().out_of_band():
            return [_record(instance) for instance in _all()]

    def user_data(self, instance_id: str) -> str:
        """Return the user data as the instance would read it: what a simulated machine boots with."""
        with simulation().out_of_band():
            data = _find(instance_id).user_data
            return "" if data is None else base64.b64decode(str(data)).decode("utf-8", "replace")

    def act(self, instance_id: str, *, verb: str) -> InstanceRecord:
        """Stop, start, terminate or interrupt (spot) an instance as somebody else would, and return it afterwards."""
        with simulation().out_of_band():
            instance = _find(instance_id)
            if instance.state not in _FROM[verb]:
                needed = " or ".join(sorted(_FROM[verb]))
                raise ConfigError(f"{verb}: {instance_id} is {instance.state}; it must be {needed}")
            if verb == "interrupt":
                _interrupt(instance)
            else:
                getattr(instance, verb)()
            return _record(instance)

    def reset(self) -> None:
        """Forget everything that was created in moto."""
        with simulation().out_of_band():
            application.reset()
            application.warm_up(self._application)


def _interrupt(instance: Any) -> None:
    if instance.lifecycle != "spot":
        raise ConfigError(f"interrupt: {instance.id} is no spot instance; use terminate")
    instance.terminate()
    code = "Server.SpotInstanceTermination"
    instance.state_reason = StateReason(f"{code}: Spot instance termination", code)
    instance._reason = instance._reason.replace("User initiated", "Server.SpotInstanceTermination")


def _all() -> Iterator[Any]:
    for account in list(ec2_backends.values()):
        for backend in list(account.values()):
            for reservation in list(backend.reservations.values()):
                yield from reservation.instances


def _find(instance_id: str) -> Any:
    for instance in _all():
        if instance.id == instance_id:
            return instance
    raise LookupError(f"there is no instance {instance_id}")


def _record(instance: Any) -> InstanceRecord:
    return InstanceRecord(
        id=instance.id,
        region=instance.region_name,
        state=instance.state,
        type=instance.instance_type,
        image=instance.image_id or "",
        zone=instance.availability_zone or "",
        subnet=instance.subnet_id or "",
        private_ip=instance.private_ip or "",
        public_ip=instance.public_ip or "",
        key_name=instance.key_name or "",
        lifecycle=instance.lifecycle or "",
        state_reason=instance.state_reason.code,
        client_token=instance.client_token or "",
        launch_time=instance.launch_time.isoformat(),
        tags={tag["key"]: tag["value"] for tag in instance.get_tags()},
    )
