"""Run by an interpreter that has Ansible: does to ansible-core what the far side does, and prints what came of it."""

# ruff: noqa: PLC0415 - what is imported when is what this is about

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

FAR, FOLDER = (Path(argument) for argument in sys.argv[1:])


def load() -> Any:
    """Load the far side as its server does; return the module under test."""
    spec = importlib.util.spec_from_file_location("far_main", FAR / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    entry = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(entry)
    entry.load()
    return importlib.import_module("ansible_operator_warm.ansible_internals")


def main() -> dict[str, Any]:
    """Return what was found, by the name of the test."""
    os.environ["ANSIBLE_LOCAL_TEMP"] = str(FOLDER / "first")
    os.environ["ANSIBLE_ROLES_PATH"] = "/roles/first"
    os.environ["ANSIBLE_LOG_PATH"] = str(FOLDER / "ansible.log")
    os.environ["ANSIBLE_FILTER_PLUGINS"] = "relative/filters"
    internals = load()
    before = internals.loaded()
    importlib.import_module("ansible.cli.playbook")
    return {
        "loaded": [before, internals.loaded()],
        "version": internals.version(),
        "settings": settings(internals),
        "identifiers": identifiers(internals),
        "display": display(internals),
        "log": log(internals),
        "locks": locks(internals),
        "workers": workers(internals),
        "parser": parser(internals),
        "play": play(internals),
        "plugins": plugins(internals),
        "connection": connection(internals),
        "templating": templating(internals),
    }


def templating(internals: Any) -> dict[str, Any]:
    """Prepare for templates, and let a folder with filters appear that the settings name."""
    from ansible.parsing.dataloader import DataLoader
    from ansible.plugins.loader import filter_loader, test_loader

    preloads = importlib.import_module("ansible_operator_warm.ansible_preloads")
    preloads.preload_templating(DataLoader())
    loaded = [filter_loader.get("b64encode"), filter_loader.get("combine"), test_loader.get("match")]
    internals.renew_configured(FOLDER / "shadow")
    kept = filter_loader.get("combine") is loaded[1]
    folder = FOLDER / "relative/filters"
    folder.mkdir(parents=True)
    (folder / "own.py").write_text("class FilterModule:\n    def filters(self):\n        return {'own': len}\n")
    internals.renew_configured(FOLDER / "shadow")
    return {
        "loaded": [found is not None for found in loaded],
        "kept": kept,
        "own": filter_loader.get("own") is not None,
    }


def settings(internals: Any) -> dict[str, Any]:
    """Renew settings."""
    from ansible import constants

    mentioned = internals.settings_that_mention(str(Path.cwd()))
    first = internals.local_temp()
    os.environ["ANSIBLE_LOCAL_TEMP"] = str(FOLDER / "second")
    os.environ["ANSIBLE_ROLES_PATH"] = "/roles/second"
    os.environ["ANSIBLE_CACHE_PLUGIN_CONNECTION"] = "/facts"
    internals.renew_settings(["DEFAULT_LOCAL_TMP", "DEFAULT_ROLES_PATH", "CACHE_PLUGIN_CONNECTION"])
    return {
        "mentioned": mentioned,
        "local": [first.parent.name, internals.local_temp().parent.name, internals.local_temp().is_dir()],
        "others": [constants.DEFAULT_ROLES_PATH, constants.CACHE_PLUGIN_CONNECTION],
        "config": internals.config_file(),
        "debug": internals.is_debugging(),
        "verbosity": internals.verbosity(),
    }


def identifiers(internals: Any) -> list[str]:
    """Take three ids, with a renewal before the last."""
    from ansible.utils.vars import get_unique_id

    ids = [get_unique_id(), get_unique_id()]
    internals.renew_identifiers()
    return [*ids, get_unique_id()]


def display(internals: Any) -> dict[str, Any]:
    """Warn twice, renew, warn again; see what each stream got."""
    from ansible.utils.display import Display

    shown = Display()
    counts = []
    for _ in range(2):
        shown.verbosity = 3
        with (FOLDER / "shown").open("w+") as stream:
            sys.stdout, sys.stderr = stream, stream
            internals.renew_display()
            shown.warning("once")
            shown.warning("once")
            errors = stream.errors
            stream.flush()
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        counts.append((FOLDER / "shown").read_text().count("once"))
    return {"counts": counts, "verbosity": shown.verbosity, "errors": errors, "columns": shown.columns}


def log(internals: Any) -> list[str]:
    """Write to the log, renew it where its file is elsewhere by now, write again."""
    logging.getLogger("ansible").info("one")
    (FOLDER / "ansible.log").rename(FOLDER / "old.log")
    internals.renew_log_file()
    logging.getLogger("ansible").info("two")
    return [(FOLDER / name).read_text().strip()[-3:] for name in ("old.log", "ansible.log")]


def locks(internals: Any) -> dict[str, Any]:
    """Hold each lock between processes, renew them, and see whether they are free."""
    importlib.import_module("ansible.plugins.strategy")
    module = sys.modules.get("ansible.executor.action_write_locks")
    if module is None:
        internals.renew_locks()
        return {"held": 0, "free": True}
    held = dict(module.action_write_locks)
    for lock in held.values():
        lock.acquire()
    internals.renew_locks()
    return {"held": len(held), "free": all(lock.acquire(block=False) for lock in module.action_write_locks.values())}


def workers(internals: Any) -> list[str]:
    """Start a worker, renew, start another; return their names."""
    from ansible.utils.multiprocessing import context

    names = []
    for _ in range(2):
        internals.renew_process_names()
        worker = context.Process(target=int)
        worker.start()
        names.append(worker.name)
    worker.join()
    return names


def parser(internals: Any) -> dict[str, Any]:
    """Keep the parser and parse twice."""
    from ansible.cli.playbook import PlaybookCLI

    arguments = ["ansible-playbook", "-e", "a=1", "-vv", "--tags", "x", "play.yml"]
    fresh = PlaybookCLI(arguments)
    fresh.init_parser()
    expected = vars(fresh.post_process_args(fresh.parser.parse_args(arguments[1:])))
    internals.keep_parser(PlaybookCLI, program="/bin/ansible-playbook")
    kept = []
    for _ in range(2):
        cli = PlaybookCLI(arguments)
        cli.init_parser()
        kept.append(vars(cli.post_process_args(cli.parser.parse_args(arguments[1:]))) == expected)
    return {"same": kept, "one": cli.parser is not fresh.parser, "prog": cli.parser.prog}


def play(internals: Any) -> dict[str, Any]:
    """Leave traces as a play does, and forget them."""
    from ansible import context
    from ansible.module_utils.common.collections import ImmutableDict
    from ansible.parsing import vault
    from ansible.plugins.loader import init_plugin_loader
    from ansible.utils.collection_loader import AnsibleCollectionConfig

    context.CLIARGS = ImmutableDict(tags=["a"])
    init_plugin_loader()
    importlib.import_module("ansible_collections.ansible.builtin")
    if hasattr(vault, "VaultSecretsContext"):
        vault.VaultSecretsContext.initialize(vault.VaultSecretsContext([]))
    internals.forget_play()
    kept = "ansible_collections.ansible.builtin" in sys.modules
    internals.forget_collections()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        init_plugin_loader()
    importlib.import_module("ansible_collections.ansible.builtin")
    if hasattr(vault, "VaultSecretsContext"):
        vault.VaultSecretsContext.initialize(vault.VaultSecretsContext([]))
    return {
        "arguments": dict(context.CLIARGS),
        "kept": kept,
        "warned": [str(warning.message) for warning in warned],
        "finder": AnsibleCollectionConfig.collection_finder is not None,
    }


def plugins(internals: Any) -> dict[str, Any]:
    """Load Ansible's own action `debug`, then have a directory with another one."""
    from ansible.plugins import loader

    preloads = importlib.import_module("ansible_operator_warm.ansible_preloads")
    preloads.preload_plugins([("action_loader", "debug"), ("lookup_loader", "no_such_plugin")])
    preloads.preload_actions(["ansible.builtin.copy", "no.such.module"])
    copied = any(name.endswith(".plugins.action.copy") for name in sys.modules)
    internals.unshadow_when(FOLDER)
    told: list[str] = []
    internals.Directories.told = told.append
    beside = FOLDER / "action_plugins"
    beside.mkdir()
    (beside / "debug.py").write_text(
        "from ansible.plugins.action import ActionBase\nclass ActionModule(ActionBase):\n    mine = True\n"
    )
    loader.action_loader.add_directory(str(beside))
    loader.action_loader.add_directory(str(beside))
    found = loader.action_loader.get("debug", class_only=True)
    return {"copied": copied, "told": list(told), "mine": getattr(found, "mine", False)}


def connection(internals: Any) -> dict[str, Any]:
    """Shadow `local`, and then have a directory with one that comes first."""
    from ansible.plugins import loader

    ours, theirs = (FOLDER / name for name in ("ours", "theirs"))
    for folder in (ours, theirs):
        folder.mkdir()
        (folder / "local.py").write_text("")
    shadowed = internals.shadow_connection(ours)
    internals.unshadow_when(ours)
    first = Path(loader.connection_loader.find_plugin("local")).parent.name
    loader.connection_loader.add_directory(str(theirs))
    second = Path(loader.connection_loader.find_plugin("local")).parent.name
    return {"shadowed": shadowed, "first": first, "second": second, "again": internals.shadow_connection(ours)}


if __name__ == "__main__":
    tempfile.tempdir = str(FOLDER)
    found = main()
    (FOLDER / "found.json").write_text(json.dumps(found))
