"""What the far side relies on in ansible-core that ansible-core promises to nobody: here and nowhere else.

A play is forked from a process that imported Ansible for another one, and that played a trivial play to fill its
caches. What an import or that play left behind and what a run could notice is renewed or forgotten by these functions.
Each tells what it relies on; `tests/integration/execution/test_warm_internals.py` asks both supported versions.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import logging
import multiprocessing
import multiprocessing.process
import os
import secrets
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

_COLLECTIONS = "ansible_collections"
_MAXIMUM = 2**32
_former: list[Any] = []
"""What was replaced and must not be destroyed: its destructor would close a descriptor that is another one's now."""


def loaded() -> bool:
    """Tell whether ansible-core's command line is imported in this process."""
    return "ansible.cli.playbook" in sys.modules


def version() -> str:
    """Return the version of ansible-core: `ansible.release.__version__` (2.18, 2.19)."""
    from ansible.release import __version__  # noqa: PLC0415 - Ansible is imported when its environment is set up

    return str(__version__)


def settings_that_mention(text: str) -> list[str]:
    """Return the settings whose value holds *text*, a folder: relative paths and `{{CWD}}` were resolved against it.

    Relies on: `constants.config.get_configuration_definitions()` and one module variable per setting (2.18, 2.19).
    """
    from ansible import constants  # noqa: PLC0415

    names = constants.config.get_configuration_definitions()
    return sorted(name for name in names if text in repr(getattr(constants, name, None)))


def renew_settings(names: Iterable[str]) -> None:
    """Read the settings *names* anew from the environment, as the import of `ansible.constants` did.

    Relies on: `config.get_config_value(name, variables=...)` being what `constants` is filled with by `set_constant`,
    and on the users of these settings looking at `constants` each time (2.18, 2.19; only what `sameness` names is
    renewed). A `tmppath` makes a folder and registers its removal with atexit.
    """
    from ansible import constants  # noqa: PLC0415

    for name in names:
        value = constants.config.get_config_value(name, variables=vars(constants))
        constants.set_constant(name, value, export=vars(constants))


def local_temp() -> Path:
    """Return the folder of temporary files of this process: `constants.DEFAULT_LOCAL_TMP` (2.18, 2.19)."""
    from ansible import constants  # noqa: PLC0415

    return Path(constants.DEFAULT_LOCAL_TMP)


def config_file() -> str | None:
    """Return the ansible.cfg that was read: `constants.CONFIG_FILE` (2.18, 2.19)."""
    from ansible import constants  # noqa: PLC0415

    found = constants.CONFIG_FILE
    return None if found is None else str(found)


def verbosity() -> int:
    """Return how many `v`s the environment and ansible.cfg ask for: `constants.DEFAULT_VERBOSITY` (2.18, 2.19)."""
    from ansible import constants  # noqa: PLC0415

    return int(constants.DEFAULT_VERBOSITY or 0)


def is_debugging() -> bool:
    """Tell whether ANSIBLE_DEBUG is on: it tells of caches, so such a run has to find them as they are cold."""
    from ansible import constants  # noqa: PLC0415

    return bool(constants.DEFAULT_DEBUG)


def renew_identifiers() -> None:
    """Let ids of plays and tasks start anew, with a random part of their own.

    Relies on: `utils.vars.cur_id` and `utils.vars.random_int`, made at import (2.18, 2.19).
    """
    from ansible.utils import vars as identifiers  # noqa: PLC0415

    identifiers.cur_id = 0
    identifiers.random_int = f"{secrets.randbelow(_MAXIMUM):08x}"[:8]


def renew_display() -> None:
    """Let the one Display object write to the standard streams that this process has now, as if nothing was written.

    Relies on: `Display._set_column_width` (looks at descriptor 1), the tables `_warns`, `_deprecations`, `_errors`,
    and on what `Display.__init__` does to sys.stdout and sys.stderr: `_synchronize_textiowrapper` and the error
    handler `_replacing_warning_handler` (2.18, 2.19).
    """
    from ansible.utils import display as module  # noqa: PLC0415

    display = module.Display()
    forget_messages()
    display._set_column_width()  # noqa: SLF001
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        module._synchronize_textiowrapper(stream, display._lock)  # noqa: SLF001
        stream.reconfigure(errors="_replacing_warning_handler")


