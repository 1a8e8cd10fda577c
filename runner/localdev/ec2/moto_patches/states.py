"""States that take time, changes that EC2 refuses in a state, and no address before the start."""

# ruff: noqa: SLF001 - moto's internals are what this package changes
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moto.ec2.exceptions import EC2ClientError, OperationNotPermitted4
from moto.ec2.models import elastic_network_interfaces as interfaces
from moto.ec2.models import instances
from moto.ec2.responses.instances import InstanceResponse

from runner.localdev.ec2.lifecycle import LifecycleState
from runner.localdev.ec2.moto_patches.current import simulation


def _lifecycle_state(name: str = "pending", code: int = 0) -> LifecycleState:
    """Stand in for moto's class: the number is the name's, the time is the simulation's."""
    return LifecycleState(name, now=_now, duration=_duration)


def _now() -> float:
    return simulation().now()


def _duration(state: str) -> float:
    return simulation().config.duration(state)


def patch() -> None:
    """Put the states into moto."""
    instances.InstanceState = _lifecycle_state
    interfaces.NetworkInterface.public_ip = property(_public_ip, _set_public_ip)
    interfaces.NetworkInterface.association = _association(interfaces.NetworkInterface.association)
    one = instances.Instance
    one.start = _once(one.start, target="running")
    one.stop = _once(one.stop, target="stopped")
    one.terminate = _once(one.terminate, target="terminated")
    many = instances.InstanceBackend
    many.start_instances = _checked(many.start_instances, refuse=_refuse_start)
    many.stop_instances = _checked(many.stop_instances, refuse=_refuse_stop)
    many.reboot_instances = _checked(many.reboot_instances, refuse=_refuse_reboot)
    many.terminate_instances = _terminate(many.terminate_instances)
    answers = InstanceResponse
    # A repeated launch tells the present state; moto writes pending into every answer.
    answers.RESPONSE_KEY_PATH_TO_TRANSFORMER.pop("RunInstances.Reservation.Instances.Instance.State")
    answers.start_instances = _with_present_state(answers.start_instances, key="StartingInstances")
    answers.stop_instances = _with_present_state(answers.stop_instances, key="StoppingInstances")
    answers.terminate_instances = _with_present_state(answers.terminate_instances, key="TerminatingInstances")


def _once(original: Callable[[Any], Any], *, target: str) -> Callable[[Any], Any]:
    """Do nothing where the instance is there already: moto would give it a new address or fail on its volumes."""

    @functools.wraps(original)
    def change(instance: Any) -> Any:
        state = instance._state
        return state.__copy__() if state.target == target else original(instance)

    return change


def _checked(
    original: Callable[[Any, list[str]], Any], *, refuse: Callable[[Any], None]
) -> Callable[[Any, list[str]], Any]:
    """Look at all instances before the first is changed: one that cannot change fails the whole request."""

    @functools.wraps(original)
    def change(backend: Any, instance_ids: list[str]) -> Any:
        for instance in backend.get_multi_instances_by_id(instance_ids):
            refuse(instance)
        return original(backend, instance_ids)

    return change


def wrong_state(message: str) -> EC2ClientError:
    """Return EC2's refusal of a change that doesn't go with the state."""
    return EC2ClientError("IncorrectInstanceState", message)


def _refuse_start(instance: Any) -> None:
    if instance.state not in {"stopped", "pending", "running"}:
        raise wrong_state(f"The instance '{instance.id}' is not in a state from which it can be started.")


def _refuse_stop(instance: Any) -> None:
    if instance.state == "pending":
        raise wrong_state(f"Instance '{instance.id}' cannot be stopped as it has never reached the 'running' state.")
    if instance.state not in {"running", "stopping", "stopped"}:
        raise wrong_state(f"This instance '{instance.id}' is not in a state from which it can be stopped.")


def _refuse_reboot(instance: Any) -> None:
    if instance.state not in {"running", "pending"}:
        raise wrong_state(f"The instance '{instance.id}' is not in a state from which it can be rebooted.")


def _terminate(original: Callable[[Any, list[str]], Any]) -> Callable[[Any, list[str]], Any]:
    """Spare the whole zone of a protected instance, and terminate the rest, before the request is refused."""

    @functools.wraps(original)
    def terminate(backend: Any, instance_ids: list[str]) -> Any:
        chosen = backend.get_multi_instances_by_id(instance_ids)
        protected = [one for one in chosen if str(one.disable_api_termination).lower() == "true"]
        if not protected:
            return original(backend, instance_ids)
        zones = {one.availability_zone for one in protected}
        if rest := [one.id for one in chosen if one.availability_zone not in zones]:
            original(backend, rest)
        raise OperationNotPermitted4(protected[0].id)

    return terminate


def _with_present_state(original: Callable[[Any], Any], *, key: str) -> Callable[[Any], Any]:
    """Answer with the state that Describe shows: moto writes a constant."""

    @functools.wraps(original)
    def answer(response: Any) -> Any:
        result = original(response)
        for item in result.result[key]:
            state = response.ec2_backend.get_instance(item["InstanceId"]).instance_state
            item["CurrentState"] = {"Code": state.code, "Name": state.name}
        return result

    return answer


def _public_ip(interface: Any) -> str | None:
    """Hide the address of an instance that isn't up yet."""
    if interface.instance is not None and interface.instance.state == "pending":
        return None
    address: str | None = interface.__dict__.get("public_ip")
    return address


def _set_public_ip(interface: Any, value: str | None) -> None:
    interface.__dict__["public_ip"] = value


def _association(original: Any) -> property:
    """Leave out the association of an interface that has no address: moto writes an empty one."""
    return property(lambda interface: original.fget(interface) or None)
