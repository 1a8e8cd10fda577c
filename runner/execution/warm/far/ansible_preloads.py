"""What the server loads of ansible-core before any run, where that takes what ansible-core promises to nobody.

A part of `ansible_internals`, and like it asked on both supported versions: what each run would load for itself, in its
workers again and again. What is loaded here is found by a run as if it had loaded it.
"""

from __future__ import annotations

import ast
import contextlib
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def preload_plugins(names: Iterable[tuple[str, str]]) -> None:
    """Load plugins that plays use in their workers: pairs of a loader's name and a plugin's name.

    Relies on: `plugins.loader.<loader>.get(name, class_only=True)`, public, keeping module and options, and on
    `config.initialize_plugin_configuration_definitions`: a plugin with none is asked each time (2.18, 2.19).
    """
    from ansible import constants  # noqa: PLC0415
    from ansible.plugins import get_plugin_class  # noqa: PLC0415
    from ansible.plugins import loader as loaders  # noqa: PLC0415

    for loader, name in names:
        with contextlib.suppress(Exception):  # a plugin that can't be loaded is told of when it is used
            kind = get_plugin_class(getattr(loaders, loader).class_name)
            found = getattr(loaders, loader).get(name, class_only=True)
            known = constants.config.has_configuration_definition(kind, name)
            if found and kind in constants.CONFIGURABLE_PLUGINS and not known:
                constants.config.initialize_plugin_configuration_definitions(kind, name, {})


def preload_all(loaders: Iterable[str]) -> None:
    """Load every plugin of *loaders*, as each play does to know what variables they have options in.

    Relies on: `plugins.loader.<loader>.all(class_only=True)`, public (2.18, 2.19).
    """
    from ansible.plugins import loader as module  # noqa: PLC0415

    for loader in loaders:
        with contextlib.suppress(Exception):  # it is told of when it is used
            list(getattr(module, loader).all(class_only=True))


def preload_templating(loader: Any) -> None:
    """Load Ansible's own filters and tests, and have Jinja prepare itself: else each worker does both for itself.

    *loader* is a `DataLoader`. Relies on: `filter_loader` and `test_loader` keeping what `all()` gave until they are
    told of a directory or renewed (`ansible_internals.renew_configured`), `_paths` and `config` (2.18, 2.19), and on
    what `template` tells of trust (2.19).
    """
    from ansible import template  # noqa: PLC0415
    from ansible.plugins import loader as loaders  # noqa: PLC0415

    for plugins in (loaders.filter_loader, loaders.test_loader):
        configured = plugins.config
        plugins._clear_caches()  # noqa: SLF001
        try:
            plugins.config = []
            list(plugins.all())
        finally:
            plugins.config = configured
            plugins._paths = None  # noqa: SLF001
    trust = getattr(template, "trust_as_template", str)
    for text in ("{{ 'a' | default('b', true) | upper }}", "{% for b in a if b is defined %}{{ b }}{% endfor %}"):
        template.Templar(loader=loader, variables={"a": ["c"]}).template(trust(text))


def preload_callback_options() -> None:
    """Read the options of the callback that writes to the terminal from its text, as its import changes Ansible.

    Relies on: `constants.DEFAULT_STDOUT_CALLBACK`, and `PluginLoader._load_config_defs(name, module, path)` looking at
    nothing of the module but DOCUMENTATION (2.18, 2.19).
    """
    from ansible import constants  # noqa: PLC0415
    from ansible.plugins.loader import callback_loader  # noqa: PLC0415

    name = constants.DEFAULT_STDOUT_CALLBACK
    path = callback_loader.find_plugin(name)
    if path is None:
        return
    for statement in ast.parse(Path(path).read_bytes()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="DOCUMENTATION")], value=ast.Constant(value=str(text))):
                module = types.SimpleNamespace(DOCUMENTATION=text)
                callback_loader._load_config_defs(name, module, path)  # noqa: SLF001


def preload_actions(modules: Iterable[str]) -> None:
    """Look up *modules* as tasks do, and load their action plugins: collections tell in a big file where things are.

    Relies on: `find_plugin_with_context` of `module_loader` and `action_loader`, and `has_plugin` (2.18, 2.19).
    """
    from ansible.plugins import loader as loaders  # noqa: PLC0415

    for name in modules:
        with contextlib.suppress(Exception):  # what can't be found is told of when it is used
            loaders.module_loader.find_plugin_with_context(name)
            if loaders.action_loader.has_plugin(name):
                loaders.action_loader.get(name, class_only=True)
