"""Finding the command, options before and after it, help, exit codes, what a start costs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memspine import __version__
from memspine.cli.codes import MEANINGS, Exit, exit_code
from memspine.cli.extensions import installed_commands
from memspine.cli.table import COMMANDS, GROUPS
from memspine.errors import (
    BackendUnavailable,
    CapabilityError,
    ClosedError,
    ConfigError,
    ConflictError,
    ContractMismatchError,
    CursorError,
    EmbeddingError,
    InvalidMemoryError,
    MemspineError,
    NotFoundError,
    NoVectorsError,
    PluginLoadError,
    RerankError,
    ScopeError,
    UnknownPluginError,
)

REQUIRED = {
    "quickstart", "add", "search", "list", "get", "update", "delete", "history", "restore", "purge", "stats", "import",
    "export", "backup", "copy", "verify", "plugins", "config", "maintain", "doctor", "new-plugin", "inject", "preview",
    "engine", "reindex", "models", "status", "journal", "reconcile",
}  # fmt: skip


def test_all_commands_are_there():
    """Every command that memspine promises is in the table, in a group that help shows."""
    assert set(COMMANDS) == REQUIRED
    assert {command.group for command in COMMANDS.values()} == set(GROUPS)


@pytest.mark.parametrize("ask", [["--help"], ["-h"], ["help"]])
def test_help_lists_commands_options_and_exit_codes(bare, ask):
    """The page of help names each command with its line, each option of every command, each exit code."""
    page = bare.ok(*ask).out
    for name, command in COMMANDS.items():
        assert f"  {name} " in page
        assert command.help in page
    for option in ("--config FILE", "--json", "--no-maintenance", "--quiet", "--version"):
        assert option in page
    for code, meaning in MEANINGS.items():
        assert f"{code.value:>3}  {code.name.lower()}" in page
        assert meaning in page


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_every_command_explains_itself(bare, name):
    """`COMMAND --help` and `help COMMAND` print the same page: what it does, and the options of every command."""
    page = bare.ok(name, "--help").out
    assert page.startswith(f"usage: memspine {name}")
    assert "--no-maintenance" in page
    assert bare.ok("help", name).out == page


@pytest.mark.parametrize(
    "name", ["add", "search", "list", "get", "update", "delete", "history", "restore", "purge", "stats", "import",
             "export", "inject", "preview"],
)  # fmt: skip
def test_owner_and_session_are_everywhere(bare, name):
    """Every command that reads or writes memories takes --owner and --session."""
    page = bare.ok(name, "--help").out
    assert "--owner OWNER" in page
    assert "--session SESSION" in page


def test_no_command_is_a_usage_error_with_help(bare):
    """`memspine` alone prints the help and ends with 2."""
    answer = bare()
    assert answer.code == Exit.USAGE
    assert "usage: memspine" in answer.out


def test_version(bare):
    """`--version` prints the version."""
    assert bare.ok("--version").out == f"memspine {__version__}\n"


def test_unknown_command_suggests_the_near_one(bare):
    """A command that does not exist is a usage error that names the one that was meant."""
    answer = bare("serach", "x")
    assert answer.code == Exit.USAGE
    assert answer.err == "memspine: unknown command 'serach'; did you mean 'search'? (`memspine --help` lists all)\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search"], "required: QUERY"),
        (["list", "--limit", "many"], "argument --limit: invalid int value: 'many'"),
        (["list", "--limt", "3"], "unrecognized arguments: --limt"),
        (["--owner", "x", "list"], "unknown option '--owner' before the command"),
        (["list", "--own", "x"], "unrecognized arguments: --own"),
        (["config"], "required: ACTION"),
        (["config", "chek"], "invalid choice: 'chek'"),
        (["models"], "required: ACTION"),
        (["models", "fetch"], "required: NAME"),
        (["delete"], "name ids or a filter"),
        (["delete", "an-id", "--type", "factual"], "exclude each other"),
        (["purge"], "name ids, or say --all"),
        (["purge", "an-id", "--all"], "name ids, or say --all"),
        (["purge", "--all", "--session", "s"], "--all is everything of the owner"),
        (["update", "an-id", "--expires", "1d", "--no-expiry"], "exclude each other"),
        (["list", "--all-owners", "--owner", "x"], "--all-owners excludes --owner and --session"),
        (["export", "--all-owners", "--session", "x"], "--all-owners excludes --owner and --session"),
    ],
)
def test_misused_arguments(bare, arguments, said):
    """Arguments that are not understood or do not go together give one line and exit code 2."""
    answer = bare(*arguments)
    assert answer.code == Exit.USAGE
    assert answer.err.startswith("memspine: ")
    assert answer.err.count("\n") == 1
    assert said in answer.err


def test_usage_errors_in_json(bare):
    """With --json a usage error is JSON as well, wherever --json stands."""
    for arguments in (["--json", "search"], ["search", "--json"]):
        error = bare(*arguments).error
        assert error["type"] == "usage"
        assert "QUERY" in error["message"]
        assert error["details"] == {}


def test_global_options_before_and_after(cli):
    """The options of every command work before and after its name, also around actions."""
    assert "data" in cli.ok("--json", "list").data
    assert "data" in cli.ok("list", "--json").data
    assert cli.ok("--json", "config", "path").data == cli.ok("config", "path", "--json").data
    assert cli.ok("config", "--json", "path").data == cli.ok("config", "path", "--json").data
    other = cli.ok("list", "--json", "--no-maintenance", "-q", f"--config={cli.config}", config="")
    assert other.data["total"] == 0


def test_words_and_options_mix(cli):
    """Options may stand between the words of a text."""
    memory = cli.ok("add", "Juno", "--type", "episodic", "eats", "duck", "--json").data["memory"]
    assert (memory["content"], memory["type"]) == ("Juno eats duck", "episodic")


def test_words_that_look_like_options(cli):
    """After `--` everything is a word."""
    assert cli.ok("add", "--json", "--", "--type", "is an option").data["memory"]["content"] == "--type is an option"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError([]), Exit.CONFIG),
        (UnknownPluginError("backend", "x", installed=(), suggestion=None, advice=""), Exit.CONFIG),
        (PluginLoadError("x", distribution="x", step="x", cause="x", advice="x"), Exit.CONFIG),
        (ContractMismatchError("x", contract=1, expected=0), Exit.CONFIG),
        (NotFoundError("b", "x"), Exit.NOT_FOUND),
        (InvalidMemoryError("f", 1, "x"), Exit.INVALID),
        (CursorError("b", "x", "y"), Exit.INVALID),
        (ScopeError("x", "y", "z"), Exit.INVALID),
        (ConflictError("b", "x", expected="1", found="2"), Exit.CONFLICT),
        (BackendUnavailable("b", "x"), Exit.UNAVAILABLE),
        (ClosedError("b"), Exit.UNAVAILABLE),
        (EmbeddingError("b", "x", expected="y"), Exit.UNAVAILABLE),
        (RerankError("b", "x", expected="y"), Exit.UNAVAILABLE),
        (NoVectorsError("reindex", "x"), Exit.CAPABILITY),
        (CapabilityError("put", operation="put", store="b"), Exit.CAPABILITY),
        (MemspineError("x"), Exit.FAILURE),
    ],
)
def test_exit_code_of_each_error(error, code):
    """Each error of memspine has the documented exit code."""
    assert exit_code(error) is code


def test_exit_codes_have_a_page(bare):
    """`help exit-codes` lists every code with its meaning."""
    page = bare.ok("help", "exit-codes").out
    assert [int(line.split()[0]) for line in page.splitlines()[1:]] == [code.value for code in MEANINGS]
    assert set(MEANINGS) == set(Exit)


def test_unexpected_failures_ask_to_be_reported(bare, monkeypatch):
    """An exception that nobody foresaw gives one line that asks to report it, exit code 1, and no traceback."""
    monkeypatch.delenv("MEMSPINE_DEBUG", raising=False)
    monkeypatch.setattr("memspine.config.user_config_file", lambda: 1 / 0)
    answer = bare("config", "path")
    assert answer.code == Exit.FAILURE
    assert answer.err.count("\n") == 1
    assert "ZeroDivisionError: division by zero; this is a bug in memspine, please report it" in answer.err
    assert bare("config", "path", "--json").error["type"] == "failure"
    monkeypatch.setenv("MEMSPINE_DEBUG", "1")
    assert "Traceback" in bare("config", "path").err


def test_interrupted(bare, monkeypatch):
    """Ctrl-C ends a command quietly with 130."""

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("memspine.config.user_config_file", interrupt)
    answer = bare("config", "path")
    assert (answer.code, answer.out, answer.err) == (130, "", "")


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_reader_that_goes_away(cli):
    """When the reader of a pipe has enough, the command ends quietly with 0."""
    cli.ok("import", "-", stdin="\n\n".join(f"{number} {'long ' * 400}" for number in range(2000)))
    command = f'"{sys.executable}" -m memspine --config "{cli.config}" list --limit 2000'
    command += ' | head -n 1; echo "${PIPESTATUS[0]}"'
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=cli.environ, check=False)
    assert run.stderr == ""
    assert run.stdout.splitlines()[-1] == "0"
    assert len(run.stdout.splitlines()) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_answer_that_cannot_be_written(cli):
    """A full disk under standard output is one line and exit code 1."""
    command = f'"{sys.executable}" -m memspine --config "{cli.config}" list --json > /dev/full'
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=cli.environ, check=False)
    assert run.returncode == Exit.FAILURE
    assert "the answer cannot be written: No space left on device" in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="descriptors of POSIX")
def test_closed_streams(cli):
    """A command works with standard output and standard input closed."""
    command = f'"{sys.executable}" -m memspine --config "{cli.config}" add kept >&- 2>&- <&-'
    assert subprocess.run(["bash", "-c", command], env=cli.environ, check=False).returncode == 0
    assert cli.ok("list", "--json").data["total"] == 1
    command = f'"{sys.executable}" -m memspine --config "{cli.config}" add - <&-'
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=cli.environ, check=False)
    assert run.returncode == Exit.INVALID
    assert "standard input is closed" in run.stderr


def test_script_and_module_are_one(cli):
    """`python -m memspine` and `python -m memspine.cli` are the command line."""
    for module in ("memspine", "memspine.cli"):
        run = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
        assert run.stdout == f"memspine {__version__}\n"


# ── commands of other distributions ──

COMMAND = """
import sys
print("imported", file=sys.stderr)
def main(argv):
    print("arguments", argv)
    return 4
