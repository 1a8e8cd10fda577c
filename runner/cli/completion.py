"""Completion in the user's shell: click's scripts and protocol, with one mend for bash."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class

SHELLS = ("bash", "zsh", "fish", "powershell")


class _Bash(BashComplete):
    """Bash hands over `--flag=value` as three words; click takes two."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return what was typed so far without the words that are only `=`, and the word to complete."""
        words, incomplete = super().get_completion_args()
        return [word for word in words if word != "="], incomplete


add_completion_class(_Bash)


def script(command: click.Command, *, name: str, shell: str) -> str:
    """Return what *shell* must run to complete *command*, which it knows as *name*."""
    complete = get_completion_class(shell)
    assert complete is not None  # noqa: S101 - click has all four
    return complete(command, {}, name, f"_{name.replace('-', '_').upper()}_COMPLETE").source()
