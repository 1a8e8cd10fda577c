"""`ansible-operator demo`: tells the product's main job while it happens (see `runner.localdev.demo`)."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from runner.errors import OperatorError
from runner.localdev.demo import Demo
from runner.localdev.demo_autoscale import AutoscaleDemo
from runner.localdev.demo_conflict import ConflictDemo
from runner.localdev.narrator import Narrator
from runner.localdev.story import DemoOptions, Story, interruptible
from runner.settings import environment

_STORIES: dict[str, type[Story]] = {"instance": Demo, "conflict": ConflictDemo, "autoscale": AutoscaleDemo}


@click.command()
@click.option(
    "--scenario",
    type=click.Choice(list(_STORIES)),
    default="instance",
    show_default=True,
    help="instance: an EC2Instance's life; conflict: an object is edited while its run is under way; "
    "autoscale: pods wait, machines come and go.",
)
@click.option("--keep", is_flag=True, help="Stay up at the end until Ctrl-C, and print the KUBECONFIG line.")
@click.option("--use-cluster", is_flag=True, help="Use the cluster of the current KUBECONFIG, not a local one.")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    show_default="the current folder",
    help="The clone with watches.yaml, roles/, crds/ and config/.",
)
def demo(*, scenario: str, keep: bool, use_cluster: bool, project: Path) -> None:
    """Show on real parts what the operator does, while it happens."""
    if use_cluster and scenario != "instance":
        raise click.UsageError(f"--use-cluster: the scenario {scenario!r} has a control plane of its own only")
    environ = environment()
    kubeconfig = environ.get("KUBECONFIG", str(Path("~/.kube/config").expanduser())) if use_cluster else ""
    options = DemoOptions(project=project.resolve(), keep=keep, kubeconfig=kubeconfig, environ=environ)
    try:
        with interruptible():
            _STORIES[scenario](options=options, narrator=Narrator(stream=sys.stdout)).run()
    except OperatorError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException("interrupted; everything that the demo started was stopped") from None
