"""Warm runs: ansible-runner and ansible-playbook forked from processes that have everything loaded.

The near side (this package) is part of the operator: it starts the fork server, hands runs to it, replaces and restarts
it. The far side (`far/`) runs on the interpreter that has Ansible, and shares no module with the operator but its own.
"""
