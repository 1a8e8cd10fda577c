"""The far side of warm runs: a fork server on the interpreter that has Ansible, started by `runner.execution.warm`.

It is loaded from this folder under the name of `PACKAGE`, without the operator's package around it, as that
interpreter may not have the operator's packages. So its modules import the standard library, ansible-core,
ansible-runner and each other (relatively), and nothing else; third-party libraries are only preloaded by name.

Processes, each forked from the one above it:

    play server     imports what plays use, fills Ansible's caches; one child per run            server
      runner        the ordinary ansible-runner command line, in a session of its own            runner_child
        playbook    the ordinary ansible-playbook command line, on a pty                         playbook_child
          worker    ansible-core's own, one per task and host
      module server forked before Ansible is imported; has modules' libraries loaded             module_server
        module      one module, forked for a worker that asked through the connection plugin     module_child
"""

PACKAGE = "ansible_operator_warm"
"""The name of this package on the far side; the connection plugin, which Ansible loads as a file, finds it there."""
