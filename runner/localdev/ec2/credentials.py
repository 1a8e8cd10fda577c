"""What clients of the emulator call themselves; it takes any key, but not every key is harmless.

Ansible hides a module's secret wherever it stands in the module's result. A short word such as `testing` would be
hidden within the names of objects, too, so that a role never sees the tags that it has set. AWS's own keys are as long
as these.
"""

from __future__ import annotations

from collections.abc import Mapping

CREDENTIALS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "LOCALEMULATOR0000000",
    "AWS_SECRET_ACCESS_KEY": "emulators-take-any-key/this-is-one/000000",
}
"""For the environment of an operator, or of `aws`."""
_REGION = "us-east-1"


def client_environment(endpoint: str) -> dict[str, str]:
    """Return the variables by which an operator, or `aws`, finds the emulator at *endpoint* and nothing else."""
    return {"AWS_ENDPOINT_URL": endpoint, **CREDENTIALS, "AWS_REGION": _REGION, "AWS_DEFAULT_REGION": _REGION}