def forget_messages() -> None:
    """Let each warning be shown again once, and the level of talk be the default.

    Relies on: `Display`'s `_warns`, `_deprecations`, `_errors`, `verbosity` and `setup_curses` (2.18, 2.19).
    """
    from ansible.utils import display as module  # noqa: PLC0415

    display = module.Display()
    display.verbosity = 0
    display.setup_curses = False
    for table in (display._warns, display._deprecations, display._errors):  # noqa: SLF001
        table.clear()


def renew_log_file() -> None:
    """Open the log file that ansible.cfg names anew: the descriptor was this process's parent's.

    Relies on: `utils.display` calling `logging.basicConfig(filename=...)` at import (2.18, 2.19), and on
    `logging.FileHandler` opening its file where it has none.
    """
    for handler in logging.root.handlers:
        if isinstance(handler, logging.FileHandler):
            _former.append(handler.stream)
            handler.stream = None  # it is opened when it is needed


def renew_locks() -> None:
    """Make locks between processes anew: a run that was killed while it held one would stop all others.

    Relies on: the table `executor.action_write_locks.action_write_locks` (2.18; 2.19 locks files instead).
    """
    module = sys.modules.get("ansible.executor.action_write_locks")
    if module is None:
        return
    for name in list(module.action_write_locks):
        module.action_write_locks[name] = multiprocessing.get_context("fork").Lock()


def renew_process_names() -> None:
    """Wait for workers that are about to end, let the next one be the first, and have a key of its own.

    Relies on: `multiprocessing.process._process_counter` (Python 3.11 to 3.13).
    """
    for child in multiprocessing.active_children():
        child.join()
    multiprocessing.process._process_counter = itertools.count(1)  # type: ignore[attr-defined]  # noqa: SLF001
    multiprocessing.current_process().authkey = os.urandom(32)


def forget_play() -> None:
    """Forget that this process played: its command line, its secrets, its collections, its files' whereabouts.

    Collections that were loaded stay so, see `forget_collections`. Relies on: `context.CLIARGS` (documented),
    `VaultSecretsContext._current` (2.19), `_AnsibleCollectionFinder._remove`, the tables of the vars plugin
    `host_group_vars` (2.18, 2.19).
    """
    from ansible import context  # noqa: PLC0415
    from ansible.parsing import vault  # noqa: PLC0415
    from ansible.utils.collection_loader import AnsibleCollectionConfig  # noqa: PLC0415
    from ansible.utils.collection_loader import _collection_finder as finder  # noqa: PLC0415
    from ansible.utils.context_objects import CLIArgs  # noqa: PLC0415

    context.CLIARGS = CLIArgs({})
    if hasattr(vault, "VaultSecretsContext"):
        vault.VaultSecretsContext._current = None  # noqa: SLF001
    finder._AnsibleCollectionFinder._remove()  # noqa: SLF001
    AnsibleCollectionConfig.default_collection = None
    for module in [module for name, module in sys.modules.items() if name.endswith(".vars.host_group_vars")]:
        for table in ("CANONICAL_PATHS", "FOUND", "NAK"):
            getattr(module, table).clear()
    forget_messages()
    with warnings.catch_warnings():
        pass  # leaving it lets each of Python's warnings be shown again where "once" is the rule


def forget_collections() -> None:
    """Let collections be found and loaded anew, and be told of: elsewhere they come first, or somebody listens.

    Relies on: their modules being in sys.modules under `ansible_collections` (2.18, 2.19).
    """
    for name in [name for name in sys.modules if name == _COLLECTIONS or name.startswith(f"{_COLLECTIONS}.")]:
        del sys.modules[name]


def keep_parser(cli: type[Any], *, program: str) -> None:
    """Build the parser of *cli*'s command line once, for every run that is forked later.

    Relies on: `CLI.init_parser` doing nothing but setting `self.parser`, from settings that are the same for each run
    (2.18, 2.19), and on argparse leaving a parser as it was when it has parsed.
    """
    instance = cli([program, ""])
    instance.init_parser()
    parser = instance.parser

    def init_parser(self: Any, *_: object, **__: object) -> None:
        self.parser = parser

    cli.init_parser = init_parser


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


