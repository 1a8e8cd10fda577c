"""What the server does once, before it forks any run: it imports ansible-runner and Ansible, and plays a trivial play.

Both happen in what a run finds around itself: variables that ansible-runner made, its project folder, a terminal. The
play fills Ansible's caches through its documented Python API; what of it a later play could notice is undone.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from . import ansible_internals as internals
from . import ansible_preloads as preloads
from . import forking, module_client, parsers, sameness
from .protocol import Start

CONNECTION_PLUGINS = Path(__file__).resolve().parent / "plugins" / "connection"
_PLAY = [{"hosts": "localhost", "gather_facts": False, "roles": [{"name": "warm"}]}]
_TASKS = [
    {"ansible.builtin.debug": {"msg": "{{ 'warm' | default('', true) | upper }}"}, "when": "1 is defined"},
    {"ansible.builtin.set_fact": {"warm": "{{ [1, 2] | map('string') | list }}"}},
    {"name": "a loop", "debug": {"msg": "{{ item }}"}, "loop": ["{{ warm[0] }}"], "vars": {"here": "{{ warm }}"}},
]
_HOSTS = "localhost ansible_connection=local ansible_python_interpreter={{ansible_playbook_python}}"
_PLUGINS = (
    *(("inventory_loader", name) for name in ("host_list", "script", "auto", "yaml", "ini", "toml")),
    *(("cache_loader", name) for name in ("memory", "jsonfile")),
    *(("strategy_loader", name) for name in ("linear", "free")),
    *(("callback_loader", name) for name in ("default", "junit", "minimal", "oneline", "tree")),
    *(("lookup_loader", name) for name in ("env", "file", "items", "list", "pipe", "template", "vars", "first_found")),
    *(("action_loader", name) for name in ("normal", "command", "shell", "copy", "template", "include_vars")),
    *(("action_loader", name) for name in ("assert", "async_status", "debug", "fail", "pause", "set_fact", "uri")),
    *(("action_loader", name) for name in ("add_host", "gather_facts", "group_by", "service", "package", "wait_for")),
)
"""What plays load in their workers, which are forks too: what is loaded there, the next worker loads again."""


@dataclass(kw_only=True)
class State:
    """What is known once the server is prepared; forks inherit it."""

    started_with: Mapping[str, str] = field(default_factory=dict, repr=False)
    imported: sameness.Imported | None = None
    payloads: Path = Path()
    why_never: str | None = "the fork server is not prepared"


_state = State()


def replace_state(state: State) -> State:
    """Make *state* what is known from now on; return what was known."""
    global _state
    former, _state = _state, state
    return former


def started_with() -> Mapping[str, str]:
    """Return the variables that the server was started with."""
    return _state.started_with


def imported() -> sameness.Imported:
    """Return the surroundings in which Ansible was imported."""
    if _state.imported is None:
        raise RuntimeError("the fork server is not prepared")
    return _state.imported


def payloads() -> Path:
    """Return the folder that has one folder of module payloads per content."""
    return _state.payloads


def pages_of(kind: str) -> Path:
    """Return the file that tells which pages a process of *kind* copies."""
    return _state.payloads.with_name(f"pages-{kind}")


def why_never() -> str | None:
    """Return why no run at all can be forked; None where that isn't so."""
    return _state.why_never


