"""What a person at a terminal sees: tables, no escape sequences of stored text, questions."""

import os
import re
import subprocess
import sys

import pytest

from memspine.cli.text import block, json_line, one_line

pty = pytest.importorskip("pty")

EVIL = "before \x1b]0;owned\x07\x1b[31mred\x9b1m \u202egnp.exe\r\n\tafter"


def on_terminal(cli, *arguments, answer=b"", columns=200, environ=None):
    """Exit code and everything that was printed, on a terminal of the given width."""
    import fcntl
    import struct
    import termios

    terminal, side = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "memspine", "--config", cli.config, *arguments],
        stdin=side,
        stdout=side,
        stderr=side,
        env={**cli.environ, "TERM": "xterm-256color", **(environ or {})},
    )
    os.close(side)
    if answer:
        os.write(terminal, answer)
    printed = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other side has ended
            chunk = b""
        if not chunk:
            break
        printed += chunk
    os.close(terminal)
    return process.wait(), printed.decode()


@pytest.mark.parametrize("columns", [60, 200])
@pytest.mark.parametrize(
    "command",
    [["list"], ["search", "before", "--explain"], ["list", "--json"], ["history", "evil"], ["get", "evil"], ["stats"],
     ["export", "-"]],
    ids=lambda command: command[0] + ("-json" if "--json" in command else ""),
)  # fmt: skip
def test_stored_text_controls_no_terminal(cli, command, columns):
    """Escape sequences, control characters and direction marks of stored text never reach the terminal."""
    cli.add(EVIL, "--id", "evil", "--session", "s\x1b[2J", "--key", "k\x1b[2J", "--metadata", '{"\x7f\x9b": "\\u001b"}')
    code, printed = on_terminal(cli, *command, columns=columns)
    assert code == 0
    ours = re.sub(r"\x1b\[[0-9;]*m", "", printed).replace("\r\n", "\n")  # what rich draws with
    assert "\x1b[31m" not in printed
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", ours)
    if command[0] != "stats":
        assert "before" in ours


def test_pipes_get_no_control_characters_either(cli):
    """Lines for other programs hold escapes instead, one line a memory."""
    cli.add(EVIL)
    answer = cli.ok("list")
    assert answer.lines[0].endswith(r"before \x1b]0;owned\x07\x1b[31mred\x9b1m \u202egnp.exe\r\n\tafter")
    assert len(answer.lines) == 1


def test_json_keeps_every_character(cli):
    """JSON answers hold the text itself, harmful characters as escapes of JSON."""
    id = cli.add(EVIL)
    answer = cli.ok("get", id, "--json")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", answer.out)
    assert answer.data["memory"]["content"] == EVIL


def test_escapes():
    """Text on one line, text in lines and JSON each show harmful characters in their own way."""
    assert one_line("a\nb\tc\x1b\x9b\u2028\ud800") == r"a\nb\tc\x1b\x9b\u2028\ud800"
    assert block("a\r\nb\tc\x1b") == "a\nb\tc\\x1b"
    assert json_line('{"a": "\x7f\u202e"}') == r'{"a": "\u007f\u202e"}'
    assert one_line("日本語 🧠 👩‍💻 עברית") == "日本語 🧠 👩‍💻 עברית"


def test_wide_terminals_get_tables(cli):
    """Where there is room, memories are a table with headings, empty columns left out."""
    pytest.importorskip("rich")
    cli.add("Juno eats duck")
    _, printed = on_terminal(cli, "list")
    assert all(heading in printed for heading in ("id", "created", "type", "content"))
    assert "session" not in printed
    assert "1 of 1" in printed
    assert "\x1b[1m" in printed


def test_narrow_terminals_get_paragraphs(cli):
    """Where there is no room, each memory is a paragraph and its id stays in one piece."""
    id = cli.add("Juno eats duck " * 20)
    _, printed = on_terminal(cli, "list", columns=60)
    assert id in printed


def test_no_color(cli):
    """With NO_COLOR nothing is styled."""
    cli.add("Juno eats duck")
    _, printed = on_terminal(cli, "list", environ={"NO_COLOR": "1"})
    assert "\x1b" not in printed
    assert "Juno eats duck" in printed


def test_without_rich(cli, tmp_path):
    """Without rich a terminal gets the plain lines."""
    folder = tmp_path / "hiding"
    folder.mkdir()
    (folder / "rich.py").write_text("raise ImportError('not installed')\n")
    id = cli.add("Juno eats duck")
    code, printed = on_terminal(cli, "list", environ={"PYTHONPATH": str(folder)})
    assert code == 0
    assert re.search(rf"{id}\s+2.*Juno eats duck", printed)
    assert "\x1b" not in printed


def test_json_is_readable_on_a_terminal(cli):
    """On a terminal JSON has lines and indents, for other programs it is one line."""
    _, printed = on_terminal(cli, "list", "--json")
    assert printed.startswith('{\r\n  "data"')
    assert len(cli.ok("list", "--json").lines) == 1


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", 0), (b"yes\n", 0), (b"n\n", 1), (b"\n", 1)])
def test_purge_asks(cli, answer, left):
    """`purge --all` asks on a terminal, and only a yes erases."""
    cli.add("text")
    code, printed = on_terminal(cli, "purge", "--all", answer=answer)
    assert code == 0
    assert "Erase everything of 'me' (memories: 1) for good? [y/N]" in printed
    assert cli.ok("list", "--json").data["total"] == left


def test_progress_of_an_import(cli, work):
    """An import shows on a terminal how far it is."""
    (work / "many.txt").write_text("\n\n".join(f"paragraph {number}" for number in range(600)))
    _, printed = on_terminal(cli, "import", "many.txt")
    assert "many.txt: 500 memories" in printed


def test_other_encodings(cli):
    """Characters that the encoding of standard output lacks are escapes, in JSON those of JSON."""
    cli.add("日本語 café")
    answer = cli.process("list", environ={"PYTHONIOENCODING": "latin-1"}, encoding="latin-1")
    assert answer.code == 0
    assert "\\u65e5\\u672c\\u8a9e caf\xe9" in answer.out
    answer = cli.process("list", "--json", environ={"PYTHONIOENCODING": "ascii"})
    assert answer.data["data"][0]["content"] == "日本語 café"
