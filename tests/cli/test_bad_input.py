"""What cannot be right gets one clear line, a documented exit code, and changes nothing."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from memspine.cli.codes import Exit

from .refusals import refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "x" * 100_001], "at most 100000 characters (this has 100001)"),
        (["add", ""], "expected text that is not empty"),
        (["add", "x", "--key", "k" * 513], "at most 512 characters"),
        (["add", "x", "--owner", ""], "owner: '' cannot be used"),
        (["add", "x", "--type", "fact"], "expected one of factual, episodic, procedural, semantic"),
        (["add", "x", "--metadata", "[1]"], "expected a JSON object"),
        (["add", "x", "--metadata", "{a: 1}"], "expected a JSON object (Expecting property name"),
        (["add", "x", "--metadata", '{"a": NaN}'], "metadata"),
        (["add", "x", "--metadata", '{"a": ' + "[" * 40 + "]" * 40 + "}"], "at most 32 levels"),
        (["add", "x", "--metadata", '{"a": "' + "y" * 70_000 + '"}'], "metadata"),
        (["add", "x", "--expires", "2026-01-02T03:04:05"], "date and time with its offset"),
        (["add", "x", "--expires", "2026-01-02"], "date and time with its offset"),
        (["add", "x", "--expires", "tomorrow"], "or a duration such as 30d, 12h, 90m"),
        (["add", "x", "--expires", "999999999d"], "between the years 1 and 9999"),
        (["add", "x", "--expires", "999999999w"], "between the years 1 and 9999"),
        (["add", "x", "--expires=-3d"], "or a duration such as 30d"),
        (["add", "x", "--created", "9999-12-31T23:59:59-12:00"], "--created"),
        (["add", "x", "--created", "10000-01-01T00:00:00Z"], "--created"),
        (["add", "x", "--id", "white space"], "of the characters A-Z a-z 0-9"),
        (["add", "x", "--id", ""], "of the characters A-Z a-z 0-9"),
        (["list", "--limit", "-1"], "limit: -1 cannot be used; expected a whole number from 0 to 10000"),
        (["list", "--limit", "10001"], "expected a whole number from 0 to 10000"),
        (["list", "--cursor", "nonsense"], "cursor 'nonsense' cannot be used"),
        (["list", "--since", "2026-01-01T00:00"], "--since"),
        (["list", "--type", "fact"], "expected one of factual"),
        (["list", "--owner", ""], "owner: '' cannot be used"),
        (["search", "x", "--limit", "-1"], "limit: -1"),
        (["search", "x", "--max-tokens", "-1"], "max_tokens: -1"),
        (["search", "x", "--max-tokens", "16001"], "expected a whole number from 0 to 16000"),
        (["search", "x", "--strategy", "best"], "expected one of exact, semantic, hybrid"),
        (["get", "'; DROP TABLE memories"], "of the characters A-Z a-z 0-9"),
        (["delete", "x" * 129], "1 to 128"),
        (["purge", "a b"], "of the characters A-Z a-z 0-9"),
        (["import", "nowhere.jsonl"], "nowhere.jsonl: cannot be read: No such file"),
        (["backup", "."], "is there already"),
    ],
)
def test_unusable_values(cli, arguments, said):
    """A value that cannot be stored or asked for gives one line that names it and what was expected: 5."""
    refused(cli(*arguments), Exit.INVALID, said)
    assert cli.ok("list", "--json").data["total"] == 0


def test_errors_in_json(cli):
    """With --json an error is an object with message, type and the fields of the error as details."""
    answer = cli("add", "x" * 100_001, "--json")
    assert answer.out == ""
    assert list(answer.error) == ["message", "type", "details"]
    assert answer.error["type"] == "invalid"
    details = answer.error["details"]
    assert (details["field"], details["expected"]) == ("content", "at most 100000 characters (this has 100001)")
    assert len(details["value"]) < 400
    assert cli("get", "nope", "--json").error["type"] == "not_found"
    details = cli("get", "nope", "--json").error["details"]
    assert (details["backend"], details["id"]) == ("notes", "nope")


def test_standard_input_that_is_no_utf8(cli):
    """Text in another encoding is refused with the line and the byte, and nothing is stored."""
    refused(cli("add", "-", stdin=b"one\ntw\xf6\n"), Exit.INVALID, "standard input, line 2: byte 0xf6 is not UTF-8")
    refused(cli("add", "-", stdin="ö".encode("utf-16")), Exit.INVALID, "is not UTF-8")
    refused(cli("add", "-", stdin=b""), Exit.INVALID, "expected text that is not empty")
    refused(cli("add", "-", stdin="x" * 100_001), Exit.INVALID, "at most 100000 characters")
    assert cli.ok("list", "--json").data["total"] == 0


def test_standard_input_without_end(cli, monkeypatch):
    """More than any memory can hold is refused before it is all in memory."""
    monkeypatch.setattr("memspine.cli.values.INPUT_BYTES_MAX", 1000)
    refused(cli("add", "-", stdin="x" * 1001), Exit.INVALID, "more than 1000 bytes")


@pytest.mark.skipif(os.name != "posix", reason="arguments of POSIX are bytes")
def test_arguments_that_are_no_utf8(cli):
    """Bytes of an argument that are no UTF-8 are replaced and noted, as in every text, and never break the output."""
    command = [sys.executable, "-m", "memspine", "--config", cli.config, "add", b"caf\xe9"]
    run = subprocess.run(command, capture_output=True, env=cli.environ, check=False)
    assert run.returncode == 0
    assert run.stderr.startswith(b"memspine: note: content: ")
    command = [sys.executable, "-m", "memspine", "--config", b"caf\xe9.toml", "list"]
    run = subprocess.run(command, capture_output=True, env=cli.environ, check=False)
    assert run.returncode == Exit.CONFIG
    assert b"caf\\udce9.toml" in run.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[backends.n]\nplugin = "sqlit"\n', "no memory backend named 'sqlit'"),
        ('[memory]\nownr = "x"\n', "did you mean 'owner'?"),
        ("[memory]\nowner = 5\n", "expected str, got int 5"),
        ('[memory]\nowner = ""\n', "0 characters are out of range"),
        ("[retrieval]\nlimit = -1\n", "out of range"),
        ("[memory\n", "not TOML"),
        ('[memory]\nfallbacks = ["nobody"]\n', "no backend named 'nobody'"),
    ],
)
def test_unusable_configurations(cli, config, text, said):
    """A configuration that cannot be used stops every command with 3 and the file, line and key."""
    config.write_text(text)
    for command in (["list"], ["add", "x"], ["stats"], ["maintain"], ["config", "show"], ["config", "check"]):
        refused(cli(*command), Exit.CONFIG, f"{config}:", said)


def test_all_problems_at_once(cli, config):
    """Each problem of a configuration has a line of its own, whatever the command."""
    config.write_text("[memory]\nownr = 1\n[retrieval]\nlimit = 0\nnope = 1\n")
    answer = cli("list")
    assert answer.code == Exit.CONFIG
    assert answer.err.count("\n") == answer.err.count("memspine: ") == 3


@pytest.mark.parametrize("name", ["nowhere.toml", "."])
def test_configuration_that_cannot_be_read(cli, name):
    """A file named by --config that is not there, or is none, is refused with 3."""
    refused(cli("list", config=name), Exit.CONFIG, name)


PLUGIN = """
import contextlib
import attrs
from memspine.contracts import Provider
from memspine.hookspecs import hookimpl

