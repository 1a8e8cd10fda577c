"""The typed client of the emulator's control API, for tests and the demo."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote, urlsplit

from runner.errors import ConfigError, LocalPlaneError
from runner.localdev.ec2.config import SimConfig
from runner.localdev.ec2.faults import Fault
from runner.localdev.ec2.records import CallRecord, InstanceRecord

_TIMEOUT = 60.0


class Ec2Control:
    """Steers the emulator behind *endpoint*; safe to use from several threads, each call has its own connection."""

    def __init__(self, endpoint: str) -> None:
        """Talk to the emulator at *endpoint*: `http://127.0.0.1:PORT`."""
        parts = urlsplit(endpoint)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise ConfigError(f"endpoint: {endpoint!r} is no URL of an emulator; it looks like http://127.0.0.1:PORT")
        self._host, self._port = parts.hostname, parts.port

    def health(self) -> bool:
        """Tell whether the emulator answers."""
        try:
            return bool(self._get("/sim/health") == {"status": "ok"})
        except LocalPlaneError:
            return False

    def config(self) -> SimConfig:
        """Return the present settings."""
        return SimConfig(**self._get("/sim/config"))

    def configure(self, **changes: float) -> SimConfig:
        """Change the named settings (see `SimConfig`) and return all."""
        return SimConfig(**self._post("/sim/config", changes))

    def faults(self) -> list[Fault]:
        """Return the faults that are still waiting; `times` is what is left."""
        return [_fault(item) for item in self._get("/sim/faults")]

    def add_fault(self, fault: Fault) -> None:
        """Let the next matching calls go wrong."""
        self._post("/sim/faults", asdict(fault))

    def clear_faults(self) -> None:
        """Drop all faults."""
        self._ask("DELETE", "/sim/faults")

    def calls(self, since: int = 0) -> list[CallRecord]:
        """Return the AWS calls after number *since*, oldest first."""
        return [CallRecord(**item) for item in self._get(f"/sim/calls?since={since}")]

    def last_call(self) -> int:
        """Return the number of the newest call, to be given to `calls` later; 0: none is known."""
        return max((call.sequence for call in self.calls()), default=0)

    def clear_calls(self) -> None:
        """Forget all calls; numbers go on."""
        self._ask("DELETE", "/sim/calls")

    def instances(self) -> list[InstanceRecord]:
        """Return all instances as they really are, the terminated ones too."""
        return [InstanceRecord(**item) for item in self._get("/sim/instances")]

    def instance(self, instance_id: str) -> InstanceRecord:
        """Return one instance as it really is."""
        for found in self.instances():
            if found.id == instance_id:
                return found
        raise LookupError(f"the emulator has no instance {instance_id}")

    def user_data(self, instance_id: str) -> str:
        """Return the user data, decoded: what a simulated machine boots with."""
        return str(self._get(f"/sim/instances/{quote(instance_id, safe='')}/user-data")["user_data"])

    def stop(self, instance_id: str) -> InstanceRecord:
        """Stop an instance behind the caller's back."""
        return self._act(instance_id, verb="stop")

    def start(self, instance_id: str) -> InstanceRecord:
        """Start an instance behind the caller's back."""
        return self._act(instance_id, verb="start")

    def terminate(self, instance_id: str) -> InstanceRecord:
        """Terminate an instance behind the caller's back, termination protection or not."""
        return self._act(instance_id, verb="terminate")

    def interrupt(self, instance_id: str) -> InstanceRecord:
        """Take a spot instance away, as EC2 does when it needs the capacity."""
        return self._act(instance_id, verb="interrupt")

    def reset(self) -> None:
        """Go back to the state after the start: no resources, faults, calls and settings."""
        self._post("/sim/reset", None)

    def _act(self, instance_id: str, *, verb: str) -> InstanceRecord:
        return InstanceRecord(**self._post(f"/sim/instances/{quote(instance_id, safe='')}/{verb}", None))

    def _get(self, path: str) -> Any:
        return self._ask("GET", path)

    def _post(self, path: str, body: Mapping[str, Any] | None) -> Any:
        return self._ask("POST", path, body=body)

    def _ask(self, method: str, path: str, *, body: Mapping[str, Any] | None = None) -> Any:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(dict(body)))
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise LocalPlaneError(
                f"the EC2 emulator at {self._host}:{self._port} does not answer: {error or type(error).__name__}"
            ) from error
        finally:
            connection.close()
        return _value(response.status, data)


def _value(status: int, data: bytes) -> Any:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise LocalPlaneError(f"the EC2 emulator answered {status} without JSON; is it the emulator?") from error
    if status == 404:
        raise LookupError(value["error"])
    if status >= 400:
        raise ConfigError(value["error"])
    return value


def _fault(item: Mapping[str, Any]) -> Fault:
    return Fault(**{key: value for key, value in item.items() if key != "id"})
