"""What the control API tells: one call, one instance; the same values on the server's and on the client's side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class CallRecord:
    """One call of the AWS API, as the call log keeps it."""

    sequence: int
    time: float
    """Seconds since the epoch, at arrival."""
    service: str
    region: str
    action: str
    write: bool
    params: Mapping[str, Any] = field(default_factory=dict)
    """Without secrets; user data is `{"length": ..., "sha256": ...}`."""
    status: int | None = None
    """The HTTP status that the caller saw; None while the call runs, 0 where the connection was closed instead."""
    code: str = ""
    """The error code that the caller saw."""
    executed: bool | None = None
    """Whether the cloud carried it out, whatever the caller saw; None while the call runs."""


@dataclass(frozen=True, kw_only=True)
class InstanceRecord:
    """One instance as it really is, regardless of `visible_after`."""

    id: str
    region: str
    state: str
    type: str
    image: str
    zone: str
    subnet: str
    private_ip: str
    public_ip: str
    """Empty while it has none."""
    key_name: str
    lifecycle: str
    """`spot` or empty."""
    state_reason: str
    client_token: str
    launch_time: str
    """ISO 8601, UTC."""
    tags: Mapping[str, str] = field(default_factory=dict)
