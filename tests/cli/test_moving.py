"""import, export, backup."""

import json
import os
import stat
import subprocess

import pytest

from memspine.cli.codes import Exit


def names(folder):
    """What is in a folder, the files of the store left out."""
    return {path.name for path in folder.iterdir() if not path.name.startswith("notes.db")}


def lines(*records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


def test_import_of_several_files(cli, work):
    """`import` takes several files of different formats and prints the numbers of each."""
    (work / "a.jsonl").write_text(lines({"content": "one"}, {"content": "two", "key": "k"}))
    (work / "b.json").write_text(
        json.dumps({"conversations": [{"id": "c", "memories": [{"text": "hi", "speaker": "Ada", "session": "s"}]}]})
    )
    (work / "c.md").write_text("# Title\n\nA paragraph.\n")
    rows = cli.ok("import", "a.jsonl", "b.json", "c.md").rows
    assert [row[0] for row in rows] == ["a.jsonl", "b.json", "c.md"]
    assert rows[0][1:] == ["2", "0", "0", "0", "0"]
    texts = [row[-1] for row in cli.ok("list").rows]
    assert {"one", "two", "hi"} <= set(texts)


def test_import_twice_changes_nothing(cli, work):
    """Importing the same file again leaves everything as it is."""
    (work / "a.jsonl").write_text(lines({"content": "one"}, {"content": "two", "key": "k"}))
    cli.ok("import", "a.jsonl")
    before = cli.ok("list", "--json").data
    assert cli.ok("import", "a.jsonl", "--json").data["unchanged"] == 2
    assert cli.ok("list", "--json").data == before


def test_bad_lines_are_told_and_the_rest_goes_in(cli, work):
    """A bad line is reported with file and number on standard error, the rest goes in, the exit code is 9."""
    (work / "a.jsonl").write_text('{"content": "one"}\n{bad\n{"content": ""}\n{"content": "two"}\n{"content": 5}')
    answer = cli("import", "a.jsonl")
    assert answer.code == Exit.PARTIAL
    assert answer.rows == [["a.jsonl", "2", "0", "0", "0", "3"]]
    told = answer.err.splitlines()
    assert [line.split(" ")[1] for line in told] == ["a.jsonl:2:", "a.jsonl:3:", "a.jsonl:5:"]
    assert cli.ok("list", "--json").data["total"] == 2


def test_import_in_json(cli):
    """`import --json` prints the sums and a report for each file, bad lines with their numbers."""
    answer = cli("import", "-", "--json", "--format", "jsonl", stdin='{"content": "one"}\n{bad\n')
    assert answer.code == Exit.PARTIAL
    assert answer.err == ""
    assert list(answer.data) == [
        "stored", "replaced", "unchanged", "stale", "waiting", "bad", "dryRun", "index", "files"
    ]  # fmt: skip
    [file] = answer.data["files"]
    assert list(file) == [
        "file", "stored", "replaced", "unchanged", "stale", "waiting", "conflicts", "badTotal", "bad", "notes"
    ]  # fmt: skip
    assert file["bad"][0]["line"] == 2
    assert (answer.data["stored"], answer.data["bad"], answer.data["dryRun"]) == (1, 1, False)
    assert answer.data["index"] is None


def test_import_dry_run(cli):
    """--dry-run says what would be done, bad lines too, and stores nothing."""
    answer = cli("import", "-", "--dry-run", stdin='{"content": "one"}\n{bad\n')
    assert (answer.code, answer.rows[0][1]) == (Exit.PARTIAL, "1")
    assert "nothing was stored: this was a dry run" in answer.err
    assert cli.ok("list", "--json").data["total"] == 0


def test_import_into_owner_and_session(cli):
    """--owner and --session say whose memories they become, and of which session."""
    cli.ok("import", "-", "--owner", "ada", "--session", "s", stdin='{"content": "one"}\n')
    memory = cli.ok("list", "--owner", "ada", "--json").data["data"][0]
    assert (memory["apiKeyId"], memory["sessionId"]) == ("ada", "s")


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_import_of_what_cannot_be_read(cli, work, name):
    """A file that cannot be read ends the import before anything is stored."""
    (work / "a.jsonl").write_text(lines({"content": "one"}))
    answer = cli("import", "a.jsonl", name)
    assert answer.code == Exit.INVALID
    assert answer.err.startswith(f"memspine: {name}: cannot be read: ")
    assert cli.ok("list", "--json").data["total"] == 0


def test_import_of_an_unknown_format(cli):
    """An unknown format is refused with those that there are."""
    answer = cli("import", "-", "--format", "csv", stdin="x")
    assert answer.code == Exit.INVALID
    assert "jsonl, conversations, markdown, text" in answer.err


def test_export_and_import_keep_everything(cli, config, tmp_path):
    """What is exported comes back in another store with ids, revisions, times, metadata, owner and history."""
    id = cli.add("one", "--metadata", '{"n": 9007199254740993}', "--session", "s", "--created", "2020-01-01T00:00:00Z")
    cli.ok("update", id, "two\u2028\x1b[31m", "--expires", "30d")
    cli.add("hers", "--owner", "ada")
    exported = cli.ok("export", "--all-owners").out
    assert "\x1b" not in exported
    other = tmp_path / "other.toml"
    other.write_text(config.read_text())
    cli.ok("import", "-", stdin=exported, config=other)
    for command in (["get", id], ["history", id], ["list", "--all-owners"]):
        assert cli.ok(*command, "--json", config=other).data == cli.ok(*command, "--json").data


def test_export_scope(cli):
    """An export is of one owner, or of one session, or of everyone."""

    def exported(*options):
        return [json.loads(line)["memory"]["content"] for line in cli.ok("export", *options).lines[1:-1]]

    cli.add("mine")
    cli.add("in a session", "--session", "s")
    cli.add("hers", "--owner", "ada")
    assert sorted(exported()) == ["in a session", "mine"]
    assert exported("--session", "s") == ["in a session"]
    assert exported("--owner", "ada") == ["hers"]
    assert sorted(exported("--all-owners")) == ["hers", "in a session", "mine"]


def test_export_to_a_file(cli, work):
    """A file is written whole, replaces an older one, is for its owner alone, and leaves nothing beside it."""
    cli.add("one")
    (work / "out.jsonl").write_text("older")
    before = names(work) - {"out.jsonl"}
    [[path, said]] = cli.ok("export", "out.jsonl").rows
    assert (path, said) == ("out.jsonl", "1 memories")
    assert len((work / "out.jsonl").read_text().splitlines()) == 3
    assert stat.S_IMODE((work / "out.jsonl").stat().st_mode) == 0o600
    assert names(work) - {"out.jsonl"} == before
    assert cli.ok("export", "out.jsonl", "--json").data == {"path": "out.jsonl", "memories": 1}


def test_export_that_fails_keeps_the_older_file(cli, work, monkeypatch):
    """When an export breaks off, the file that was there stays, and nothing else is left behind."""
    from memspine.errors import BackendUnavailable

    async def export_records(manager, **keywords):
        yield "{}\n"
        raise BackendUnavailable("notes", "gone")

    monkeypatch.setattr("memspine.transfer.export_records", export_records)
    (work / "out.jsonl").write_text("older")
    before = names(work)
    assert cli("export", "out.jsonl").code == Exit.UNAVAILABLE
    assert (work / "out.jsonl").read_text() == "older"
    assert names(work) == before


@pytest.mark.skipif(os.name != "posix", reason="links and devices of POSIX")
def test_export_follows_links_and_spares_devices(cli, work):
    """A link stays a link, a device stays a device."""
    (work / "real.jsonl").write_text("older")
    (work / "link.jsonl").symlink_to("real.jsonl")
    cli.ok("export", "link.jsonl")
    assert (work / "link.jsonl").is_symlink()
    assert (work / "real.jsonl").read_text() != "older"
    os.mkfifo(work / "pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
    cli.ok("export", "pipe")
    assert b'"end":true' in reader.communicate()[0]
    assert stat.S_ISFIFO((work / "pipe").stat().st_mode)


@pytest.mark.parametrize("command", ["export", "backup"])
def test_target_in_no_folder(cli, command):
    """A target whose folder does not exist is refused with what to do."""
    answer = cli(command, "nowhere/file")
    assert answer.code == Exit.INVALID
    assert "nowhere does not exist; make it first" in answer.err


def test_backup(cli, config, tmp_path):
    """`backup` writes a copy that works as a store, and refuses a file that is there."""
    id = cli.add("one")
    copy = tmp_path / "copy.db"
    data = cli.ok("backup", copy, "--json").data
    assert list(data) == ["path", "bytes", "backend"]
    assert (data["path"], data["bytes"]) == (str(copy), copy.stat().st_size)
    assert stat.S_IMODE(copy.stat().st_mode) & 0o077 == 0
    other = tmp_path / "other.toml"
    other.write_text(f"[backends.copy]\nplugin = 'sqlite'\npath = '{copy}'\n")
    assert cli.ok("get", id, config=other).lines[-1] == "one"
    answer = cli("backup", copy)
    assert answer.code == Exit.INVALID
    assert "is there already; name a new file" in answer.err


def test_backup_of_a_store_that_cannot(bare, work):
    """A store without the capability gives exit code 8."""
    (work / "reference.toml").write_text('[backends.r]\nplugin = "reference"\n')
    answer = bare("backup", "copy.db", config="reference.toml")
    assert answer.code == Exit.CAPABILITY
    assert "backup needs the capability" in answer.err
    assert "which r does not have" in answer.err
    assert bare("backup", "copy.db", "--json", config="reference.toml").error["type"] == "capability"
