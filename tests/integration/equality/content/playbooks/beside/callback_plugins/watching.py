"""A callback beside a playbook, which prints and writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: watching
type: aggregate
short_description: Prints and writes
description: [For tests.]
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Sees what happens."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "watching"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Print, and change the environment of all that follows."""
        self._display.display(f"watching {Path(playbook._file_name).name}")
        os.environ["FROM_CALLBACK"] = "seen"

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: FBT001, FBT002 - Ansible's
        """Print."""
        self._display.display(f"watching a failure, ignored: {ignore_errors}")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Print."""
        self._display.display(f"watching the end of {sorted(stats.processed)}", stderr=True)
