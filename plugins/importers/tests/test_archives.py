"""Exports that are still in their ZIP archive, and archives that were made to do harm."""

import io
import json
import os
import tracemalloc
import zipfile

import pytest

from memspine.plugins import reader
from memspine_importers import archives

from .tools import FILES, IMPORTERS, found_in, recognised_by, source_of

CHATGPT = (FILES / "chatgpt.json").read_bytes()
CLAUDE = (FILES / "claude.json").read_bytes()
OTHERS = {"user.json": b"{}", "chat.html": b"<html>", "file-1.png": b"\x89PNG"}


@pytest.fixture
def packed(tmp_path):
    """Write an archive with these files, as often as they are named; give its path."""

    def write(*files, packing=zipfile.ZIP_DEFLATED, change=lambda data: data):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", packing) as archive:
            for name, content in files:
                archive.writestr(zipfile.ZipInfo(name), content, packing)
        path = tmp_path / "export.zip"
        path.write_bytes(change(data.getvalue()))
        return path

    return write


def contents(name, content):
    return [(source.identity, source.memory) for source in found_in(name, content).sources]


@pytest.mark.parametrize("folder", ["", "export/"])
@pytest.mark.parametrize(("name", "data"), [("chatgpt", CHATGPT), ("claude", CLAUDE)])
def test_the_archive_of_an_export_is_read_like_its_file(packed, name, data, folder):
    """What is in an archive has the identities and contents that it has in the file, also below one folder, so that
    importing the other one again changes nothing."""
    files = [*OTHERS.items(), ("conversations.json", data)]
    path = packed(*((folder + inside, content) for inside, content in files), ("__MACOSX/._conversations.json", b"x"))
    assert recognised_by(path) == [name]
    assert contents(name, path) == contents(name, data)
    told = [line.removeprefix("conversations.json: ") for line in found_in(name, path).bad]
    assert told == found_in(name, data).bad


def test_all_files_of_an_archive_are_read(packed):
    """Conversations that are divided, and what Claude remembers beside them, are read in their order; projects are
    told."""
    first, *rest = json.loads(CLAUDE)
    remembered = (FILES / "claude-memories.json").read_bytes()
    path = packed(
        ("conversations-001.json", json.dumps(rest)),
        ("conversations-000.json", json.dumps([first])),
        ("memories.json", remembered),
        ("projects/p.json", "{}"),
    )
    found = found_in("claude", path)
    assert found.contents == [*found_in("claude", CLAUDE).contents, *found_in("claude", remembered).contents]
    assert found.notes[-1] == "projects/p.json was not read: only conversations and memories are"


@pytest.mark.parametrize(
    "name", ["../conversations.json", "/conversations.json", "a\\..\\conversations.json", "a//x.json"]
)
def test_names_lead_nowhere(packed, tmp_path, name):
    """A file that is placed outside of the archive is not read, and nothing is written beside it."""
    path = packed((name, CHATGPT))
    before = list(tmp_path.iterdir())
    assert recognised_by(path) == []
    found = found_in("chatgpt", path)
    assert found.memories == []
    assert found.bad == [
        "after 0 conversations: there is no conversations*.json in the archive; expected the export as it came"
    ]
    assert list(tmp_path.iterdir()) == before == [path]


def bomb():
    """A conversation, and what it is followed by."""
    return CHATGPT.rstrip().removesuffix(b"]") + b" " * 50_000_000 + b"]"