def prepare(start: Start, module_server_address: str | None, *, modules: Iterable[str] = ()) -> str:
    """Load everything into this process, once; return the version of ansible-core.

    *modules* are the names of the modules that the watched content uses: their action plugins are loaded too.

    Raises:
        Exception: Ansible or ansible-runner can't be imported, or can't play a trivial play.
    """
    _state.started_with = dict(os.environ)
    _state.payloads = Path(start.scratch) / "payloads"
    _state.payloads.mkdir(mode=0o700, exist_ok=True)
    if module_server_address is not None:
        module_client.ADDRESS = module_server_address
    runner = importlib.import_module("ansible_runner.__main__")
    importlib.import_module("pexpect")
    importlib.import_module(f"{__package__}.spawn")
    folder = Path(tempfile.mkdtemp(prefix="warm-", dir=start.scratch))
    try:
        environ = _environment(_make_private_data_dir(folder), folder=folder)
        with _surroundings(environ, cwd=folder / "project"):
            with _Terminal() as terminal:
                importlib.import_module("ansible.cli.playbook")
            internals.remember_messages()
            _state.imported = _look(environ, folder=folder, said=terminal.said)
            with _silence():
                parsers.keep(runner)
                _play(folder, modules=modules)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if threading.active_count() > 1:
        raise RuntimeError(f"threads are left: {', '.join(thread.name for thread in threading.enumerate())}")
    _state.why_never = "ANSIBLE_DEBUG is on" if internals.is_debugging() else None
    return internals.version()


def _make_private_data_dir(folder: Path) -> Path:
    for name in ("env", "project", "inventory", "tmp", "roles/warm/tasks"):
        (folder / name).mkdir(mode=0o700, parents=True)
    (folder / "env/envvars").write_text("{}")
    (folder / "env/extravars").write_text("{}")
    (folder / "env/settings").write_text(json.dumps({"fact_cache": str(folder / "fact_cache")}))
    (folder / "inventory/hosts").write_text(_HOSTS)
    (folder / "project/main.json").write_text(json.dumps(_PLAY))
    (folder / "roles/warm/tasks/main.yml").write_text(json.dumps(_TASKS))
    return folder


def _environment(private_data_dir: Path, *, folder: Path) -> dict[str, str]:
    """Return the variables that ansible-runner starts a playbook with, from this process's."""
    from ansible_runner.config.runner import RunnerConfig  # noqa: PLC0415 - imported here, not with this module

    config = RunnerConfig(
        private_data_dir=str(private_data_dir), ident="warm", playbook="main.json", roles_path=[str(folder / "roles")]
    )
    config.prepare()
    own = {"TMPDIR": str(folder / "tmp"), "ANSIBLE_LOCAL_TEMP": str(folder / "local")}
    return {**{str(name): str(value) for name, value in config.env.items()}, **own}


def _look(environ: Mapping[str, str], *, folder: Path, said: bytes) -> sameness.Imported:
    config = internals.config_file()
    refreshed = {*sameness.REFRESHED}
    of_folder = [name for name in internals.settings_that_mention(str(folder)) if name not in refreshed]
    return sameness.Imported(
        environ=dict(environ),
        config=config,
        config_state=None if config is None else sameness.state_of(config),
        of_folder=tuple(of_folder),
        said=said,
    )


def _play(folder: Path, *, modules: Iterable[str]) -> None:
    """Play the trivial play, and undo what it did to this process."""
    try:
        with internals.only_own_callbacks():
            code = _play_in(folder, modules=modules)
    finally:
        shutil.rmtree(internals.local_temp(), ignore_errors=True)
        internals.renew_process_names()
        internals.forget_play()
        internals.forget_foreign_plugins()
    preloads.preload_callback_options()
    if code != 0:
        raise RuntimeError(f"a trivial play fails with exit code {code}")
    if internals.shadow_connection(CONNECTION_PLUGINS):
        preloads.preload_plugins([("connection_loader", "local")])
    internals.unshadow_when(CONNECTION_PLUGINS)
    internals.remember_configured()


