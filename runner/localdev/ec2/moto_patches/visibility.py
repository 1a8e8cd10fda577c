"""What callers see: not yet an instance that was just launched, not any more one that is long gone; one more filter."""

# ruff: noqa: SLF001 - moto's internals are what this package changes
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moto.ec2.exceptions import InvalidInstanceIdError
from moto.ec2.models import EC2Backend, instances
from moto.ec2.utils import filter_dict_attribute_mapping, filter_reservations

from runner.localdev.ec2.moto_patches.current import simulation


def patch() -> None:
    """Put the lag into moto."""
    backend = instances.InstanceBackend
    backend.all_reservations = _all_reservations(backend.all_reservations)
    EC2Backend.do_resources_exist = _resources_exist(EC2Backend.do_resources_exist)
    # moto keeps the token with the instance, and answers 500 to who looks for it.
    filter_dict_attribute_mapping["client-token"] = "client_token"


def _visible(instance: Any) -> bool:
    present = simulation()
    state = instance._state
    if present.now() - state.created < present.config.visible_after:
        return False
    return not (state.name == "terminated" and state.since() >= present.config.terminated_visible)


def _all_reservations(original: Callable[[Any], Any]) -> Callable[..., Any]:
    """Leave out instances that EC2 doesn't know yet or any more; every look-up of moto goes through this method."""

    @functools.wraps(original)
    def all_reservations(backend: Any, filters: Any = None) -> Any:
        found = original(backend)
        if not simulation().sees_all:
            for reservation in found:
                reservation.instances = [one for one in reservation.instances if _visible(one)]
            found = [reservation for reservation in found if reservation.instances]
        return found if filters is None else filter_reservations(found, filters)

    return all_reservations


def _resources_exist(original: Callable[[Any, list[str]], Any]) -> Callable[[Any, list[str]], Any]:
    """Refuse tags for unknown instances: moto looks them up and ignores that there are none."""

    @functools.wraps(original)
    def resources_exist(backend: Any, resource_ids: list[str]) -> Any:
        for name in resource_ids:
            if name.startswith("i-") and backend.get_instance_by_id(name) is None:
                raise InvalidInstanceIdError(name)
        return original(backend, resource_ids)

    return resources_exist
