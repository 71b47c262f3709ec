"""add, get, update, history, restore, delete, purge."""

import json

import pytest

from memspine.cli.codes import Exit

WIRE = [
    "id", "apiKeyId", "sessionId", "type", "key", "content", "metadata", "createdAt", "updatedAt", "expiresAt",
    "revision", "contentHash", "accessCount", "lastAccessedAt",
]  # fmt: skip


def test_add_answers_with_the_memory(cli):
    """`add --json` prints id, memory, whether it is new, notes, backend and degradations, under the wire names."""
    data = cli.ok("add", "Juno", "eats duck.", "--json").data
    assert list(data) == ["id", "memory", "created", "notes", "backend", "degraded"]
    assert list(data["memory"]) == WIRE
    assert data["memory"]["content"] == "Juno eats duck."
    assert data["id"] == data["memory"]["id"]
    assert (data["created"], data["notes"], data["backend"], data["degraded"]) == (True, [], "notes", [])


def test_add_takes_every_field(cli):
    """Type, key, metadata, times, session, owner and id of the options are those of the memory."""
    memory = cli.ok(
        "add", "text", "--type", "episodic", "--key", "k", "--metadata", '{"category": "pets", "n": [1, null]}',
        "--created", "2020-01-02T03:04:05+02:00", "--expires", "2999-01-01T00:00:00Z", "--session", "s", "--owner",
        "ada", "--id", "my-id", "--json",
    ).data["memory"]  # fmt: skip
    assert (memory["type"], memory["key"], memory["sessionId"], memory["apiKeyId"]) == ("episodic", "k", "s", "ada")
    assert memory["metadata"] == {"category": "pets", "n": [1, None]}
    assert memory["createdAt"] == "2020-01-02T01:04:05.000Z"
    assert memory["expiresAt"] == "2999-01-01T00:00:00.000Z"
    assert memory["id"] == "my-id"


def test_add_says_one_line(cli):
    """For a person `add` prints the id and a word, with --quiet the id alone."""
    [[id, said]] = cli.ok("add", "text", "--key", "k").rows
    assert said == "created"
    assert cli.ok("add", "other text", "--key", "k").rows == [[id, "replaced"]]
    assert cli.ok("add", "third text", "--key", "k", "--quiet").lines == [id]
    assert cli.ok("get", id, "--json").data["memory"]["revision"] == 3


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\r\ntwo\r\n", "one\r\ntwo"),
        (b"one\n\n", "one\n"),
        (b"\xef\xbb\xbf\xe4\xb8\xad", "\u4e2d"),
        ("  na\u0308\U0001f9e0  ".encode(), "  n\u00e4\U0001f9e0  "),
    ],
)
def test_add_takes_standard_input_whole(cli, given, kept):
    """`add -` makes one memory of standard input, all of it but the end of the last line."""
    assert cli.ok("add", "-", "--json", stdin=given).data["memory"]["content"] == kept


def test_add_from_a_pipe(cli):
    """Standard input also works for a process of its own, and reaches the same store."""
    answer = cli.process("add", "-", stdin=b"from a pipe\n")
    assert (answer.code, answer.err) == (0, "")
    assert cli.ok("get", answer.rows[0][0]).lines[-1] == "from a pipe"


@pytest.mark.parametrize(
    ("duration", "seconds"), [("30d", 2592000), ("12h", 43200), ("90m", 5400), ("45s", 45), ("2w", 1209600)]
)
def test_expiry_as_a_duration(cli, duration, seconds):
    """--expires takes a duration from now on."""
    from memspine import times

    before = times.now()
    memory = cli.ok("add", "text", "--expires", duration, "--json").data["memory"]
    distance = times.from_text(memory["expiresAt"]) - before
    assert seconds <= distance.total_seconds() < seconds + 60


def test_notes_reach_the_person(cli):
    """What had to be changed in a text is noted on standard error, in JSON in the answer."""
    answer = cli.ok("add", "a\udc80b")
    assert answer.err.startswith("memspine: note: content: ")
    data = cli.ok("add", "a\0b", "--json").data
    assert data["memory"]["content"] == "a\ufffdb"
    assert len(data["notes"]) == 1


