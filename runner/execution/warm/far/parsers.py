"""ansible-runner's command line parser, built once in the server: building its 200 arguments takes longer than a fork.

`ansible_runner.__main__.main` builds it on each call. In a run it gets one that is built, and that takes what is said
about arguments for said.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Any


class _Built:
    """Stands in for a parser, its subparsers and groups while `main` describes them again."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        self.required = True

    def _again(self, *_: object, **__: object) -> _Built:
        return self

    add_argument = add_argument_group = add_mutually_exclusive_group = add_subparsers = add_parser = _again

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def keep(module: Any) -> bool:
    """Let `main` of *module*, ansible-runner's, use one parser from now on; tell whether that was possible.

    It isn't where a release builds its parser in another way: then it goes on doing so.
    """
    kind = getattr(module, "AnsibleRunnerArgumentParser", None)
    if kind is None:
        return False
    built: list[argparse.ArgumentParser] = []

    def remembering(*args: Any, **kwargs: Any) -> argparse.ArgumentParser:
        built.append(kind(*args, **kwargs))
        return built[-1]

    module.AnsibleRunnerArgumentParser = remembering
    try:
        with contextlib.suppress(SystemExit):
            module.main(["--version"])  # it is parsed after all was described, and ends there
    finally:
        module.AnsibleRunnerArgumentParser = kind
    if len(built) != 1:
        return False
    module.AnsibleRunnerArgumentParser = lambda *_, **__: _Built(built[0])
    return True
