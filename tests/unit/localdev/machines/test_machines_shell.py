"""What is read out of a boot script: variables, files, commands, and nothing is executed."""

from __future__ import annotations

import base64

import pytest

from runner.localdev.machines.shell import Shell


def read(script: str, **files: str) -> Shell:
    """Return what *script* leaves; a substituted command `id` prints `me`."""
    shell = Shell(substitute=lambda command: "me" if command == "id" else "", files=dict(files))
    shell.read(script)
    return shell


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("run one 'two three' four", ("run", "one", "two three", "four")),
        ("run one \\\n  two", ("run", "one", "two")),
        ('A=1; run "$A-${A}-$B-${B:-other}"', ("run", "1-1--other")),
        ('export A=$(id)\nrun --name="$A"', ("run", "--name=me")),
        ("A=`id`; run $A", ("run", "me")),
        ("if true; then run one; fi", ("run", "one")),
        ("true && run one || false", ("run", "one")),
        ("run one # and a comment", ("run", "one")),
        ('run "one\ntwo"', ("run", "one\ntwo")),
        ("A=b C=d run $C", ("run", "")),
        ("run one > /dev/null 2>&1", ("run", "one", "2")),
        ("echo hi # don't\nrun one", ("run", "one")),
        ("# don't \\\nrun one", ("run", "one")),
        ("A=$(id # don't\n)\nrun $A", ("run", "me")),
        ("run 'a # b' \"c # d\" e#f \\# # g", ("run", "a # b", "c # d", "e#f", "#")),
        ("cat <<< hello\nrun one", ("run", "one")),
        ("cat <<< EOF\nrun one\nEOF", ("run", "one")),
        ("X=$((1<<20)) Y=$((1<<n))\nrun one", ("run", "one")),
        ('echo "1 << x"\nrun one', ("run", "one")),
        ("A=$(cat <<EOF\nx\nEOF\n)\nrun $A", ("run", "x")),
        ("sudo -E -u root run one", ("run", "one")),
        ("timeout -k 5 300 run one", ("run", "one")),
        ("A=b sudo C=d env -i nohup run one", ("run", "one")),
        ("if ! /usr/bin/timeout 300 run one; then false; fi", ("run", "one")),
        ("readonly A=b\nrun $A", ("run", "b")),
    ],
)
def test_a_command_has_the_words_that_a_shell_gives_it(script: str, words: tuple[str, ...]) -> None:
    """Quotes, lines, variables, substitutions, separators, comments and what starts a command are those of a shell."""
    assert words in read(script).commands


@pytest.mark.parametrize(
    ("script", "content"),
    [
        ("cat > /f <<EOF\na $A\nb\nEOF", "a 1\nb\n"),
        ("cat > /f <<'EOF'\na $A\nEOF", "a $A\n"),
        ("cat <<EOF | tee /f\nx\nEOF", "x\n"),
        ("cat > /f <<-EOF\n\tx\n\tEOF", "x\n"),
        ("echo one > /f; echo two >> /f", "one\ntwo\n"),
        ("printf 'a=%s\\n' $A > /f", "a=1\n"),
        (f"echo {base64.b64encode(b'secret').decode()} | base64 -d > /f", "secret"),
        ("for file in /f /g; do echo x > $file; done", "x\n"),
        ("cat > /f <<EOF\n$(id)\nEOF", "me\n"),
        ("tee /f <<< $A", "1\n"),
        ('cat <<< "a $A" > /f', "a 1\n"),
        ("cat > /f <<'END-OF-IT' # don't\n# kept\nEND-OF-IT", "# kept\n"),
        ("bash -c 'cat > /f <<EOF\na $A\nEOF'", "a 1\n"),
    ],
)
def test_a_file_has_the_content_that_the_script_gives_it(script: str, content: str) -> None:
    """Here-documents, here-strings, redirections and tee make files; a quoted delimiter leaves variables alone."""
    assert read(f"A=1\n{script}").files["/f"] == content


def test_scripts_that_a_script_runs_are_read_too() -> None:
    """A sourced file gives its variables, a script that a shell runs its commands, `sh -c` its text."""
    files = {"/env": "A=1\n", "/more": "run $A\n"}
    shell = Shell(substitute=lambda _: "", files=files)
    shell.read(". /env\nsh /more\nbash -c 'run two'")
    assert {("run", "1"), ("run", "two")} <= set(shell.commands)


def test_a_script_that_runs_itself_ends() -> None:
    """Reading stops at some depth."""
    shell = Shell(substitute=lambda _: "", files={"/self": "sh /self\nrun\n"})
    shell.read("sh /self")
    assert ("run",) in shell.commands


def test_an_open_quotation_at_the_end_does_no_harm() -> None:
    """What can't be read to its end is left out; what came before it stays."""
    assert read('run one\nrun "two').commands == [("run", "one")]
