"""Python handlers beside roles and playbooks: files of kopf handlers that entries of watches.yaml name.

    watches.yaml ──▶ loading ──▶ Loaded ──▶ host ──▶ embedded (a thread, a loop, one kopf.operator) ──▶ API server
                                             ▲                      │
    a run of Ansible ──── published values ──┘◀──── indexes ────────┘

- `loading` imports the files, each once, and refuses what cannot work here, with file and line;
- `host` starts the embedded operator, again with back-off when it ends by an error, and stops it;
- `embedded` is one life of it: a thread, an event loop, kopf;
- `session` connects it with the operator's own credentials; `configuration` are kopf's settings;
- `kopf_internals` is the only module that touches kopf's private parts;
- `published` is for handler files: what they hand to runs of Ansible.

Nothing of kopf's is written to objects, but for the finalizer of users' own timers and daemons; see docs/handlers.md.
This module imports no kopf, which costs time and some memory: an operator without handlers has none of it.
"""

from runner.handlers.published import published

__all__ = ["published"]
