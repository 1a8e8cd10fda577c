"""What `/sim/config` sets: how long states last, how late a launch is seen, how often something may be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from runner.errors import ConfigError
from runner.localdev.ec2 import bodies


@dataclass(frozen=True, kw_only=True)
class SimConfig:
    """Seconds, unless a line says otherwise; a change holds for what happens after it."""

    pending: float = 1.0
    stopping: float = 0.5
    shutting_down: float = 0.5
    visible_after: float = 0.0
    """From the launch until Describe and calls by id know the instance."""
    terminated_visible: float = 3600.0
    """From the termination until EC2 forgets the instance; `/sim/instances` keeps it."""
    creating: float = 0.5
    """From CreateVolume until the volume is available."""
    modification_pause: float = 21600.0
    """For which EC2 refuses to modify a volume again."""
    bucket_tags: float = 1.0
    """Not seconds: 1 gives a bucket the tags of its CreateBucket, as AWS does; 0 drops them, as some endpoints do."""
    rate: float = 0.0
    """Calls of EC2 a second, after `burst` of them; more are answered RequestLimitExceeded. 0: no limit."""
    burst: float = 10.0
    """Calls."""

    def duration(self, state: str) -> float:
        """Return how long a passing *state* lasts."""
        return {"pending": self.pending, "stopping": self.stopping, "shutting-down": self.shutting_down}.get(state, 0.0)


_KEYS = tuple(field.name for field in fields(SimConfig))


def parse_config(body: bytes, *, base: SimConfig) -> SimConfig:
    """Return *base* with the values that *body* names."""
    given: Mapping[str, Any] = bodies.json_object(body, known=_KEYS)
    config = SimConfig(**{key: bodies.seconds(given, key, default=default) for key, default in asdict(base).items()})
    if config.rate and config.burst < 1:
        raise ConfigError(f"burst: must be at least 1 where a rate is set, not {config.burst:g}")
    return config
