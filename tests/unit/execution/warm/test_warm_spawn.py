"""A playbook is started in the ordinary way where it can't be forked."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, sys
from pathlib import Path
from runner.execution.warm.far import spawn
class Same:
    def why_not(self, environ, *, cwd):
        return None
told = []
spare = spawn.Spare()
os.kill(spare.pid, signal.SIGKILL)
os.waitid(os.P_PID, spare.pid, os.WEXITED | os.WNOWAIT)
spawn.PlaybookSpawn.spare, spawn.PlaybookSpawn.imported, spawn.PlaybookSpawn.tell = spare, Same(), told.append
program = str(Path(sys.executable).with_name("ansible-playbook"))
child = spawn.PlaybookSpawn(
    program, ["--version"], env=dict(os.environ), cwd="/", echo=False, encoding="utf-8", ignore_sighup=True, timeout=60
)
print(child.read().split()[0], len(told), told)
child.close()
print(child.exitstatus, Path(f"/proc/{spare.pid}").exists())
"""


def test_a_playbook_whose_process_is_gone_is_started() -> None:
    """The kernel may end what stands by; then a new process plays, the reason is told, and no zombie stays."""
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    first, second = said.splitlines()
    assert first.startswith("ansible-playbook 1 ['the process that stood by for it is gone")
    assert second == "0 False"
