"""status, journal, reconcile, maintain, and what the other commands say while the primary is down."""

import pytest

from memspine.cli.codes import Exit
from memspine.errors import BackendUnavailable
from memspine_sqlite.backend import SQLiteBackend

SETTINGS = """\
[memory]
owner = "me"
primary = "notes"
fallbacks = ["team", "archive"]
on_write_failure = "spool"

[journal]
path = "waiting.journal"

[backends.notes]
plugin = "sqlite"
path = "notes.db"

[backends.team]
plugin = "sqlite"
path = "team.db"
replicate = true

[backends.archive]
plugin = "sqlite"
path = "archive.db"

[embedding]
source = "none"
"""
NO_DATABASE = b"no database at all " * 100


class Chain:
    """A primary with a replica and a fallback; the primary can be taken down."""

    def __init__(self, cli, work):
        self.cli, self.work, self.file = cli, work, work / "notes.db"

    def down(self):
        """From now on the primary's file is none of SQLite's."""
        if self.file.exists():
            self.file.rename(self.work / "aside.db")
        self.file.write_bytes(NO_DATABASE)

    def up(self):
        """The primary is as it was."""
        self.file.unlink()
        if (self.work / "aside.db").exists():
            (self.work / "aside.db").rename(self.file)

    def other(self, *arguments):
        """A command of somebody else, whose only store is the replica's."""
        settings = self.work / "other.toml"
        settings.write_text('[backends.team]\nplugin = "sqlite"\npath = "team.db"\n[embedding]\nsource = "none"\n')
        return self.cli.ok(*arguments, config=settings)


@pytest.fixture
def chain(cli, config, work):
    config.write_text(SETTINGS)
    return Chain(cli, work)


def conflicting(chain):
    """A memory that was changed in the primary and, by others, in the replica; its id."""
    id = chain.cli.add("Juno eats duck")
    chain.cli.ok("maintain")
    chain.other("update", id, "Juno eats fish")
    chain.cli.ok("update", id, "Juno eats potato")
    chain.cli("maintain")
    return id


def test_status_of_a_chain_that_works(chain):
    """Each backend has a line with its role and state, so has the journal, and the exit code is 0."""
    chain.cli.add("Juno eats duck", "--no-maintenance")
    assert chain.cli.ok("maintain").rows[-1] == ["deliver", "1"]
    answer = chain.cli.ok("status")
    assert answer.rows == [
        ["primary", "notes", "ok", "-"],
        ["replica", "team", "ok", "following, nothing behind"],
        ["fallback", "archive", "ok", "-"],
        ["journal", str(chain.work / "waiting.journal"), "ok", "nothing waiting"],
    ]
    assert answer.err == ""
    data = chain.cli.ok("status", "--json").data
    assert [(one["role"], one["health"]["ok"]) for one in data["backends"]] == [
        ("primary", True), ("replica", True), ("fallback", True)
    ]  # fmt: skip
    assert data["backends"][1]["replica"]["behind"] == 0
    assert (data["journal"]["pending"], data["problems"]) == (0, [])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('plugin = "sqlite"\npath = "a.db"', 'plugin = "sqlite"\npath = "./a.db"\ncache_mb = 2'),
        (
            'plugin = "http"\nurl = "https://h.example.org"',
            'plugin = "http"\nurl = "https://h.example.org/"\nattempts = 1',
        ),
    ],
    ids=["sqlite", "http"],
)
def test_one_store_under_two_names_is_no_chain(cli, config, first, second):
    """Two backends of one place are refused, also when they differ in what does not say where it is."""
    config.write_text(f'[memory]\nprimary = "a"\nfallbacks = ["b"]\n[backends.a]\n{first}\n[backends.b]\n{second}\n')
    answer = cli("status")
    assert answer.code == Exit.CONFIG
    assert "'b' is the same store as 'a': the same plugin at the same place" in answer.err


def test_status_of_a_store_alone(cli):
    """A backend without a chain is told about alone; there is no journal."""
    assert cli.ok("status").rows == [["primary", "notes", "ok", "-"]]
    assert cli.ok("status", "--json").data["journal"] is None


def test_status_of_an_outage(chain):
    """A backend that does not work is a line of its own on standard error, and the exit code is 9."""
    chain.down()
    answer = chain.cli("status")
    assert answer.code == Exit.PARTIAL
    assert answer.rows[0][:3] == ["primary", "notes", "not ok"]
    assert "memspine: notes: " in answer.err
    answer = chain.cli("status", "--json")
    assert answer.code == Exit.PARTIAL
    assert len(answer.data["problems"]) == 1


