"""How a run gets to the API server: a kubeconfig that leads to the proxy, with a secret that dies with the run.

Joins `execution`, which asks for a kubeconfig per run, and `proxy`, which may not see each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from runner.errors import ExecutionError
from runner.execution.executor import RunRequest
from runner.execution.files import create_private
from runner.kube.objects import name_of, namespace_of, uid_of
from runner.proxy.exchange import Owner
from runner.proxy.kubeconfig import document_for
from runner.proxy.runs import Runs

# YAML as the peer writes it, for roles that look for a line; the one in C takes a fraction of the other's time
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class RunAccess:
    """The runs of one operator as its proxy knows them; a `KubeconfigSource` for its executor."""

    def __init__(self) -> None:
        """Begin without a proxy: there are no runs before it listens."""
        self.runs = Runs()
        self.port: int | None = None
        """Where the proxy listens; told by it."""

    @contextlib.contextmanager
    def for_run(self, request: RunRequest, *, folder: Path) -> Iterator[Path]:
        """Open the run, and write its kubeconfig as a private file in *folder*; both are gone in the end.

        Raises:
            ExecutionError: the proxy doesn't listen.
        """
        if self.port is None:
            raise ExecutionError("the proxy for Ansible's modules does not listen; this is a bug, please report it")
        owner = owner_in(request)
        path = folder / "kubeconfig"
        with self.runs.open(owner=owner, run=request.ident) as secret:
            document = document_for(owner, secret=secret, port=self.port)
            create_private(path, yaml.dump(document, Dumper=_DUMPER, sort_keys=False))
            try:
                yield path
            finally:
                path.unlink(missing_ok=True)


def owner_in(request: RunRequest) -> Owner:
    """Return the object of *request* as owner references name it."""
    obj = request.obj
    return Owner(gvk=request.watch.gvk, namespace=namespace_of(obj), name=name_of(obj), uid=uid_of(obj))
