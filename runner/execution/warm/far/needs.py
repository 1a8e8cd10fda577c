"""What the watched content will need: the modules of its tasks, what those import; asked once by `server`.

    roles, playbooks   -> names of actions, in the words of the task files       needs_content
    names of actions   -> source files of modules, as Ansible resolves names     needs_files
    source files       -> module utilities and third-party libraries             needs_imports
    templates          -> lookups, which run in Ansible's own processes          needs_lookups

All of it reads files and imports nothing of Ansible. It is a guess that only costs or saves time: what is missed is
imported by the module itself, as cold. So whatever cannot be read is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .aws_data import services_in
from .needs_content import Content
from .needs_files import Files
from .needs_imports import Imports
from .needs_lookups import lookups_in

ALWAYS = ("setup", "command", "stat", "file", "copy")
"""Parts of `ansible.builtin` that a play uses without naming them (facts), or that are cheap and in most roles."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Names to be imported before runs are forked."""

    modules: tuple[str, ...] = ()
    """Full names of the modules that the content's tasks can run, `kubernetes.core.k8s_info`."""
    libraries: tuple[str, ...] = ()
    """Dotted names of third-party modules that are installed and that modules import, a package before its parts."""
    controller: tuple[str, ...] = ()
    """The same, of what Ansible's own processes import: lookups do."""
    utilities: tuple[str, ...] = ()
    """Dotted names of module utilities, `ansible.module_utils.basic`; those of a role's own module_utils/ are not."""
    services: tuple[str, ...] = ()
    """AWS services that modules make clients of, `ec2`, those first that most modules name."""


def find(
    *,
    roles: Sequence[str],
    playbooks: Sequence[str],
    roles_path: Sequence[str] = (),
    collections_path: Sequence[str] = (),
) -> Needs:
    """Return what *roles* (folders) and *playbooks* (files) need.

    *roles_path* and *collections_path* are searched as Ansible does; the interpreter's own collections come last.
    """
    files = Files(collections_path=[Path(path) for path in collections_path])
    content = Content(files=files, roles_path=[Path(path) for path in roles_path])
    for role in roles:
        content.add_role(Path(role))
    for playbook in playbooks:
        content.add_playbook(Path(playbook))
    modules = files.modules(content.actions, beside=content.libraries)
    for name in ALWAYS:
        modules |= files.modules_of(f"ansible.builtin.{name}")
    imports = Imports(files=files, own_utilities=content.utilities)
    for path in files.always_imported():
        imports.add_utility(path)
    for name, source in modules.items():
        imports.add_module(name, source)
    return Needs(
        modules=_sorted(modules),
        libraries=_sorted(imports.libraries),
        controller=_sorted(_of_lookups(content, files=files)),
        utilities=_sorted(imports.utilities),
        services=tuple(services_in(source.path for source in modules.values())),
    )


def _of_lookups(content: Content, *, files: Files) -> set[str]:
    imports = Imports(files=files)
    for name in lookups_in(content.places):
        if source := files.lookup(name):
            imports.add_module(name, source)
    return imports.libraries


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