def test_status_counts_what_is_behind(chain):
    """What a replica has not got yet is counted."""
    chain.cli.add("Juno eats duck", "--no-maintenance")
    chain.cli.ok("maintain")
    chain.cli.add("Heron is a bicycle", "--no-maintenance")
    assert chain.cli.ok("status", "--json").data["backends"][1]["replica"]["behind"] == 1


def test_a_replica_that_is_away_is_told_once(chain):
    """What a delivery ran into is told once, with the name of the replica once before it, then and later."""
    (chain.work / "team.db").write_bytes(NO_DATABASE)
    chain.cli.add("Juno eats duck", "--no-maintenance")
    for command in ("maintain", "status"):
        answer = chain.cli(command)
        assert answer.code == Exit.PARTIAL
        assert f"team: {chain.work}" in answer.err
        assert "team: team:" not in answer.err
        assert answer.err.count(str(chain.work)) == 1


def test_status_of_a_journal_that_cannot_be_made(chain):
    """A journal into which nothing can be written is something to look at, beside what waits in it."""
    (chain.work / "plain").write_text("no folder")
    chain.cli.ok("config", "set", "journal.path", "plain/waiting.journal")
    answer = chain.cli("status")
    assert answer.code == Exit.PARTIAL
    assert answer.rows[3][2:] == ["not ok", "cannot be written to; nothing waiting"]
    assert answer.err.startswith("memspine: journal: cannot be written to: cannot be opened: Not a directory; make it")


def test_status_of_a_broken_journal(chain):
    """A journal that cannot be read is something to look at; what would need it ends with 7 and says what to do."""
    chain.cli.add("Juno eats duck")
    (chain.work / "waiting.journal").write_bytes(NO_DATABASE)
    answer = chain.cli("status")
    assert answer.code == Exit.PARTIAL
    assert answer.rows[1] == ["replica", "team", "ok", "nobody can say now how far behind"]
    assert answer.rows[3][2:] == ["not ok", "cannot be read"]
    said = "file is not a database; move it away to begin a new one; `.recover` of the sqlite3 shell shows what it held"
    assert answer.err == f"memspine: journal: {said}\n"
    for command in (
        ["journal", "list"],
        ["journal", "retry"],
        ["journal", "drop", "1"],
        ["reconcile", "notes", "team"],
    ):
        answer = chain.cli(*command)
        assert answer.code == Exit.UNAVAILABLE
        assert "file is not a database; move it away to begin a new one" in answer.err


def test_writes_are_refused_during_an_outage(chain, config):
    """Without spooling a write fails while the primary is down, and nothing waits."""
    config.write_text(SETTINGS.replace('"spool"', '"refuse"'))
    chain.down()
    assert chain.cli("add", "Juno eats duck").code == Exit.UNAVAILABLE
    assert chain.cli.ok("journal", "list", "--json").data == {"data": [], "total": 0, "cut": False}


def test_writes_wait_for_the_primary(chain):
    """With spooling, add, update and delete say that they wait, get shows it, and all is done when the primary is
    back."""
    gone = chain.cli.add("Heron is a bicycle")
    chain.down()
    answer = chain.cli.ok("add", "Juno eats duck")
    id, said = answer.rows[0]
    assert said == "pending"
    assert "pending:  waits in the journal for the primary" in chain.cli.ok("get", id).out
    assert chain.cli.ok("get", id, "--json").data["pending"] is True
    assert chain.cli.ok("update", id, "Juno eats duck and potato", "--json").data["pending"] is True
    answer = chain.cli.ok("delete", gone)
    assert answer.rows == [[gone, "pending"]]
    assert "memspine: note: degraded: waits for the primary" in answer.err
    assert chain.cli("get", gone).code == Exit.NOT_FOUND
    rows = chain.cli.ok("journal", "list").rows
    assert [(row[1], row[2], row[3], row[5]) for row in rows] == [
        ("pending", "create", id, "notes"),
        ("pending", "update", id, "notes"),
        ("pending", "delete", gone, "notes"),
    ]
    assert "3 waiting since " in chain.cli("status").out
    chain.up()
    assert chain.cli.ok("maintain", "--json").data["executed"] == 3
    answer = chain.cli.ok("get", id, "--json").data
    assert (answer["memory"]["content"], "pending" in answer) == ("Juno eats duck and potato", False)
    assert chain.cli.ok("journal", "list").rows == []


