"""Who of several watches on one object owns its finalizer and its status: the first in the file that wants it.

One object is seen by two watches where a kind is served in two versions and both are in watches.yaml. Each runs its
role, but two writers of one set of conditions would only overwrite each other, and two finalizers of one runtime would
double the work of a deletion. Pure; `runner.reconcile.claim` asks per object, as selectors and labels decide too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runner.kube.objects import Object, finalizers_of
from runner.watches.matching import serves
from runner.watches.model import Finalizer, Watch


def earlier_of_kind(watches: Sequence[Watch], *, number: int) -> tuple[Watch, ...]:
    """Return the watches in front of the one at *number* that see the same objects: same group and kind."""
    gvk = watches[number].gvk
    return tuple(other for other in watches[:number] if (other.gvk.group, other.gvk.kind) == (gvk.group, gvk.kind))


def narrowed(watch: Watch, *, earlier: Sequence[Watch], obj: Object) -> Watch:
    """Return *watch* without what one of the *earlier* ones that serve *obj* owns.

    - The status belongs to the first that manages it.
    - The finalizer belongs to the first that has one. A finalizer of *watch* that is on *obj* all the same (from
      another order of the file, or other labels) stays its own, or nobody would ever take it off.
    """
    serving = [other for other in earlier if serves(other, obj)]
    if not serving:
        return watch
    managed = any(other.manage_status for other in serving)
    owned = [other.finalizer.name for other in serving if other.finalizer is not None]
    return replace(
        watch,
        manage_status=watch.manage_status and not managed,
        finalizer=watch.finalizer if _keeps(watch.finalizer, owned=owned, obj=obj) else None,
    )


def _keeps(finalizer: Finalizer | None, *, owned: Sequence[str], obj: Object) -> bool:
    """Tell whether *finalizer* is its watch's to handle although earlier watches have those that are *owned*."""
    if finalizer is None or not owned:
        return True
    return finalizer.name in finalizers_of(obj) and finalizer.name not in owned