def _play_in(folder: Path, *, modules: Iterable[str]) -> int:
    """Play through Ansible's Python API, as its documentation shows."""
    from ansible import context  # noqa: PLC0415 - imported here, not with this module
    from ansible.cli.playbook import PlaybookCLI  # noqa: PLC0415
    from ansible.executor.task_queue_manager import TaskQueueManager  # noqa: PLC0415
    from ansible.inventory.manager import InventoryManager  # noqa: PLC0415
    from ansible.module_utils.common.collections import ImmutableDict  # noqa: PLC0415
    from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415
    from ansible.playbook import Playbook  # noqa: PLC0415
    from ansible.plugins.loader import init_plugin_loader  # noqa: PLC0415
    from ansible.vars.manager import VariableManager  # noqa: PLC0415

    playbook = str(folder / "project/main.json")
    program = str(Path(sys.executable).parent / "ansible-playbook")
    internals.keep_parser(PlaybookCLI, program=program)
    cli = PlaybookCLI([program, "-i", str(folder / "inventory"), playbook])
    cli.init_parser()
    options = cli.post_process_args(cli.parser.parse_args(cli.args[1:]))
    context.CLIARGS = ImmutableDict(vars(options))
    init_plugin_loader()
    preloads.preload_plugins(_PLUGINS)
    preloads.preload_all(("become_loader", "connection_loader", "shell_loader"))
    preloads.preload_actions(modules)
    loader = DataLoader()
    preloads.preload_templating(loader)
    inventory = InventoryManager(loader=loader, sources=context.CLIARGS["inventory"])
    variables = VariableManager(loader=loader, inventory=inventory, version_info=cli.version_info())
    manager = TaskQueueManager(
        inventory, variables, loader, {}, "default"
    )  # by position: 2.18 and 2.19 differ in names
    manager.load_callbacks()
    try:
        played = [manager.run(play) for play in Playbook.load(playbook, variables, loader).get_plays()]
    finally:
        manager.cleanup()
        loader.cleanup_all_tmp_files()
    return int(max(played))


@contextlib.contextmanager
def _surroundings(environ: Mapping[str, str], *, cwd: Path) -> Iterator[None]:
    """Be where a playbook is started; afterwards be where this process was, its signals' handlers too."""
    variables, here, arguments = dict(os.environ), Path.cwd(), sys.argv
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _set_environment(environ)
        os.chdir(cwd)
        tempfile.tempdir = None
        sys.argv = [str(Path(sys.executable).parent / "ansible-playbook")]
        yield
    finally:
        sys.argv = arguments
        os.chdir(here)
        _set_environment(variables)
        tempfile.tempdir = None
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _set_environment(wanted: Mapping[str, str]) -> None:
    """Set only what differs: the room of the mark stays where it is."""
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


class _Streams:
    """Standard streams that are others for a while, down to their descriptors."""

    def __enter__(self) -> Any:
        self._objects = {name: getattr(sys, name) for name in _NAMES}
        for name in ("stdout", "stderr"):
            self._objects[name].flush()
        self._descriptors = [os.dup(descriptor) for descriptor in range(3)]
        self.redirect()
        forking.rebuild_stdio()
        return self

    def redirect(self) -> None:
        """Make descriptors 0, 1 and 2 what they shall be."""
        raise NotImplementedError

    def read_rest(self) -> None:
        """See what was written, before the descriptors are what they were."""

    def __exit__(self, *_: object) -> None:
        for name in ("stdout", "stderr"):
            getattr(sys, name).flush()
        for descriptor, former in enumerate(self._descriptors):
            os.dup2(former, descriptor)
            os.close(former)
        self.read_rest()
        for name, stream in self._objects.items():
            setattr(sys, name, stream)


_NAMES = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")


class _Terminal(_Streams):
    """A terminal as a playbook has one: what an import decides on by looking at it is decided rightly."""

    said = b""

    def redirect(self) -> None:
        self._own, other = os.openpty()
        _spawn().set_up(other)
        for descriptor in range(3):
            os.dup2(other, descriptor)
        os.close(other)

    def read_rest(self) -> None:
        with contextlib.suppress(OSError):  # its other end is closed: all was read
            while chunk := os.read(self._own, 65536):
                self.said += chunk.replace(b"\r\n", b"\n")
        os.close(self._own)


class _Silence(_Streams):
    """Nothing to read, and what is written goes nowhere."""

    def redirect(self) -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        os.close(nothing)


def _silence() -> _Silence:
    return _Silence()


def _spawn() -> ModuleType:
    return importlib.import_module(f"{__package__}.spawn")
