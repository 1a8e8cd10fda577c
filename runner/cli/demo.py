"""`ansible-operator demo`: tells the product's main job while it happens (see `runner.localdev.demo`)."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from runner.errors import OperatorError
from runner.localdev.demo import Demo, DemoOptions, interruptible
from runner.localdev.narrator import Narrator
from runner.settings import environment


@click.command()
@click.option("--keep", is_flag=True, help="Stay up at the end until Ctrl-C, and print the KUBECONFIG line.")
@click.option("--use-cluster", is_flag=True, help="Use the cluster of the current KUBECONFIG, not a local one.")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    show_default="the current folder",
    help="The clone with watches.yaml, roles/, crds/ and config/.",
)
def demo(*, keep: bool, use_cluster: bool, project: Path) -> None:
    """Show an EC2 instance come to life from a custom resource, be repaired, and go."""
    environ = environment()
    kubeconfig = environ.get("KUBECONFIG", str(Path("~/.kube/config").expanduser())) if use_cluster else ""
    options = DemoOptions(project=project.resolve(), keep=keep, kubeconfig=kubeconfig, environ=environ)
    try:
        with interruptible():
            Demo(options=options, narrator=Narrator(stream=sys.stdout)).run()
    except OperatorError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException("interrupted; everything that the demo started was stopped") from None