@pytest.mark.parametrize("mode", ["spool", "refuse"])
@pytest.mark.parametrize("line", ['{"content": "Juno eats duck"}', '{"content": "x", "key": "k"}', "record"])
def test_importing_is_never_put_off(chain, config, work, mode, line):
    """While the primary is down an import says so in one line, stores nothing and lets nothing wait; done again later
    it goes in."""
    id = chain.cli.add("Heron is a bicycle")
    if line == "record":
        line = chain.cli.ok("export").out.replace(id, "other")
    (work / "file.jsonl").write_text(line)
    config.write_text(SETTINGS.replace('"spool"', f'"{mode}"'))
    chain.down()
    answer = chain.cli("import", "file.jsonl")
    assert answer.code == Exit.UNAVAILABLE
    assert answer.out == ""
    assert answer.err.startswith("memspine: notes: importing needs an answer of it, and is never put off: ")
    assert answer.err.endswith("; nothing of it went in; import it again when it is back\n")
    assert answer.err.count("\n") == 1
    assert chain.cli.ok("journal", "list", "--json").data["total"] == 0
    chain.up()
    assert chain.cli.ok("import", "file.jsonl").rows[0][1] == "1"


def test_an_import_tells_what_waits(chain, work, monkeypatch):
    """What an import had to put off, because the primary failed in its middle, is told apart from what went in: with
    --json as a number, else in a note."""
    (work / "file.jsonl").write_text('{"content": "Juno eats duck"}')
    (work / "more.jsonl").write_text('{"content": "Heron is a bicycle"}\n{"content": "Mira likes tea"}')

    async def refused(self, *_, **__):
        raise BackendUnavailable(self.name, "connection refused")

    monkeypatch.setattr(SQLiteBackend, "create_many", refused)
    answer = chain.cli.ok("import", "file.jsonl")
    assert answer.rows == [["file.jsonl", "0", "0", "0", "0", "0"]]
    assert "note: file.jsonl: 1 wait for the primary; `memspine journal list` names them" in answer.err
    data = chain.cli.ok("import", "more.jsonl", "--json").data
    assert (data["waiting"], data["stored"], data["files"][0]["waiting"]) == (2, 0, 2)


def test_maintenance_during_an_outage_tells_what_it_did(chain):
    """While the primary is down maintain ends with 7, and still says what reached the replicas before."""
    chain.cli.add("Juno eats duck")
    chain.cli.ok("maintain")
    chain.down()
    answer = chain.cli("maintain")
    assert answer.code == Exit.UNAVAILABLE
    assert dict(answer.rows[-2:]) == {"execute": "0", "deliver": "0"}
    assert "memspine: notes: " in answer.err
    answer = chain.cli("maintain", "--json")
    assert answer.code == Exit.UNAVAILABLE
    assert answer.data["failure"].startswith("notes: ")
    assert answer.data["complete"] is False


def test_an_update_that_was_taken_is_not_pending(chain):
    """Where the primary answers, nothing says that anything is pending."""
    id = chain.cli.add("Juno eats duck")
    assert "pending" not in chain.cli.ok("update", id, "Juno eats fish", "--json").data
    assert "pending" not in chain.cli.ok("delete", id, "--json").data["deleted"][0]


def test_retry(chain):
    """Retrying says how many entries went, names those that did not with the reason, and then ends with 9."""
    chain.down()
    id = chain.cli.add("Juno eats duck")
    answer = chain.cli("journal", "retry")
    assert (answer.code, answer.rows) == (Exit.PARTIAL, [["gone", "0"], ["left", "1"]])
    assert "memspine: entry 1 is pending: notes: " in answer.err
    assert chain.cli("journal", "retry", "1", "--json").data["left"][0]["id"] == id
    chain.up()
    assert chain.cli.ok("journal", "retry", "1").rows == [["gone", "1"], ["left", "0"]]
    assert chain.cli.ok("journal", "retry", "--json").data == {"gone": 0, "left": []}