def fails(argv):
    raise RuntimeError("boom")
def ends(argv):
    raise SystemExit("no more")
"""


def test_commands_of_other_distributions(bare, install):
    """A command from an entry point is listed with its distribution's summary, unimported, and gets the arguments."""
    install("acme", COMMAND, group="memspine.commands", entry="acme:main")
    page = bare.ok("--help")
    assert "  acme         the summary of acme" in page.out
    assert "imported" not in page.err
    answer = bare("--json", "acme", "--x", "y")
    assert answer.out == "arguments ['--json', '--x', 'y']\n"
    assert answer.code == 4
    assert {"name": "acme", "distribution": "acme 1.5", "summary": "the summary of acme"} in bare.ok(
        "plugins", "--json"
    ).data["commands"]


def test_built_in_commands_win(bare, install):
    """No distribution can take the name of a built-in command."""
    install("version", COMMAND, group="memspine.commands", entry="version:main")
    install("config", COMMAND, group="memspine.commands", entry="config:main")
    assert "arguments" not in bare.ok("config", "path").out
    assert "the summary of config" not in bare.ok("--help").out


@pytest.mark.parametrize("code", ["raise RuntimeError('boom')", "import does_not_exist", "def other(): ..."])
def test_command_that_cannot_be_imported(bare, install, code):
    """A command that fails to import names its distribution and ends with 3."""
    install("acme", code, group="memspine.commands", entry="acme:main")
    answer = bare("acme")
    assert answer.code == Exit.CONFIG
    assert "plugin 'acme' (acme 1.5) failed in importing its command 'acme:main'" in answer.err
    assert answer.err.count("\n") == 1