@contextlib.contextmanager
def only_own_callbacks() -> Iterator[None]:
    """Let only ansible-core's own callback plugins be found: others change Ansible when they are imported.

    ansible-runner's replaces methods of Display; cold that happens after the playbook was read. Relies on:
    `callback_loader.config`, the configured directories, and `_clear_caches` (2.18, 2.19).
    """
    from ansible.plugins.loader import callback_loader  # noqa: PLC0415

    configured = callback_loader.config
    try:
        callback_loader.config = []
        callback_loader._clear_caches()  # noqa: SLF001
        yield
    finally:
        callback_loader.config = configured
        callback_loader._clear_caches()  # noqa: SLF001


def forget_foreign_plugins() -> None:
    """Forget plugins that are not ansible-core's own: what their import does is done in each run, as ever.

    Relies on: modules named `ansible.plugins.<kind>.<file>`, `get_all_plugin_loaders()`, `PluginLoader._module_cache`
    by path, and `_clear_caches` (2.18, 2.19).
    """
    import ansible  # noqa: PLC0415
    from ansible.plugins import loader as loaders  # noqa: PLC0415

    own = str(Path(ansible.__file__).parent)
    for _, loader in loaders.get_all_plugin_loaders():
        foreign = [path for path in loader._module_cache if not str(path).startswith(f"{own}/")]  # noqa: SLF001
        modules = {id(loader._module_cache[path]) for path in foreign}  # noqa: SLF001
        for name in [name for name, module in sys.modules.items() if id(module) in modules]:
            del sys.modules[name]
        if foreign:
            loader._clear_caches()  # noqa: SLF001


def shadow_connection(folder: Path) -> bool:
    """Let the connection plugins in *folder* come before Ansible's own of the same name; tell whether they do.

    Not where somebody configured a connection plugin `local` of their own. Relies on: `connection_loader.find_plugin`
    and `add_directory`, both public (2.18, 2.19).
    """
    from ansible.plugins import connection, loader  # noqa: PLC0415

    found = loader.connection_loader.find_plugin("local")
    if found is None or Path(found).parent != Path(connection.__file__).parent:
        return False
    loader.connection_loader.add_directory(str(folder))
    sys.modules.pop("ansible.plugins.connection.local", None)  # a play has loaded Ansible's own under this name
    return bool(loader.connection_loader.find_plugin("local") == str(folder / "local.py"))


class Directories:
    """Who wants to know that a loader was given a directory, by the name of the loader's folders (`library`)."""

    told: Callable[[str], None] | None = None


def unshadow_when(folder: Path) -> None:
    """Let plugins beside a role or playbook be found as if Ansible had loaded none before.

    The first plugin of a name that a process loads stays the one, and so do its options; the server has loaded many.
    So where a loader is told of a directory, what the server loaded under the names in there is forgotten, and
    connection plugins in there come before those of *folder*.

    Relies on: `PluginLoader.add_directory`, `_extra_dirs`, `package`, `class_name`, modules named `<package>.<file>`,
    `config._plugins[type][name]`, and `plugins.get_plugin_class` (2.18, 2.19).
    """
    from ansible.plugins import loader as loaders  # noqa: PLC0415

    original = loaders.PluginLoader.add_directory
    preloaded = {name: module for name, module in sys.modules.items() if name.startswith("ansible.plugins.")}

    def add_directory(self: Any, directory: Any, *args: Any, **kwargs: Any) -> None:
        known = list(self._extra_dirs)
        original(self, directory, *args, **kwargs)
        for added in [Path(path) for path in self._extra_dirs if path not in known]:
            names = {path.stem for path in added.rglob("*.py")}
            _forget_plugins(self, names, preloaded=preloaded)
            if str(folder) in known and "local" in names:
                self._extra_dirs.remove(str(folder))
                self._clear_caches()
            if Directories.told is not None:
                Directories.told(self.subdir)

    loaders.PluginLoader.add_directory = add_directory


def _forget_plugins(loader: Any, names: Iterable[str], *, preloaded: Mapping[str, Any]) -> None:
    from ansible import constants  # noqa: PLC0415
    from ansible.plugins import get_plugin_class  # noqa: PLC0415

    if not loader.class_name:
        return  # modules: they are files, nothing of them is loaded
    options = constants.config._plugins.get(get_plugin_class(loader.class_name), {})  # noqa: SLF001
    for name in names:
        module = f"{loader.package}.{name}"
        if module in preloaded and sys.modules.get(module) is preloaded[module]:
            del sys.modules[module]
            for key in (name, f"ansible.builtin.{name}", f"ansible.legacy.{name}"):
                options.pop(key, None)
