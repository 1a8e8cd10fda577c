"""Whether a cold run could start: the interpreter for plays is there and has ansible-core and ansible-runner.

Start-up refuses an environment without them; this is for the readiness probe where start-up could not look in time,
or where there was none.
"""

from __future__ import annotations

import asyncio

from runner.errors import OperatorError
from runner.execution.command import ansible_python
from runner.execution.environment import read_facts, refuse
from runner.settings import ExecutionSettings

_PATIENCE = 30.0


async def missing_for_plays(settings: ExecutionSettings) -> str | None:
    """Return None where plays can run, else a sentence that says what is missing."""
    try:
        interpreter = ansible_python(settings)
        async with asyncio.timeout(_PATIENCE):
            refuse(await read_facts(interpreter, settings=settings, roots=["ansible-core", "ansible-runner"]))
    except OperatorError as error:
        return str(error)
    except TimeoutError:
        return f"{interpreter} did not say within {_PATIENCE:g} s whether it has Ansible"
    return None