def test_command_that_fails(bare, install):
    """A bug in another distribution's command is blamed on it; its SystemExit is an exit code."""
    install("acme", COMMAND, group="memspine.commands", entry="acme:fails")
    answer = bare("acme")
    assert answer.code == Exit.FAILURE
    assert "RuntimeError: boom; this is a bug in acme 1.5" in answer.err
    install("bcme", COMMAND, group="memspine.commands", entry="bcme:ends")
    answer = bare("bcme")
    assert (answer.code, answer.err.splitlines()[-1]) == (1, "memspine: no more")


# ── what a start costs ──


def imported(*arguments):
    """The modules that a process has loaded when the command has ended."""
    code = "import sys; from memspine.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(run.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["search", "--help"], ["serach"], ["list", "--limit"]]
)
def test_help_and_mistakes_import_little(arguments):
    """Neither help nor a mistake in the arguments imports what only the work itself needs."""
    needless = {"asyncio", "attr", "memspine.manager", "memspine.model", "rich", "tomlkit"}
    if not installed_commands():
        needless.add("importlib.metadata")
    assert not imported(*arguments) & needless


def test_only_the_chosen_command_is_imported():
    """The help of a command imports no other command."""
    commands = {name for name in imported("search", "--help") if name.startswith("memspine.cli.commands.")}
    assert commands == {"memspine.cli.commands.search"}


def test_rich_is_for_terminals(cli):
    """A command whose answer goes into a pipe does not import rich, nor tomlkit, which only changes files."""
    assert not imported("--config", cli.config, "list") & {"rich", "tomlkit"}


@pytest.mark.parametrize(
    "arguments", [["search", "x"], ["reindex", "--help"], ["engine"], ["doctor"]], ids=lambda a: a[0]
)
def test_nothing_but_its_command_can_download(cli, arguments):
    """What fetches the files of models is imported by the command that is asked to, and by no other."""
    assert not {name for name in imported("--config", cli.config, *arguments) if "modelfiles" in name}


def quickest(*arguments):
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "memspine", *arguments], capture_output=True, check=True)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def test_start_is_quick(cli):
    """Help and a search answer fast enough, by a wide margin for slow machines; tests/bench holds the real targets."""
    cli.add("Juno eats duck and potato now.")
    assert quickest("--help") < 0.5
    assert quickest("--config", cli.config, "search", "duck") < 1.5
