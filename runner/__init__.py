"""An Ansible-driven operator runtime for Kubernetes.

`watches.yaml` maps kinds to roles and playbooks. A change travels through five stages, each a package:

1. `sources`: one informer per kind lists and watches; a change that passes the predicates becomes a key
   (`workqueue.request.Request`). The queue never carries objects or events.
2. `workqueue`: hands out one key at a time per object and at most N at once per watch; fresh changes go ahead of
   periodic re-runs, failing keys wait with exponential back-off.
3. `reconcile`: takes a key, reads the object, and runs a list of small steps: load, finalizer, mark running, run,
   classify, finalizer removal, mark done, schedule.
4. `execution`: runs the role or playbook through ansible-runner and returns an `Outcome` after all its events.
5. `status`: computes conditions with a pure function and writes them through the status subresource, re-reading
   and retrying on conflicts.

`handlers` stands beside them: Python handlers of kopf, in a thread of their own; what they publish reaches the runs.

`assembly` is the one place that puts the parts together; `settings` the one place that reads the environment;
`kube` the one place that speaks to the API server.
"""

__version__ = "0.1.0"
