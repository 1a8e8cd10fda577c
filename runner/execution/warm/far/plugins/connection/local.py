"""Ansible's local connection, with Python modules run by the module server, and no shell for what needs none.

It shadows the plugin `local` in the playbook's process. To run one module Ansible starts five shells: for the home
folder, the temporary folder, its rights, the module and the end of the folder. Each is recognised by its exact text,
as ansible-core's shell plugins write it, and done here with the same effects and the same answer; whatever differs by
a character, and whatever goes wrong, is left to Ansible's own plugin. So nothing but the time can tell the two apart.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible import constants, plugins
from ansible.utils.display import Display

if TYPE_CHECKING:
    from runner.execution.warm.far import local_commands, losing, module_client
    from runner.execution.warm.far.shell import Shells
else:
    from ansible_operator_warm import local_commands, losing, module_client
    from ansible_operator_warm.shell import Shells

DOCUMENTATION = """
    name: local
    short_description: execute on controller
    description:
        - This connection plugin allows ansible to execute tasks on the Ansible 'controller' instead of on a
          remote host.
    author: ansible (@core)
    version_added: historical
    options:
        become_success_timeout:
            version_added: '2.19'
            type: int
            default: 10
            description:
                - Number of seconds to wait for become to succeed when enabled.
                - The default will be used if the configured value is less than 1.
            vars:
                - name: ansible_local_become_success_timeout
        become_strip_preamble:
            version_added: '2.19'
            type: bool
            default: true
            description:
                - Strip internal become output preceding command execution. Disable for additional diagnostics.
            vars:
                - name: ansible_local_become_strip_preamble
    extends_documentation_fragment:
        - connection_pipelining
    notes:
        - The remote user is ignored, the user with which the ansible CLI was executed is used instead.
"""


def _own_plugin() -> Any:
    """Return Ansible's plugin of the same name: by its file, as this one takes its place where Ansible looks."""
    name = "ansible_operator_local_of_core"
    if name not in sys.modules:
        path = Path(plugins.__file__).parent / "connection" / "local.py"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python module")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


display = Display()


class Connection(_own_plugin().Connection):  # type: ignore[misc]  # Ansible has no types
    """Ansible's own, and a quicker way where it is known to come to the same."""

    transport = "local"

    def exec_command(  # noqa: PLR0917 - Ansible's interface
        self,
        cmd: Any,
        in_data: bytes | None = None,
        sudoable: bool = True,  # noqa: FBT001, FBT002 - Ansible's interface
    ) -> tuple[int, bytes, bytes]:
        """Run *cmd*."""
        answer = self._quickly(cmd, in_data=in_data)
        if answer is None:
            return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)  # type: ignore[no-any-return]
        return answer

    def _quickly(self, cmd: object, *, in_data: bytes | None) -> tuple[int, bytes, bytes] | None:
        if not isinstance(cmd, str) or self.become or constants.DEFAULT_DEBUG or not constants.DEFAULT_EXECUTABLE:
            return None
        shells = Shells(outer=constants.DEFAULT_EXECUTABLE.split()[0], inner=self._play_context.executable or "")
        known = local_commands.understand(cmd, shells=shells, in_data=in_data)
        cwd = os.fsdecode(self.cwd) if self.cwd else os.getcwd()  # noqa: PTH109 - as text
        if known is None or not Path(shells.outer).exists() or not Path(cwd).is_dir():
            return None
        self._connect()
        try:
            answer = known(cwd)
        except (OSError, module_client.Unreachable):
            return None  # a shell does it from the start, or says what is wrong
        except module_client.Lost as error:
            losing.lose_run(str(error), address=module_client.ADDRESS or "")
        except BaseException:  # the task's time is up
            self._tell(cmd)
            raise
        self._tell(cmd)
        return answer

    def _tell(self, cmd: str) -> None:
        display.vvv(f"EXEC {cmd}", host=self._play_context.remote_addr)