@attrs.frozen
class Config:
    pass

@contextlib.asynccontextmanager
async def open_store(config, context):
    {open}
    yield

@hookimpl
def memspine_memory_backends():
    {hook}
    return [Provider(name="acme", config_type=Config, open=open_store)]
"""
BOOM = "raise RuntimeError('boom')"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (BOOM, (Exit.CONFIG, "plugin 'acme' (acme 1.5) failed in importing 'acme': RuntimeError: boom")),
        ("import does_not_exist", (Exit.CONFIG, "install the module 'does_not_exist'")),
        ("raise SystemExit(0)", (Exit.CONFIG, "failed in importing 'acme': SystemExit")),
        (PLUGIN.format(hook=BOOM, open="pass"), (Exit.CONFIG, "failed in its hook memspine_memory_backends")),
        (PLUGIN.format(hook="pass", open=BOOM), (Exit.UNAVAILABLE, "store: list failed: RuntimeError: boom")),
    ],
    ids=["import", "missing", "exits", "hook", "open"],
)
def test_plugins_that_raise(cli, config, install, code, expected):
    """A plugin that raises at import, in a hook or in open gives one line that names it; others are not affected."""
    install("acme", code)
    assert cli.ok("list", "--json").data["total"] == 0
    config.write_text('[backends.store]\nplugin = "acme"\n')
    refused(cli("list"), *expected)


def test_database_of_another_kind(cli, work):
    """A file that is no database is left as it is, and the store is unavailable: 7."""
    content = b"this is no database" * 1000
    (work / "notes.db").write_bytes(content)
    refused(cli("list"), Exit.UNAVAILABLE, "notes: ")
    refused(cli("add", "x"), Exit.UNAVAILABLE, "notes: ")
    assert (work / "notes.db").read_bytes() == content
    assert cli("list", "--json").error["type"] == "unavailable"


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
@pytest.mark.parametrize("there", [False, True], ids=["new", "existing"])
def test_folder_that_cannot_be_written(cli, config, unprivileged, there):
    """A store in a folder that this user cannot write is unavailable for writing: 7, and says so in one line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = folder / "settings.toml"
        settings.write_text(config.read_text())
        if there:
            cli.add("kept", config=settings)
            for file in folder.iterdir():
                file.chmod(0o444)
        folder.chmod(0o555)
        unprivileged()
        answer = cli("add", "x", config=settings)
        if os.getuid() == 0:
            os.seteuid(0)
        folder.chmod(0o700)
        refused(answer, Exit.UNAVAILABLE, "notes: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "~nosuchuser/all.jsonl"],
        ["import", "~nosuchuser/all.jsonl"],
        ["backup", "~nosuchuser/copy.db"],
        ["new-plugin", "acme", "--folder", "~nosuchuser"],
        ["quickstart", "--folder", "~nosuchuser/play"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_home_of_nobody_in_arguments(cli, arguments):
    """A file or folder in the home of a user who does not exist is refused with 5 and what to name instead."""
    refused(cli(*arguments), Exit.INVALID, "'~nosuchuser' is nobody's home folder; name the folder in full")


@pytest.mark.parametrize("command", [["list"], ["config", "path", "--json"], ["config", "set", "retrieval.limit", "5"]])
def test_home_of_nobody_in_the_choice_of_a_configuration(bare, monkeypatch, command):
    """A configuration or data folder in the home of a user who does not exist is refused with 3 and who named it."""
    said = "'~nosuchuser' is nobody's home folder"
    answers = {"~nosuchuser/a.toml": bare(*command, config="~nosuchuser/a.toml")}
    for variable in ("MEMSPINE_CONFIG", "MEMSPINE_DATA"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "~nosuchuser/a")
            answers[f"${variable}"] = bare(*command)
    for named, answer in answers.items():
        assert (answer.code, answer.out) == (Exit.CONFIG, ""), named
        assert f"{named}: {said}" in answer.err


NOISY = """
import contextlib
import attrs
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.contracts import Provider
from memspine.hookspecs import hookimpl

print("noise at import")

@attrs.frozen
class Config:
    pass

@contextlib.asynccontextmanager
async def open_store(config, context):
    print("noise at opening")
    backend = ReferenceBackend(context.name)
    yield backend
    backend.close()

@hookimpl
def memspine_memory_backends():
    print("noise in a hook")
    return [Provider(name="noisy", config_type=Config, open=open_store)]
"""


@pytest.mark.parametrize("command", [["plugins"], ["doctor"], ["list"], ["config", "check"], ["add", "text"]])
def test_plugins_that_print(cli, config, install, command):
    """What a plugin prints, at import, in a hook or at work, is on standard error and not in the answer."""
    install("noisy", NOISY)
    config.write_text('[backends.store]\nplugin = "noisy"\n')
    answer = cli.process(*command, "--json", environ={"PYTHONPATH": os.environ["PYTHONPATH"]})
    assert answer.code == 0, answer.err
    assert isinstance(answer.data, dict)
    assert "noise at import\nnoise in a hook\n" in answer.err
    assert ("noise at opening" in answer.err) == (command[0] in {"doctor", "list", "add"})
    assert "noise" not in cli.ok(*command).out


def test_limit_of_an_injection(cli):
    """A limit that cannot be is the caller's mistake: 5, and no request comes out as if nothing had fitted."""
    request = '{"messages": [{"role": "user", "content": "What does Juno eat?"}]}'
    answer = cli("inject", "--limit", "-1", stdin=request)
    refused(answer, Exit.INVALID, "limit: -1 cannot be used; expected a whole number from")


def test_revision_that_was_never_there(cli):
    """A revision that is not kept is unknown, 4, and the error says where the revisions are listed."""
    id = cli.add("text")
    refused(cli("restore", id, "--revision", "9"), Exit.NOT_FOUND, "9", f"`memspine history {id}`")


def test_many_ids_at_once(cli):
    """Tens of thousands of ids in one command are no problem."""
    id = cli.add("text")
    ids = [f"id-{number}" for number in range(40_000)]
    answer = cli("purge", id, *ids)
    assert answer.code == Exit.PARTIAL
    assert answer.rows[0][2] == "1"