def test_get_shows_everything(cli):
    """`get` prints the fields a line each, an empty line, and the content as it is broken."""
    id = cli.add("one\ntwo", "--key", "k", "--metadata", '{"a": 1}', "--session", "s")
    fields, content = cli.ok("get", id).out.split("\n\n")
    shown = dict(line.split(None, 1) for line in fields.splitlines())
    assert (shown["id:"], shown["owner:"], shown["session:"], shown["key:"]) == (id, "me", "s", "k")
    assert (shown["metadata:"], shown["revision:"]) == ('{"a":1}', "1")
    assert content == "one\ntwo\n"


def test_get_in_json(cli):
    """`get --json` prints the memory with backend, notes and degradations."""
    id = cli.add("text")
    data = cli.ok("get", id, "--json").data
    assert list(data) == ["memory", "created", "notes", "backend", "degraded"]
    assert list(data["memory"]) == WIRE


def test_owners_are_apart(cli):
    """The id of another owner's memory is as good as unknown, for every command that takes ids."""
    id = cli.add("text", "--owner", "ada")
    words = {"update": ["x"], "restore": ["--revision", "1"]}
    for name in ("get", "update", "delete", "history", "restore", "purge"):
        command = [name, id, *words.get(name, [])]
        answer = cli(*command)
        assert answer.code == Exit.NOT_FOUND, command
        assert "for this owner" in answer.err
    assert cli.ok("get", id, "--owner", "ada").lines[-1] == "text"
    assert cli.ok("list", "--json").data["total"] == 0


def test_sessions_limit_ids(cli):
    """With --session a memory of another session is as good as unknown, for every command that takes ids."""
    id = cli.add("text", "--session", "s")
    for command in (["get", id], ["delete", id], ["history", id], ["restore", id, "--revision", "1"], ["purge", id]):
        assert cli(*command, "--session", "t").code == Exit.NOT_FOUND, command
    cli.ok("history", id, "--session", "s")
    cli.ok("delete", id, "--session", "s")


def test_sessions_have_a_default(cli):
    """The session of new memories is that of the configuration, and so is the owner."""
    cli.ok("config", "set", "memory.session", "work")
    cli.ok("config", "set", "memory.owner", "ada")
    memory = cli.ok("add", "text", "--json").data["memory"]
    assert (memory["sessionId"], memory["apiKeyId"]) == ("work", "ada")


def test_shared_memories(cli):
    """The person at the command line may write what all can read, and --shared shows it beside one's own."""
    id = cli.add("for all", "--owner", "global")
    assert cli("get", id).code == Exit.NOT_FOUND
    assert cli.ok("get", id, "--shared").lines[-1] == "for all"
    assert cli.ok("list", "--json").data["total"] == 0
    assert cli.ok("list", "--shared", "--json").data["total"] == 1
    assert cli.ok("search", "all", "--shared", "--json").data["results"][0]["id"] == id


def test_update_replaces_what_is_named(cli):
    """`update` changes the named fields and keeps the others; metadata is replaced as a whole."""
    id = cli.add("text", "--key", "k", "--metadata", '{"a": 1}', "--expires", "1d")
    data = cli.ok("update", id, "new", "text", "--metadata", '{"b": 2}', "--json").data
    assert list(data) == ["memory", "created", "notes", "backend", "degraded"]
    memory = data["memory"]
    assert (memory["content"], memory["metadata"], memory["key"], memory["revision"]) == ("new text", {"b": 2}, "k", 2)
    assert memory["expiresAt"] is not None
    assert cli.ok("update", "--type", "semantic", id).rows == [[id, "revision 3"]]
    memory = cli.ok("update", id, "--no-expiry", "--session", "s", "--key", "", "--json").data["memory"]
    assert (memory["expiresAt"], memory["sessionId"], memory["key"]) == (None, "s", "")
    assert cli.ok("update", id, "-", "--json", stdin="piped").data["memory"]["content"] == "piped"


def test_update_of_nothing(cli):
    """An update that names nothing is refused."""
    answer = cli("update", cli.add("text"))
    assert answer.code == Exit.INVALID
    assert "expected at least one of content, type" in answer.err


