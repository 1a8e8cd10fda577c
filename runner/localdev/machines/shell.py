"""Reads a boot script as far as a join needs it: assignments, files that it writes, commands with their words.

Nothing is executed. `cloud_init` gives scripts to it, `styles` looks for the joining command in what comes out. Every
branch counts as taken, a function's body as called once; what a command prints is known for `echo`, `printf`, `cat`,
`base64 -d`, `tee` and for questions to the metadata service. What starts other commands, such as `sudo` and `timeout`,
is looked through.
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_HEREDOC = re.compile(r"(?<!<)<<(?!<)(-?)[ \t]*(\\|['\"]?)([\w.-]+)['\"]?")
_COMMENT = re.compile(r"""(\\.|'[^']*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\Z))|(?:\A|(?<=[\s;&|()]))#[^\n]*""", re.DOTALL)
"""A comment, or in its group what may hold a `#` that begins none."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?[-=]([^}]*))?\})")
_PLACEHOLDER = re.compile("\x02(\\d+)\x02")
_BACKTICKS = re.compile(r"`([^`]*)`")
_HEREDOC_MARK = re.compile("\x03(\\d+)")
_KEYWORDS = {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi", "done", "eval"}
_STARTERS: Mapping[str, Set[str]] = {
    "sudo": {"-u", "-g", "-h", "-p", "-r", "-t", "-C", "-D", "-R", "-T", "-U", "--user", "--group", "--chdir"},
    "timeout": {"-k", "-s", "--kill-after", "--signal"},
    "env": {"-u", "-C", "--unset", "--chdir"},
    "nice": {"-n", "--adjustment"},
    "ionice": {"-c", "-n"},
    "exec": {"-a"},
    **dict.fromkeys(("nohup", "setsid", "time", "command", "export", "readonly", "local", "declare"), frozenset[str]()),
}
"""What stands before a command, and which of its options have a value."""
_OPERATORS = set("();&|")
_PIPES = {"|", "|&"}
_SHELLS = {"sh", "bash", "dash"}
_DEEPEST = 5


@dataclass(kw_only=True)
class Shell:
    """What is known while scripts are read, one after the other."""

    substitute: Callable[[str], str]
    """Returns what a substituted command prints, empty where that isn't known."""
    files: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    bodies: list[tuple[str, bool]] = field(default_factory=list)
    """Of all here-documents, by the number in their mark, and whether variables stand for their values there."""

    def read(self, script: str, *, depth: int = 0) -> None:
        """Read *script* to its end."""
        for tokens, inner in _statements(script, bodies=self.bodies):
            reader = _Statement(shell=self, inner=inner, depth=depth)
            for pipeline in _split(tokens, _ends):
                reader.pipeline(pipeline)

    def run(self, words: Sequence[str], *, depth: int = 0) -> None:
        """Note a command, and read the script that it runs, where that is one of the files."""
        self.commands.append(tuple(words))
        if depth >= _DEEPEST:
            return
        name = PurePosixPath(words[0]).name
        rest = [word for word in words[1:] if not word.startswith("-")]
        if words[0] in {".", "source"} or (name in _SHELLS and "-c" not in words):
            target = rest[0] if rest else ""
        else:
            target = words[0]
        if target in self.files:
            self.read(self.files[target], depth=depth + 1)
        elif name in _SHELLS and rest and any(word.startswith("-") and "c" in word for word in words[1:]):
            self.read(rest[0], depth=depth + 1)

    def expand(self, text: str, *, inner: Sequence[str] = ()) -> str:
        """Return *text* with the values of its variables and of the commands *inner* that placeholders stand for.

        What isn't known is empty, as in a shell.
        """
        known = _VARIABLE.sub(lambda found: self.variables.get(found[1] or found[2]) or found[3] or "", text)
        return _PLACEHOLDER.sub(lambda found: self._output_of(inner[int(found[1])].strip()), known)

    def _output_of(self, command: str) -> str:
        words = command.split()
        if len(words) == 2 and words[0] == "cat":
            if mark := _HEREDOC_MARK.fullmatch(words[1]):
                return self.body(int(mark[1])).rstrip("\n")
            return self.files.get(self.expand(words[1]), "").rstrip("\n")
        return self.substitute(command)

    def body(self, index: int) -> str:
        """Return what a here-document says."""
        text, is_open = self.bodies[index]
        if not is_open:
            return text
        inner: list[str] = []
        return self.expand(_without_substitutions(text, inner=inner), inner=inner)


