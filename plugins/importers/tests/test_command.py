"""`memspine import` of each product: preview, import, import again."""

import json
import shutil
import subprocess
import sys

import pytest

from .samples import FILES, make_omniroute

PRODUCTS = {
    "chatgpt.json": ("chatgpt", 10), "claude.json": ("claude", 5), "claude-memories.json": ("claude", 2),
    "mem0.json": ("mem0", 4), "mem0-array.json": ("mem0", 2), "mcp-memory.jsonl": ("mcp-memory", 6),
    "basic-memory": ("basic-memory", 11), "openclaw": ("openclaw", 10), "storage.sqlite": ("omniroute", 5),
}  # fmt: skip


@pytest.fixture
def exported(tmp_path):
    """The path of a product's export."""

    def exported(file):
        if file != "storage.sqlite":
            return FILES / file
        if not (tmp_path / file).exists():
            make_omniroute(tmp_path / file).close()
        return tmp_path / file

    return exported


def everything(cli):
    return cli("list", "--all-owners", "--json").data["data"]


@pytest.mark.parametrize("file", PRODUCTS)
def test_preview_import_and_import_again(cli, exported, file):
    """A preview stores nothing and counts what the import then stores; importing again changes nothing at all."""
    name, count = PRODUCTS[file]
    preview = cli("import", exported(file), "--dry-run", "--json").data
    assert everything(cli) == []
    first = cli("import", exported(file), "--json")
    assert (first.data["stored"], first.data["bad"]) == (preview["stored"], preview["bad"]) == (count, preview["bad"])
    assert first.code == (9 if first.data["bad"] else 0)
    assert first.data["files"][0]["notes"][0].startswith(f"read as {name} (")
    before = everything(cli)
    assert len(before) == count
    again = cli("import", exported(file), "--format", name, "--json").data
    assert (again["stored"], again["replaced"], again["unchanged"]) == (0, 0, count)
    assert everything(cli) == before


@pytest.mark.parametrize("file", PRODUCTS)
def test_every_memory_says_where_it_is_from(cli, exported, file):
    """Every memory has its product and place in its metadata."""
    cli("import", exported(file))
    assert all(memory["metadata"]["source"].startswith(PRODUCTS[file][0]) for memory in everything(cli))


@pytest.mark.parametrize("file", ["chatgpt.json", "claude.json", "mem0.json"])
def test_an_export_that_is_cut_off(cli, tmp_path, file):
    """Of an export that is cut off what is whole goes in, one line tells of the end, and the whole export adds the
    rest."""
    data = (FILES / file).read_bytes()
    place = data.rindex(b"{", 0, len(data) * 3 // 4)
    (tmp_path / file).write_bytes(data[:place])
    cut = cli("import", tmp_path / file, "--json").data
    lines = [bad["reason"] for bad in cut["files"][0]["bad"] if "it is cut off" in bad["reason"]]
    assert len(lines) == 1
    whole = cli("import", FILES / file, "--json").data
    assert (whole["unchanged"], whole["stored"] + whole["unchanged"]) == (cut["stored"], PRODUCTS[file][1])


def test_the_wrong_product(cli):
    """A format that does not fit is refused in one line that names the one that does, and nothing is stored."""
    answer = cli("import", FILES / "claude.json", "--format", "chatgpt")
    assert answer.code == 5
    [line] = answer.err.splitlines()
    assert "'chatgpt' cannot be used; expected claude: " in line
    assert line.endswith("claude.json looks like claude (the data export of Claude)")
    assert everything(cli) == []


def test_owners(cli, exported):
    """Owners of a database are kept; for a named owner the first one's are taken and the others told, without a word of
    what they hold."""
    cli("import", exported("storage.sqlite"))
    owners = {memory["apiKeyId"] for memory in everything(cli)}
    assert owners == {"me", "key-1", "key-2"}
    answer = cli("import", exported("storage.sqlite"), "--owner", "ada")
    assert answer.code == 9
    assert "belongs to 'key-1', those before it to 'key-2'" in answer.err
    assert "Python" not in answer.err
    hers = cli("list", "--owner", "ada", "--json").data["data"]
    assert sorted(memory["content"] for memory in hers) == ["Nobody's", "The other one's"]


def test_ids_of_another_owner(cli, tmp_path):
    """An export with ids that another owner has already gives memories of the new owner, and touches none of the
    other's."""
    export = json.loads((FILES / "mem0-array.json").read_text())
    cli("import", FILES / "mem0-array.json")
    before = cli("list", "--owner", "ada", "--json").data
    changed = [{**memory, "user_id": "eve", "memory": "taken over"} for memory in export]
    (tmp_path / "eve.json").write_text(json.dumps(changed))
    assert cli("import", tmp_path / "eve.json", "--json").data["stored"] == 2
    assert cli("list", "--owner", "ada", "--json").data == before


def test_a_newer_export(cli, tmp_path):
    """A conversation that went on brings what is new of it, and one that was edited replaces what was there."""
    shutil.copy(FILES / "claude.json", tmp_path / "export.json")
    cli("import", tmp_path / "export.json")
    export = json.loads((tmp_path / "export.json").read_text())
    messages = export[0]["chat_messages"]
    messages[3]["content"][0]["text"] = "A very nice wall."
    messages.append({**messages[3], "uuid": "m-9", "created_at": "2025-03-01T10:00:00Z"})
    (tmp_path / "export.json").write_text(json.dumps(export))
    newer = cli("import", tmp_path / "export.json", "--json").data
    assert (newer["stored"], newer["replaced"], newer["unchanged"]) == (1, 1, 4)


def test_duplicate_ids(cli, tmp_path):
    """Of two conversations with the same ids and other words nothing is lost, also when they are imported again."""
    export = json.loads((FILES / "claude.json").read_text())[1:2]
    other = json.loads(json.dumps(export[0]))
    other["chat_messages"][0]["text"] = "Other words."
    (tmp_path / "export.json").write_text(json.dumps([*export, other, *export]))
    first = cli("import", tmp_path / "export.json", "--json").data
    assert (first["stored"], first["bad"]) == (2, 0)
    notes = first["files"][0]["notes"][1:]
    assert len(notes) == 2
    assert all("the ids 'c-2/m-6' were there before, with " in note for note in notes)
    again = cli("import", tmp_path / "export.json", "--json").data
    assert (again["unchanged"], again["stored"], again["replaced"]) == (2, 0, 0)


def test_standard_input(cli):
    """An export is recognised on standard input as well."""
    answer = cli("import", "-", "--json", stdin=(FILES / "chatgpt.json").read_bytes())
    assert answer.data["stored"] == 10


def test_files_that_nobody_can_read(cli, tmp_path):
    """Files of products that are no export of theirs are one line, and the others of the command do not go in."""
    (tmp_path / "users.json").write_text('[{"uuid": "1", "full_name": "Ada"}]')
    answer = cli("import", FILES / "claude.json", tmp_path / "users.json")
    assert (answer.code, len(answer.err.splitlines())) == (5, 1)
    assert everything(cli) == []


def test_registering_imports_nothing_that_reads():
    """What offers the importers imports neither SQLite nor what parses notes."""
    code = "import sys, memspine_importers.plugin as p; p.memspine_importers(); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "memspine_importers" in loaded
    assert not {"sqlite3", "yaml", "markdown_it"} & loaded
