"""The control API under `/sim/`: JSON over HTTP for tests and the demo; nothing here counts as a call of AWS."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Protocol
from urllib.parse import parse_qsl

from runner.errors import ConfigError
from runner.localdev.ec2.answers import Answer, json_answer
from runner.localdev.ec2.config import parse_config
from runner.localdev.ec2.faults import parse_fault
from runner.localdev.ec2.records import InstanceRecord
from runner.localdev.ec2.simulation import Simulation

VERBS = ("stop", "start", "terminate", "interrupt")
_ONE_INSTANCE = re.compile(r"^/sim/instances/(?P<id>[^/]+)/(?P<verb>[a-z-]+)$")


class Cloud(Protocol):
    """The truth behind the API (`moto_patches.cloud`)."""

    def instances(self) -> list[InstanceRecord]:
        """Return all instances."""
        ...

    def user_data(self, instance_id: str) -> str:
        """Return an instance's user data; LookupError: there is no such instance."""
        ...

    def act(self, instance_id: str, *, verb: str) -> InstanceRecord:
        """Change an instance; LookupError as above, ConfigError: not in this state."""
        ...

    def reset(self) -> None:
        """Forget all resources."""
        ...


class ControlApi:
    """Answers requests under `/sim/`."""

    def __init__(self, simulation: Simulation, cloud: Cloud) -> None:
        """Control *simulation* and *cloud*."""
        self._simulation = simulation
        self._cloud = cloud
        self._routes: dict[tuple[str, str], Callable[[bytes, str], Answer]] = {
            ("GET", "/sim/health"): lambda _body, _query: json_answer({"status": "ok"}),
            ("GET", "/sim/config"): lambda _body, _query: json_answer(asdict(simulation.config)),
            ("POST", "/sim/config"): self._configure,
            ("GET", "/sim/faults"): lambda _body, _query: json_answer(simulation.faults.waiting()),
            ("POST", "/sim/faults"): lambda body, _query: json_answer(simulation.faults.add(parse_fault(body))),
            ("DELETE", "/sim/faults"): lambda _body, _query: self._done(simulation.faults.clear),
            ("GET", "/sim/calls"): self._calls,
            ("DELETE", "/sim/calls"): lambda _body, _query: self._done(simulation.calls.clear),
            ("GET", "/sim/instances"): lambda _body, _query: json_answer([asdict(one) for one in cloud.instances()]),
            ("POST", "/sim/reset"): lambda _body, _query: self._done(self._reset),
        }

    def answer(self, method: str, path: str, *, query: str, body: bytes) -> Answer:
        """Return the answer to a request; one that is wrong gets a sentence that says how to put it right."""
        try:
            return self._route(method, path)(body, query)
        except ConfigError as error:
            return json_answer({"error": str(error)}, status=400)
        except LookupError as error:
            return json_answer({"error": str(error.args[0])}, status=404)

    def _route(self, method: str, path: str) -> Callable[[bytes, str], Answer]:
        if route := self._routes.get((method, path)):
            return route
        if match := _ONE_INSTANCE.match(path):
            instance_id, verb = match["id"], match["verb"]
            if method == "POST" and verb in VERBS:
                return lambda _body, _query: json_answer(asdict(self._cloud.act(instance_id, verb=verb)))
            if method == "GET" and verb == "user-data":
                return lambda _body, _query: json_answer({"user_data": self._cloud.user_data(instance_id)})
        known = ", ".join(f"{one} {where}" for one, where in self._routes)
        raise LookupError(
            f"{method} {path} is not known; known are {known}, POST /sim/instances/<id>/({'|'.join(VERBS)}) and "
            "GET /sim/instances/<id>/user-data"
        )

    def _configure(self, body: bytes, _query: str) -> Answer:
        self._simulation.configure(parse_config(body, base=self._simulation.config))
        return json_answer(asdict(self._simulation.config))

    def _calls(self, _body: bytes, query: str) -> Answer:
        values = dict(parse_qsl(query, keep_blank_values=True))
        since = values.pop("since", "0")
        if values:
            raise ConfigError(f"{', '.join(values)}: unknown parameter; known is since")
        if not since.isdecimal():
            raise ConfigError(f"since: must be a call's number, not {since!r}")
        return json_answer([asdict(record) for record in self._simulation.calls.since(int(since))])

    def _reset(self) -> None:
        self._cloud.reset()
        self._simulation.reset()

    @staticmethod
    def _done(action: Callable[[], None]) -> Answer:
        action()
        return json_answer({"status": "ok"})