@dataclass(kw_only=True)
class _Statement:
    """Reads the commands of one logical line."""

    shell: Shell
    inner: Sequence[str]
    """Of its command substitutions."""
    depth: int

    def pipeline(self, tokens: Sequence[str]) -> None:
        """Read commands whose output goes into the next one."""
        stdin = ""
        for command in _split(tokens, _PIPES.__contains__):
            stdin = self._command(list(command), stdin=stdin)

    def _command(self, tokens: list[str], *, stdin: str) -> str:
        """Read one command and return what it prints."""
        words, target, append, stdin = self._redirected(tokens, stdin=stdin)
        words = self._without_starters(words)
        if words[:1] == ["for"] and words[2:3] == ["in"]:
            self.shell.variables[words[1]] = next(iter(words[3:]), "")
        if not words:
            return ""
        printed = _printed(words, stdin=stdin, files=self.shell.files)
        for path in [target, *(words[1:] if words[0] == "tee" else ())]:
            if path and not path.startswith(("-", "/dev/")):
                before = self.shell.files.get(path, "") if append or "-a" in words else ""
                self.shell.files[path] = before + printed
        self.shell.run(words, depth=self.depth)
        return printed

    def _without_starters(self, words: list[str]) -> list[str]:
        """Return the command in *words*; keep what is assigned before it."""
        while words:
            first, *rest = words
            starter = PurePosixPath(first).name
            if found := _ASSIGNMENT.fullmatch(first):
                self.shell.variables[found[1]] = found[2]
            elif starter in _STARTERS:
                while rest and rest[0].startswith("-"):
                    rest = rest[2 if rest[0] in _STARTERS[starter] else 1 :]
                rest = rest[1:] if starter == "timeout" else rest
            elif first not in _KEYWORDS:
                break
            words = rest
        return words

    def _redirected(self, tokens: list[str], *, stdin: str) -> tuple[list[str], str, bool, str]:
        """Return the words, the file that the output goes to, whether it is appended, and the input."""
        words: list[str] = []
        target, append = "", False
        position = 0
        while position < len(tokens):
            token = tokens[position]
            if mark := _HEREDOC_MARK.fullmatch(token):
                stdin = self.shell.body(int(mark[1]))
            elif token == "<<<" and position + 1 < len(tokens):  # noqa: S105 - a token of the shell's grammar
                position += 1
                stdin = f"{self._word(tokens[position])}\n"
            elif token in {">", ">>", ">|"} and position + 1 < len(tokens):
                position += 1
                target, append = self._word(tokens[position]), token == ">>"  # noqa: S105 - a token of the shell's grammar
            elif token in {">&", "<", "<&", "<<"}:
                position += 1
            else:
                words.append(self._word(token))
            position += 1
        return words, target, append, stdin

    def _word(self, token: str) -> str:
        return self.shell.expand(token, inner=self.inner)


def _printed(words: Sequence[str], *, stdin: str, files: dict[str, str]) -> str:
    arguments = [word for word in words[1:] if not word.startswith("-")]
    match words[0]:
        case "echo":
            return " ".join(word for word in words[1:] if word not in {"-n", "-e"}) + ("" if "-n" in words else "\n")
        case "printf" if arguments:
            return _formatted(arguments[0], values=arguments[1:])
        case "cat":
            return "".join(files.get(path, "") for path in arguments) if arguments else stdin
        case "tee":
            return stdin
        case "base64" if {"-d", "-D", "--decode"} & set(words):
            return _decoded(stdin)
    return ""


def _formatted(pattern: str, *, values: Sequence[str]) -> str:
    text = pattern.replace("\\n", "\n").replace("\\t", "\t")
    parts = text.split("%s")
    if len(parts) == 1:
        return text
    count = len(parts) - 1
    filled = [*values, *([""] * (-len(values) % count))]
    rounds = [filled[start : start + count] for start in range(0, len(filled), count)] or [[""] * count]
    return "".join(
        "".join(f"{part}{value}" for part, value in zip(parts, group, strict=False)) + parts[-1] for group in rounds
    )


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _ends(token: str) -> bool:
    """Tell whether *token* ends a pipeline."""
    return set(token) <= _OPERATORS and token not in {"", *_PIPES}


def _split(tokens: Sequence[str], at: Callable[[str], bool]) -> Iterator[list[str]]:
    part: list[str] = []
    for token in tokens:
        if at(token):
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _statements(script: str, *, bodies: list[tuple[str, bool]]) -> Iterator[tuple[list[str], list[str]]]:
    """Give each logical line's tokens with its substituted commands; add its here-documents to *bodies*."""
    lines = script.splitlines()
    position = 0
    pending = ""
    while position < len(lines):
        line = _COMMENT.sub(lambda found: found[1] or "", f"{pending}{lines[position]}")
        position += 1
        if line.endswith("\\"):
            pending = line[:-1]
            continue
        line, position = _here_documents(line, lines=lines, position=position, bodies=bodies)
        inner: list[str] = []
        try:
            tokens = _tokens(_without_substitutions(line, inner=inner))
        except ValueError:  # a quotation, or a substitution, that goes on in the next line
            pending = f"{line}\n"
            continue
        pending = ""
        yield tokens, inner


def _here_documents(
    line: str, *, lines: Sequence[str], position: int, bodies: list[tuple[str, bool]]
) -> tuple[str, int]:
    """Return *line* with a mark in the place of each here-document, and where the next line is; add to *bodies*."""
    start = 0
    while found := _HEREDOC.search(line, start):
        start = found.end()
        ends = (number for number in range(position, len(lines)) if lines[number].strip() == found[3])
        if (end := next(ends, -1)) < 0:
            continue  # a shift of bits, or something quoted
        body = [text.lstrip("\t") if found[1] else text for text in lines[position:end]]
        front = f"{line[: found.start()]} \x03{len(bodies)} "
        line, start, position = f"{front}{line[found.end() :]}", len(front), end + 1
        bodies.append(("".join(f"{text}\n" for text in body), not found[2]))
    return line, position


def _without_substitutions(line: str, *, inner: list[str]) -> str:
    """Return *line* with a placeholder for each substituted command; ValueError: one isn't closed."""
    line = _BACKTICKS.sub(r"$(\1)", line)
    while (start := line.find("$(")) >= 0:
        depth = 0
        for end in range(start + 1, len(line)):
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            if depth == 0:
                break
        else:
            raise ValueError("no closing parenthesis")
        inner.append(line[start + 2 : end])
        line = f"{line[:start]}\x02{len(inner) - 1}\x02{line[end + 1 :]}"
    return line


def _tokens(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    return list(lexer)