def test_expected_revision(cli):
    """--expected-revision makes a change that met another state a conflict with exit code 6."""
    id = cli.add("text")
    cli.ok("update", id, "two", "--expected-revision", "1")
    for command in (["update", id, "three"], ["delete", id]):
        answer = cli(*command, "--expected-revision", "1")
        assert answer.code == Exit.CONFLICT
        assert "read it again and repeat" in answer.err
    error = cli("delete", id, "--expected-revision", "1", "--json").error
    assert error["type"] == "conflict"
    assert error["details"]["id"] == id
    cli.ok("delete", id, "--expected-revision", "2")


def test_key_that_is_taken(cli):
    """Giving a memory a key that another one has is a conflict."""
    cli.add("first", "--key", "k")
    assert cli("update", cli.add("second"), "--key", "k").code == Exit.CONFLICT


def test_history_says_what_changed(cli):
    """`history` numbers the revisions, oldest first, with their times, states and changed fields."""
    id = cli.add("one")
    cli.ok("update", id, "two", "--type", "episodic")
    cli.ok("update", id, "--key", "k")
    rows = cli.ok("history", id).rows
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [row[3] for row in rows] == ["created", "content, type", "key"]
    assert [row[4] for row in rows] == ["one", "two", "two"]
    assert rows[0][2].startswith("replaced 2")
    assert rows[2][2] == "current"
    cli.ok("delete", id)
    assert cli.ok("history", id).rows[-1][2].startswith("deleted")


def test_history_in_json(cli):
    """`history --json` prints each state as the wire has it."""
    id = cli.add("one")
    cli.ok("update", id, "two")
    data = cli.ok("history", id, "--json").data
    assert list(data) == ["data", "total"]
    assert data["total"] == 2
    assert list(data["data"][0]) == ["memory", "replacedAt", "deleted"]
    assert data["data"][1]["replacedAt"] is None


def test_restore_brings_a_revision_back(cli):
    """`restore` makes an earlier state the current one, also of a deleted memory."""
    id = cli.add("one", "--metadata", '{"a": 1}')
    cli.ok("update", id, "two", "--metadata", "{}")
    memory = cli.ok("restore", id, "--revision", "1", "--json").data["memory"]
    assert (memory["content"], memory["metadata"], memory["revision"]) == ("one", {"a": 1}, 3)
    cli.ok("delete", id)
    [[shown, said]] = cli.ok("restore", id, "--revision", "2").rows
    assert shown == id
    assert said.startswith("revision 2 is back, as revision ")
    assert cli.ok("get", id).lines[-1] == "two"
    assert cli("restore", id, "--revision", "99").code == Exit.NOT_FOUND


def test_delete_names_what_is_gone(cli):
    """`delete` takes several ids and prints a line for each; JSON has the tombstones."""
    one, two, three = (cli.add(text) for text in ("one", "two", "three"))
    assert cli.ok("delete", one, two).rows == [[one, "deleted"], [two, "deleted"]]
    assert cli("get", one).code == Exit.NOT_FOUND
    data = cli.ok("delete", three, "--json").data
    assert [list(tombstone) for tombstone in data["deleted"]] == [["id", "apiKeyId", "revision", "deletedAt"]]
    assert data["failed"] == []


def test_delete_goes_on_after_a_failure(cli):
    """Of several ids those that exist are deleted, the others are told, and the exit code is 9, or 4 if none was."""
    one = cli.add("one")
    answer = cli("delete", "nope", one)
    assert (answer.code, answer.rows) == (Exit.PARTIAL, [[one, "deleted"]])
    assert "no memory 'nope'" in answer.err
    assert cli("delete", "nope", "neither").code == Exit.NOT_FOUND
    data = cli("delete", "nope", "neither", "--json").data
    assert [failure["error"]["type"] for failure in data["failed"]] == ["not_found", "not_found"]