def test_a_bomb_is_refused(packed):
    """A file that would become much more than an export does is one line, and is not unpacked."""
    path = packed(("conversations.json", bomb()))
    assert recognised_by(path) == ["chatgpt"]
    tracemalloc.start()
    found = found_in("chatgpt", path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.memories == []
    [line] = found.bad
    assert line.startswith("conversations.json: after 0 conversations: it would become 50")
    assert "more than 200 times what it takes in the archive; it was not unpacked" in line
    assert peak < 2_000_000


def three_times(data):
    """An archive whose table names its one file three times."""
    table, end = data.index(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
    entry = data[table:end]
    counts = (3).to_bytes(2, "little") * 2 + (3 * len(entry)).to_bytes(4, "little")
    return data[:table] + entry * 3 + data[end : end + 8] + counts + data[end + 16 :]


def test_files_that_are_too_much_together_are_refused(packed, monkeypatch):
    """Files that are within the bounds one by one, but stand in the same place of the archive, are not all read."""
    monkeypatch.setattr(archives, "_FREE_BYTES", 0)
    monkeypatch.setattr(archives, "RATIO_MAX", 3)
    data = json.dumps([{"title": os.urandom(30_000).hex(), "create_time": 1, "mapping": {}}])
    path = packed(("conversations.json", data))
    assert found_in("chatgpt", path).bad == []
    path = packed(("conversations.json", data), change=three_times)
    assert len(found_in("chatgpt", path).bad) >= 2


def test_a_long_export_is_read_piece_by_piece(packed):
    """Reading an archive takes the memory of a few conversations, not of all."""
    conversation = json.loads(CHATGPT)[0]
    path = packed(("conversations.json", json.dumps([{**conversation, "id": n} for n in range(2000)])))
    tracemalloc.start()
    count = sum(1 for _ in reader(IMPORTERS["chatgpt"])(source_of(path)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count > 10_000
    assert peak < 4_000_000


def test_a_file_that_is_too_long_is_refused(packed, monkeypatch):
    """A file beyond the limit is one line that says both numbers."""
    monkeypatch.setattr(archives, "ENTRY_BYTES_MAX", 100)
    [line] = found_in("chatgpt", packed(("conversations.json", CHATGPT))).bad
    assert f"it has {len(CHATGPT)} bytes, of which at most 100 are read" in line


def test_a_table_of_contents_that_is_too_long_is_refused(packed, monkeypatch):
    """An archive of very many files is refused before they are listed."""
    monkeypatch.setattr(archives, "_CONTENTS_BYTES_MAX", 1000)
    path = packed(("conversations.json", CHATGPT), *((f"{number}.png", b"") for number in range(100)))
    assert recognised_by(path) == []
    [line] = found_in("chatgpt", path).bad
    assert "its table of contents has" in line


def shorter(data):
    """An archive whose table says of its file that it is shorter than it is."""
    place = data.rindex(b"PK\x01\x02")
    return data[: place + 24] + (1000).to_bytes(4, "little") + data[place + 28 :]


def longer(data):
    """An archive whose table says of its file that it takes more bytes than there are."""
    place = data.rindex(b"PK\x01\x02")
    return data[: place + 20] + (10**9).to_bytes(4, "little") + data[place + 24 :]


def encrypted(data):
    place = data.rindex(b"PK\x01\x02")
    return data[: place + 8] + b"\x01" + data[place + 9 :]


@pytest.mark.parametrize(
    ("change", "packing", "told"),
    [
        (lambda data: data[: len(data) // 2], zipfile.ZIP_DEFLATED, "File is not a zip file); it may be cut off"),
        (lambda data: data[:900] + b"\xff" * 50 + data[950:], zipfile.ZIP_DEFLATED, "the archive is damaged here"),
        (shorter, zipfile.ZIP_DEFLATED, "the archive is damaged here (Bad CRC-32"),
        (longer, zipfile.ZIP_DEFLATED, "it says that more is in it than it holds"),
        (encrypted, zipfile.ZIP_DEFLATED, "it is encrypted; unpack the archive with its password"),
        (lambda data: data, zipfile.ZIP_BZIP2, "it is packed in an unusual way; unpack the archive"),
    ],
    ids=["cut off", "damaged", "shorter", "longer", "encrypted", "unusual"],
)
def test_archives_that_cannot_be_read(packed, change, packing, told):
    """What is damaged, forged, encrypted or packed in another way is one line that says what to do."""
    path = packed(("conversations.json", CHATGPT), packing=packing, change=change)
    bad = found_in("chatgpt", path).bad
    assert len([line for line in bad if told in line]) == 1, bad
    assert all("\n" not in line and len(line) < 400 for line in bad)


def test_an_archive_on_standard_input_is_refused(packed):
    """Its table of contents stands at its end, and nothing is kept of standard input: the line says what to do."""
    data = packed(("conversations.json", CHATGPT)).read_bytes()
    assert recognised_by(data) == []
    [line] = found_in("chatgpt", data).bad
    assert "an archive cannot be read from standard input; name the file, or unpack it" in line


def test_archives_by_the_command(cli, packed):
    """An archive is imported like its file, and then the file itself brings nothing new."""
    path = packed(*OTHERS.items(), ("conversations.json", CHATGPT))
    assert cli("import", path, "--json").data["stored"] == 10
    again = cli("import", FILES / "chatgpt.json", "--json").data
    assert (again["stored"], again["unchanged"]) == (0, 10)
    other = cli("import", packed(("x.txt", b"x")))
    assert other.code == 5
    assert "it is a ZIP archive that no importer recognises, or that is cut off; unpack it and import" in other.err