def test_an_id_that_is_another_is_listed(chain):
    """A memory that was acknowledged under one id and has another is listed as renamed with that one; nothing is left
    to retry."""
    old = chain.cli.add("Juno eats duck", "--key", "food")
    chain.down()
    answer = chain.cli.ok("add", "Juno eats potato", "--key", "food", "--id", "mine")
    assert answer.rows == [["mine", "pending"]]
    assert "a memory that has the key 'food' already will keep its id" in answer.err
    chain.up()
    chain.cli.ok("maintain")
    [row] = chain.cli.ok("journal", "list").rows
    assert (row[1:4], row[-1]) == (["renamed", "create", "mine"], f"done: it is memory '{old}', which had its key")
    for numbers in ((), (row[0],)):
        assert chain.cli.ok("journal", "retry", *numbers).rows == [["gone", "0"], ["left", "0"]]
    assert chain.cli.ok("get", old, "--json").data["memory"]["content"] == "Juno eats potato"


def test_why_a_write_waits(chain):
    """Status and the journal's list say what keeps the first write that waits: what was in the way last, which is no
    attempt of its own; one that came in behind others has no reason yet."""
    chain.down()
    chain.cli.add("Juno eats duck", "--no-maintenance")
    chain.cli.add("Heron is a bicycle", "--no-maintenance")
    first, second = chain.cli.ok("journal", "list", "--json").data["data"]
    assert first["error"].startswith("notes: ")
    assert "it is no SQLite database" in first["error"]
    assert second["error"] == ""
    chain.file.unlink()
    chain.file.mkdir()
    chain.cli("maintain")
    first, second = chain.cli.ok("journal", "list", "--json").data["data"]
    assert "it is no SQLite database" not in first["error"]
    assert (first["attempts"], second["error"]) == (0, "")
    answer = chain.cli("status")
    assert "; the first because notes: " in answer.out
    assert chain.cli("status", "--json").data["journal"]["reason"] == first["error"]
    chain.file.rmdir()
    chain.cli.ok("maintain")
    assert chain.cli.ok("status", "--json").data["journal"]["reason"] == ""


def test_drop(chain):
    """A dropped entry never goes; a number that nothing has is not found, and a word is no number."""
    chain.down()
    id = chain.cli.add("Juno eats duck")
    (entry,) = chain.cli.ok("journal", "list", "--json").data["data"]
    assert (entry["id"], entry["operation"], entry["apiKeyId"], entry["kind"]) == (id, "create", "me", "write")
    answer = chain.cli("journal", "drop", "77")
    assert answer.code == Exit.NOT_FOUND
    assert "no entry '77'" in answer.err
    assert chain.cli.ok("journal", "drop", entry["number"], "--json").data == {"dropped": 1}
    chain.up()
    chain.cli.ok("maintain")
    assert chain.cli("get", id).code == Exit.NOT_FOUND
    assert chain.cli("journal", "drop", "x").code == Exit.USAGE
    assert chain.cli("journal", "drop").code == Exit.USAGE


def test_adopt(chain, config):
    """A journal of a store that was moved is adopted with --yes alone, where nobody can be asked: it says whose it was,
    what waits is listed, and goes into the store afterwards; a second time there is nothing to adopt."""
    chain.down()
    id = chain.cli.add("Juno eats duck")
    chain.file.unlink()
    config.write_text(SETTINGS.replace("notes.db", "moved.db"))
    said = f"belongs to the chain of primary 'notes' (sqlite, {chain.file}), not of primary 'notes' (sqlite, "
    answer = chain.cli("journal", "list")
    assert (answer.code, said in answer.err) == (Exit.UNAVAILABLE, True)
    answer = chain.cli("journal", "adopt")
    assert answer.code == Exit.USAGE
    assert "(1 writes and 0 deliveries) belongs to primary 'notes'" in answer.err
    assert chain.cli("journal", "list").code == Exit.UNAVAILABLE
    answer = chain.cli.ok("journal", "adopt", "--yes")
    assert f"belonged to primary 'notes' (sqlite, {chain.file})" in answer.err
    assert [row[3] for row in answer.rows] == [id]
    chain.cli.ok("maintain")
    assert "Juno eats duck" in chain.cli.ok("get", id).out
    data = chain.cli.ok("journal", "adopt", "--json").data
    assert (data["before"], data["writes"]) == (None, 0)


def test_status_names_a_journal_that_was_left(chain, config):
    """What waits in the data folder's journal of a store that was moved is a note that says what to do."""
    default = SETTINGS.replace('[journal]\npath = "waiting.journal"\n', "")
    config.write_text(default)
    chain.down()
    chain.cli.add("Juno eats duck")
    chain.file.unlink()
    config.write_text(default.replace("notes.db", "moved.db"))
    answer = chain.cli.ok("status")
    assert "note: journal: another journal, " in answer.err
    assert "holds 1 writes and 0 deliveries of primary 'notes'" in answer.err
    assert "name the file in `[journal] path` and run `memspine journal adopt`" in answer.err


