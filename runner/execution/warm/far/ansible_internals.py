"""What the far side relies on in ansible-core that ansible-core promises to nobody: here and nowhere else.

A play is forked from a process that imported Ansible for another one, and that played a trivial play to fill its
caches. What an import or that play left behind and what a run could notice is renewed or forgotten by these functions.
Each tells what it relies on; `tests/integration/execution/test_warm_internals.py` asks both supported versions.
"""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import logging
import multiprocessing
import multiprocessing.process
import os
import secrets
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

_COLLECTIONS = "ansible_collections"
_MAXIMUM = 2**32
_former: list[Any] = []
"""What was replaced and must not be destroyed: its destructor would close a descriptor that is another one's now."""
_configured_before: set[str] = set()
"""The class names of loaders that had something in configured folders when the server looked."""
_DEPTHS = ("*", "*/*", "*/*/*")
"""Where Ansible looks in a configured folder."""
_shown: list[Any] = [(), (), ()]
"""The messages that Ansible's import showed, see `remember_messages`."""


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


def remember_messages() -> None:
    """Take what was shown so far for what the import shows in each run, once: a run doesn't show it again.

    Relies on: `Display`'s `_warns`, `_deprecations`, `_errors` (2.18, 2.19).
    """
    _shown[:] = [table.copy() for table in _message_tables()]


def forget_messages() -> None:
    """Let each warning be shown again once, but for the import's; the level of talk is the default.

    Relies on: `Display`'s `_warns`, `_deprecations`, `_errors`, `verbosity` and `setup_curses` (2.18, 2.19).
    """
    from ansible.utils import display as module  # noqa: PLC0415

    display = module.Display()
    display.verbosity = 0
    display.setup_curses = False
    for table, shown in zip(_message_tables(), _shown, strict=True):
        table.clear()
        table.update(shown)


def _message_tables() -> tuple[Any, ...]:
    """Return the tables, which are dicts (2.18) or sets (2.19)."""
    from ansible.utils import display as module  # noqa: PLC0415

    display = module.Display()
    return (display._warns, display._deprecations, display._errors)  # noqa: SLF001


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


def remember_configured() -> None:
    """Take what is in configured folders of plugins for what the server saw; see `renew_configured`."""
    _configured_before.update(loader.subdir for loader, names in _configured() if names)


def renew_configured(shadow: Path) -> bool:
    """Let plugins in configured folders be found as if none had been looked for; tell whether modules may be there.

    Nobody watches these folders (of ansible.cfg, variables, and the likes of ~/.ansible/plugins), so what the server
    saw there is forgotten; *shadow* is `shadow_connection`'s folder. Relies on: `PluginLoader.config`, `subdir`,
    `package`, `class_name`, `_extra_dirs`, `_clear_caches`, modules named `<package>.<file>`, and
    `config._plugins[type][name]` (2.18, 2.19).
    """
    from ansible import constants  # noqa: PLC0415
    from ansible.plugins import get_plugin_class  # noqa: PLC0415

    modules = False
    for loader, names in _configured():
        if not names and loader.subdir not in _configured_before:
            continue
        modules |= loader.subdir in {"library", "module_utils"}
        if "local" in names and str(shadow) in loader._extra_dirs:  # noqa: SLF001
            loader._extra_dirs.remove(str(shadow))  # noqa: SLF001
        loader._clear_caches()  # noqa: SLF001
        kind = get_plugin_class(loader.class_name) if loader.class_name else ""
        options = constants.config._plugins.get(kind, {})  # noqa: SLF001
        for name in names:
            sys.modules.pop(f"{loader.package}.{name}", None)
            options.pop(name, None)
            options.pop(f"ansible.builtin.{name}", None)
            options.pop(f"ansible.legacy.{name}", None)
    return modules


def _configured() -> Iterator[tuple[Any, set[str]]]:
    """Yield each loader with the names in its configured folders, but for ansible-runner's own."""
    import ansible_runner  # noqa: PLC0415
    from ansible.plugins import loader as loaders  # noqa: PLC0415

    own = f"{Path(ansible_runner.__file__).parent}{os.sep}"
    for _, loader in loaders.get_all_plugin_loaders():
        folders = [os.path.expanduser(path) for path in loader.config or ()]  # noqa: PTH111 - sixty in each run
        found = [Path(folder) for folder in folders if os.path.isdir(folder) and not folder.startswith(own)]  # noqa: PTH112
        yield loader, {path.stem for folder in found for depth in _DEPTHS for path in folder.glob(depth)}


def sources_of_payload(path: Path) -> list[Path] | None:
    """Return the files that the payload in Ansible's cache at *path* was made of; None where that can't be told.

    Relies on: the file being the zip in base64 (2.18) or what `_CachedModule.load` reads (2.19), the zip's names, and
    `AnsibleCollectionConfig.collection_paths`, of which the first one with a collection has it.
    """
    from ansible.executor import module_common  # noqa: PLC0415

    kind = getattr(module_common, "_CachedModule", None)
    with contextlib.suppress(OSError, ValueError, EOFError, zipfile.BadZipFile):
        encoded = path.read_bytes() if kind is None else kind.load(str(path)).zip_data
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(encoded))) as archive:
            found = [(name, _source(name)) for name in archive.namelist()]
        generated = "/__init__.py"  # packages are made up where they are none, or not needed as they are
        if all(source is not None or name.endswith(generated) for name, source in found):
            return [source for _, source in found if source is not None]
    return None


def _source(name: str) -> Path | None:
    """Return the file that became *name* in a payload."""
    import ansible  # noqa: PLC0415
    from ansible.utils.collection_loader import AnsibleCollectionConfig  # noqa: PLC0415

    roots = [Path(ansible.__file__).parent.parent]
    if name.startswith(f"{_COLLECTIONS}/"):
        collection = Path(*Path(name).parts[:3])
        roots = [Path(path) for path in AnsibleCollectionConfig.collection_paths if (Path(path) / collection).is_dir()]
    return next((root / name for root in roots[:1] if (root / name).is_file()), None)
