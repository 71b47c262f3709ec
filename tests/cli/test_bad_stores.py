"""Stores, files and disks that cannot be used get one clear line and an exit code, and nothing is lost."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from memspine.cli.codes import Exit
from memspine_sqlite.schema import STEPS

from .refusals import refused


def change(path, *statements):
    """Change a database behind memspine's back."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


@pytest.mark.parametrize("command", [["list"], ["add", "x"], ["export", "-"], ["maintain"]], ids=lambda c: c[0])
def test_database_of_a_newer_version(cli, work, command):
    """A store that a newer version wrote is refused with 7, both versions and what to do, and is not changed."""
    cli.add("text")
    newer = STEPS[-1].version + 1
    change(work / "notes.db", f"PRAGMA user_version = {newer}")
    before = (work / "notes.db").read_bytes()
    said = f"tables of version {newer}; this one knows up to {newer - 1}"
    refused(cli(*command), Exit.UNAVAILABLE, "notes: ", said, "upgrade memspine-sqlite")
    assert (work / "notes.db").read_bytes() == before


def test_database_of_another_program(cli, work):
    """A SQLite database that memspine did not make is refused with 7 and not changed."""
    change(work / "notes.db", "CREATE TABLE songs (title TEXT)", "INSERT INTO songs VALUES ('mine')")
    before = (work / "notes.db").read_bytes()
    for command in (["list"], ["add", "x"]):
        refused(cli(*command), Exit.UNAVAILABLE, "notes: ", "it is the database of another program")
    assert (work / "notes.db").read_bytes() == before


@pytest.mark.parametrize("command", [["list"], ["search", "text"], ["add", "more text"]], ids=lambda c: c[0])
def test_corrupt_database(cli, work, command):
    """A store whose pages were overwritten is unavailable, 7, for reading and for writing."""
    for number in range(5):
        cli.add(f"text {number}" * 500)
    file = work / "notes.db"
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
    refused(cli(*command), Exit.UNAVAILABLE, "notes: ", "malformed")


FULL = """
import resource, signal, sys
from memspine.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
sys.exit(main())
"""


def on_full_disk(cli, *arguments):
    """Run where no file can grow beyond 200 KB."""
    command = [sys.executable, "-c", FULL, "--config", cli.config, *arguments]
    run = subprocess.run(command, capture_output=True, env=cli.environ, check=False)
    return type(cli.ok("list"))(run.returncode, run.stdout.decode(), run.stderr.decode())


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_full_disk(cli, work):
    """A disk that fills up under the store fails the write with 7 and loses nothing that was there."""
    id = cli.add("kept")
    words = " ".join(f"word{number}" for number in range(10_000))
    refused(on_full_disk(cli, "add", words), Exit.UNAVAILABLE, "notes: ")
    assert [row[0] for row in cli.ok("list").rows] == [id]
    assert cli.ok("doctor", "--json").data["ok"] is True
    cli.add(words)


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_full_disk_under_an_export(cli, work):
    """A disk that fills up under an export fails it with 5 and leaves what was there before."""
    for number in range(4):
        cli.add(f"{number} " * 40_000)
    (work / "all.jsonl").write_text("the export of yesterday\n")
    refused(on_full_disk(cli, "export", "all.jsonl"), Exit.INVALID, "all.jsonl: cannot be written: File too large")
    assert (work / "all.jsonl").read_text() == "the export of yesterday\n"
    assert not list(work.glob(".all.jsonl*"))


TOGETHER = """
import sys
import memspine_sqlite.backend, memspine.manager
from memspine.cli import main
print("ready", flush=True)
sys.stdin.readline()
sys.exit(main())
"""


def together(cli, *commands):
    """Run processes that have imported everything and begin at the same moment; their answers."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER, "--config", cli.config, *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cli.environ,
        )
        for command in commands
    ]  # fmt: skip
    assert [process.stdout.readline() for process in started] == ["ready\n"] * len(commands)
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    return [(*process.communicate(), process.returncode) for process in started]


def test_processes_that_make_one_store(cli):
    """Processes that create the same store at the same moment all succeed, and each memory is there."""
    answers = together(cli, *(["add", f"text {number}"] for number in range(4)))
    assert [(err, code) for _, err, code in answers] == [("", 0)] * 4
    assert {row[-1] for row in cli.ok("list").rows} == {f"text {number}" for number in range(4)}


def test_processes_that_migrate_one_store(cli, work):
    """Processes that find the same store with an older index at the same moment all succeed, and it is made anew."""
    id = cli.add("Juno eats duck")
    change(work / "notes.db", "UPDATE meta SET value = '1/0' WHERE name = 'format'")
    answers = together(cli, *(["search", "duck"] for _ in range(4)))
    assert [(out.split("\t")[3], err, code) for out, err, code in answers] == [(id, "", 0)] * 4
    with contextlib.closing(sqlite3.connect(work / "notes.db")) as database:
        assert database.execute("SELECT value FROM meta WHERE name = 'format'").fetchone() != ("1/0",)


@pytest.fixture
def locked_away(unprivileged):
    """Run a command as a user who may not read a file: `locked_away(file, run)`; the file is in a folder of its own."""

    def locked_away(file, run):
        file.parent.chmod(0o755)
        file.chmod(0)
        unprivileged()
        try:
            return run()
        finally:
            if os.getuid() == 0:
                os.seteuid(0)
            file.chmod(0o600)

    with tempfile.TemporaryDirectory() as name:
        yield Path(name), locked_away


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_files_that_cannot_be_read(cli, config, locked_away):
    """A file that this user may not read is refused: an import with 5, a configuration with 3, a store with 7."""
    folder, run = locked_away
    notes, settings = folder / "notes.txt", folder / "settings.toml"
    notes.write_text("text")
    settings.write_text(config.read_text())
    answer = run(notes, lambda: cli("import", notes))
    refused(answer, Exit.INVALID, f"{notes}: cannot be read: Permission denied")
    answer = run(settings, lambda: cli("list", config=settings))
    refused(answer, Exit.CONFIG, f"{settings}: cannot be read: Permission denied")
    settings.chmod(0o644)
    cli.add("kept", config=settings)
    answer = run(folder / "notes.db", lambda: cli("list", config=settings))
    refused(answer, Exit.UNAVAILABLE, "notes: ")
    assert cli.ok("list", "--json", config=settings).data["total"] == 1
