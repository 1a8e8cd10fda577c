"""`ansible-operator migrate`: brings stored objects to the version that their CRD stores today."""

from __future__ import annotations

import asyncio
import sys

import click

from runner.errors import OperatorError
from runner.kube import migration
from runner.kube.client import KubeClient
from runner.settings import KubeSettings, environment

_HELP = """Bring the stored objects of KIND to the version that its CRD stores today.

KIND is a custom resource as kubectl knows it: ec2i, ec2instances, EC2Instance or
ec2instances.aws.ansible-operator.io. Without --write it only tells what it would do.

Each object is written as it is (a patch with nothing in it), so nothing of it changes; then the old
versions are taken off the CRD's status.storedVersions, and a later CRD may leave them out. Run it when
the new CRD has been applied for a minute, so that every API server knows it. It uses $KUBECONFIG and
needs the right to list and patch the objects, to get and list customresourcedefinitions, and to update their status.
"""


@click.command(help=_HELP, short_help="Bring stored objects to the version that their CRD stores today")
@click.argument("kind")
@click.option("--write", is_flag=True, help="Do it; without this, only tell.")
def migrate(kind: str, *, write: bool) -> None:
    """Migrate *kind*; exit code 1 where objects could not be written."""
    try:
        complete = asyncio.run(_migrate(kind, write=write))
    except OperatorError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(0 if complete else 1)


async def _migrate(kind: str, *, write: bool) -> bool:
    async with KubeClient(settings=KubeSettings(kubeconfig=environment().get("KUBECONFIG", ""))) as kube:
        plan = await migration.find(kube, kind)
        today = plan.resource.gvk.version
        if not plan.old:
            click.echo(f"{plan.name}: all objects are stored as {today}; there is nothing to do")
            return True
        result = await migration.migrate(kube, plan, write=write, report=lambda line: click.echo(line, err=True))
    old = ", ".join(plan.old)
    if not write:
        click.echo(f"{plan.name}: would write {_objects(result.objects)} anew as {today}, and take {old} off the")
        click.echo("CRD's status.storedVersions; nothing was changed, do it with --write")
        return True
    if result.failures:
        click.echo(
            f"{plan.name}: {len(result.failures)} of {_objects(result.objects)} could not be written; {old} stays in "
            "the CRD's status.storedVersions. Mend what is told above and run it again",
            err=True,
        )
        return False
    click.echo(f"{plan.name}: wrote {_objects(result.objects)} anew as {today}, the only one of its storedVersions now")
    return True


def _objects(count: int) -> str:
    return f"{count} object{'' if count == 1 else 's'}"