def test_what_others_changed_in_a_replica_is_in_conflict(chain):
    """A conflict is among the entries and the problems, and reconcile leaves both sides without --take."""
    id = conflicting(chain)
    (entry,) = chain.cli.ok("journal", "list", "--json").data["data"]
    assert (entry["id"], entry["state"], entry["replica"]) == (id, "conflict", "team")
    answer = chain.cli("status")
    assert answer.code == Exit.PARTIAL
    assert "team: 1 in conflict; see `memspine journal list`" in answer.err
    answer = chain.cli("reconcile", "notes", "team")
    assert (answer.code, answer.rows[-2]) == (Exit.PARTIAL, ["conflicts", "1"])
    assert "memspine: 1 in conflict, and both sides stay; " in answer.err
    assert chain.other("get", id, "--json").data["memory"]["content"] == "Juno eats fish"


def test_a_reconcile_tells_what_the_replica_does_not_take(chain):
    """What a replica does not take is counted and ends with 9; with the side taken that was in its way, it is there."""
    chain.cli.ok("maintain")
    chain.other("add", "Juno eats fish", "--key", "food", "--id", "theirs")
    chain.cli.ok("add", "Juno eats duck", "--key", "food", "--id", "ours")
    answer = chain.cli("reconcile", "notes", "team")
    assert (answer.code, answer.rows[-1]) == (Exit.PARTIAL, ["refused", "1"])
    assert "memspine: 1 not taken by the replica; `memspine journal list` says why\n" in answer.err
    assert chain.cli.ok("reconcile", "notes", "team", "--take", "primary").rows[-1] == ["refused", "0"]
    chain.cli.ok("verify", "notes", "team")


@pytest.mark.parametrize(("side", "content"), [("primary", "Juno eats potato"), ("replica", "Juno eats fish")])
def test_a_conflict_is_settled(chain, side, content):
    """With --take the state of one side is that of both afterwards, and nothing is left to look at."""
    id = conflicting(chain)
    data = chain.cli.ok("reconcile", "notes", "team", "--take", side, "--json").data
    assert (data["settled"], data["conflicts"]) == (1, 0)
    chain.cli.ok("maintain")
    assert chain.cli.ok("get", id, "--json").data["memory"]["content"] == content
    chain.cli.ok("verify", "notes", "team")
    chain.cli.ok("status")


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("team", "notes", "backends.team: is not the primary, which is 'notes'"),
        ("notes", "archive", "backends.archive: is no replica of 'notes'; replicas: team"),
        ("notes", "notes", "backends.notes: is no replica of 'notes'"),
        ("notes", "nowhere", "backends.nowhere: is no backend of the configuration; there are: notes, team, archive"),
    ],
)
def test_what_cannot_be_reconciled(chain, first, second, said):
    """What is not a primary and its replica is one line that says what there is."""
    answer = chain.cli("reconcile", first, second)
    assert answer.code == Exit.CONFIG
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_a_primary_that_nobody_answers_for(chain, config):
    """A service that cannot be reached is a primary that is down: what is written waits for it."""
    service = 'plugin = "http"\nurl = "http://127.0.0.1:9"\nallow_local = ["127.0.0.1"]\n'
    config.write_text(SETTINGS.replace('plugin = "sqlite"\npath = "notes.db"\n', service))
    id, said = chain.cli.ok("add", "Juno eats duck").rows[0]
    assert said == "pending"
    assert "Juno eats duck" in chain.cli.ok("get", id).out
    answer = chain.cli("maintain")
    assert (answer.code, answer.rows[-1]) == (Exit.UNAVAILABLE, ["deliver", "0"])
    assert answer.err.splitlines()[-1].startswith("memspine: notes: ")
    assert chain.cli("status").code == Exit.PARTIAL


def test_a_replica_answers_during_an_outage(chain):
    """While the primary is down its replica gives what it has, and the answer says whose it is."""
    id = chain.cli.add("Juno eats duck")
    chain.cli.ok("maintain")
    chain.down()
    answer = chain.cli.ok("get", id, "--json").data
    assert (answer["backend"], answer["memory"]["content"]) == ("team", "Juno eats duck")
    assert answer["degraded"]
