"""ansible-runner's parser is built once and parses each time the same."""

from __future__ import annotations

import argparse
import types
from typing import Any

import pytest

from runner.execution.warm.far import parsers


class Parser(argparse.ArgumentParser):
    """Counts how often one is built."""

    built = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Count."""
        type(self).built += 1
        super().__init__(*args, **kwargs)


def runner() -> Any:
    """Return a module with a command line like ansible-runner's."""
    module: Any = types.ModuleType("runner")

    def main(arguments: list[str]) -> dict[str, Any]:
        parser = module.AnsibleRunnerArgumentParser(prog="ansible-runner")
        commands = parser.add_subparsers(dest="command")
        commands.required = True
        parser.add_argument("--version", action="version", version="2")
        run = commands.add_parser("run")
        run.add_argument("folder")
        group = run.add_argument_group("more").add_mutually_exclusive_group()
        group.add_argument("--role", action="append", default=[])
        group.add_argument("--play")
        return dict(vars(parser.parse_args(arguments)))

    module.AnsibleRunnerArgumentParser = Parser
    module.main = main
    return module


def test_warm_parser_is_built_once() -> None:
    """After the first time nothing is built, and what is parsed is the same, each time."""
    module = runner()
    fresh = module.main(["run", "/data", "--role", "one"])
    assert parsers.keep(module)
    before = Parser.built
    assert [module.main(["run", "/data", "--role", "one"]) for _ in range(2)] == [fresh, fresh]
    assert Parser.built == before


def test_warm_parser_still_refuses_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments end with what argparse says."""
    module = runner()
    assert parsers.keep(module)
    with pytest.raises(SystemExit) as leaving:
        module.main(["run", "/data", "--role", "one", "--play", "two"])
    assert leaving.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_warm_parser_of_another_kind_is_left_alone() -> None:
    """A release that builds its parser in another way goes on doing so."""
    module: Any = types.ModuleType("runner")
    module.main = lambda _: {}
    assert not parsers.keep(module)
