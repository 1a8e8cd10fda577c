"""Times as Kubernetes writes them: RFC 3339, whole seconds, `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def parse(text: object) -> datetime | None:
    """Return the time, None where there is none or it can't be read."""
    try:
        value = datetime.fromisoformat(str(text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def render(value: datetime) -> str:
    """Return it as `2026-11-29T14:40:25Z`."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def normal(text: object) -> str | None:
    """Return a time in any ISO form as Kubernetes writes it."""
    value = parse(text)
    return render(value) if value else None


def age(text: object, *, now: datetime) -> float:
    """Return the seconds since *text*; infinite where there is no such time."""
    value = parse(text)
    return (now - value).total_seconds() if value else float("inf")