def test_delete_by_filter_is_a_dry_run_first(cli):
    """With a filter nothing is deleted without --yes; both times the ids are printed."""
    old = cli.add("old", "--type", "episodic", "--created", "2020-01-01T00:00:00Z")
    cli.add("new", "--type", "episodic")
    answer = cli.ok("delete", "--type", "episodic", "--before", "2021-01-01T00:00:00Z")
    assert answer.lines == [old]
    assert "1 would be deleted; --yes does it" in answer.err
    assert cli.ok("list", "--json").data["total"] == 2
    assert cli.ok("delete", "--before", "30d", "--json").data == {"ids": [old], "total": 1, "dryRun": True}
    answer = cli.ok("delete", "--before", "30d", "--yes")
    assert (answer.lines, answer.err) == ([old], "1 deleted\n")
    assert cli.ok("list", "--json").data["total"] == 1


@pytest.mark.parametrize(
    "filter",
    [
        ["--session", "s"],
        ["--session", ""],
        ["--category", "pets"],
        ["--key", "k"],
        ["--text", "DUCK"],
        ["--since", "1h"],
    ],
)
def test_delete_by_each_filter(cli, filter):
    """Each filter alone is enough, and meets what it says."""
    matching = {
        "--session": ["--session", filter[1]],
        "--category": ["--metadata", '{"category": "pets"}'],
        "--key": ["--key", "k"],
        "--text": [],
        "--since": [],
    }
    text = "duck" if filter[0] == "--text" else "text"
    id = cli.add(text, *matching[filter[0]])
    cli.add("other", "--session", "other", "--created", "2020-01-01T00:00:00Z")
    assert cli.ok("delete", *filter, "--yes").lines == [id]


def test_purge_prints_the_receipt(cli):
    """`purge` erases named memories, history included, and says what became of each place."""
    id = cli.add("canary")
    cli.ok("update", id, "canary two")
    rows = cli.ok("purge", id).rows
    assert rows[0] == ["memories", "purged", "1"]
    assert all(row[1] in {"erased", "kept"} for row in rows[1:])
    assert cli("history", id).code == Exit.NOT_FOUND
    assert cli("purge", id).code == Exit.NOT_FOUND


def test_purge_in_json(cli):
    """`purge --json` prints how many memories, and the places."""
    data = cli.ok("purge", cli.add("canary"), "--json").data
    assert list(data) == ["memories", "places"]
    assert data["memories"] == 1
    assert all(list(place) == ["place", "status", "detail"] for place in data["places"])


def test_purge_of_some(cli):
    """When one of several ids is unknown, the exit code says that it was done in part."""
    assert cli("purge", cli.add("canary"), "nope").code == Exit.PARTIAL


def test_purge_of_everything_needs_a_word(cli):
    """`purge --all` does nothing unless --yes is said, where nobody can be asked."""
    cli.add("mine")
    cli.add("hers", "--owner", "ada")
    answer = cli("purge", "--all")
    assert answer.code == Exit.USAGE
    assert "Erase everything of 'me' (memories: 1) for good?" in answer.err
    assert cli.ok("list", "--json").data["total"] == 1
    cli.ok("purge", "--all", "--yes")
    assert cli.ok("list", "--all-owners", "--json").data["total"] == 1


def test_pending_places_are_told(cli, monkeypatch):
    """A receipt with pending places ends with 9."""
    from memspine.model import PurgedPlace, PurgeReceipt

    async def purge(self, ids, **keywords):
        return PurgeReceipt(1, (PurgedPlace(place="log", status="pending", detail="in use"),))

    monkeypatch.setattr("memspine.manager.MemoryManager.purge", purge)
    answer = cli("purge", "an-id")
    assert (answer.code, answer.rows[1]) == (Exit.PARTIAL, ["log", "pending", "in use"])


def test_texts_are_not_syntax(cli):
    """SQL and FTS syntax is text, in every field."""
    for text in ["'; DROP TABLE memories; --", '"NEAR(a b)" OR * AND', "%s {0} \\ `x` $(y)", "col:val^2 -not"]:
        id = cli.add("--key", text, "--session", text, "--metadata", json.dumps({text: text}), "--", text)
        memory = cli.ok("get", id, "--json").data["memory"]
        assert (memory["content"], memory["key"], memory["sessionId"], memory["metadata"]) == (
            text,
            text,
            text,
            {text: text},
        )
        cli.ok("search", "--text", text, "--", text)
        assert cli.ok("list", "--json", "--session", text).data["total"] == 1
