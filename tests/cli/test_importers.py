"""import with the importers of plugins."""

import json

import pytest

from memspine.cli.codes import Exit

CODE = """
from memspine.contracts import BadLine, Importer, SourceMemory
from memspine.hookspecs import hookimpl
from memspine.model import NewMemory


def recognise(source):
    return (source.path / "toys").exists() if source.is_folder else source.head.startswith(b"TOY")


def read(source):
    if source.is_folder:
        yield SourceMemory(line=1, memory=NewMemory(content="of the folder"), identity=("folder",))
        return
    for number, line in enumerate(source.stream, 1):
        text = line.decode().strip().removeprefix("TOY ")
        if text == "bad":
            yield BadLine(number, "it is bad")
        else:
            yield SourceMemory(line=number, memory=NewMemory(content=text), identity=(text,))


@hookimpl
def memspine_importers():
    return [
        Importer(name="toy", summary="what toys write", changes="TOY is taken off", recognise=recognise, read=read)
    ]
"""


@pytest.fixture(autouse=True)
def _toy(install):
    """A distribution with an importer."""
    install("toys", CODE)


def test_a_file_is_recognised(cli, work):
    """A file that an importer recognises is read by it, whatever its name; it is told who reads and what changes."""
    (work / "a.md").write_text("TOY one\nTOY bad\nTOY two\n")
    answer = cli("import", "a.md")
    assert answer.code == Exit.PARTIAL
    assert answer.rows == [["a.md", "2", "0", "0", "0", "1"]]
    assert "a.md:2: it is bad" in answer.err
    assert "read as toy (what toys write): TOY is taken off" in answer.err
    again = cli("import", "a.md", "--json").data
    assert (again["unchanged"], again["stored"], again["bad"]) == (2, 0, 1)
    assert again["files"][0]["notes"][0].startswith("read as toy")


def test_a_folder_is_recognised(cli, work):
    """A folder that an importer recognises is read; another one is refused with the importers that there are."""
    (work / "full").mkdir()
    (work / "full" / "toys").touch()
    (work / "empty").mkdir()
    assert cli.ok("import", "full").rows == [["full", "1", "0", "0", "0", "0"]]
    answer = cli("import", "empty")
    assert answer.code == Exit.INVALID
    assert answer.err.startswith("memspine: empty: cannot be read: it is a folder that no importer recognises; ")
    assert "toy" in answer.err


def test_standard_input_is_recognised(cli):
    """Standard input is recognised by how it begins, and nothing of it is lost; a named format needs no recognition."""
    assert cli.ok("import", "-", stdin="TOY one\n").rows == [["-", "1", "0", "0", "0", "0"]]
    assert cli.ok("import", "-", "--format", "toy", stdin="two\n").rows == [["-", "1", "0", "0", "0", "0"]]
    texts = {memory["content"] for memory in cli.ok("list", "--json").data["data"]}
    assert texts == {"one", "two"}


def test_a_preview_stores_nothing(cli, work):
    """--dry-run says what an importer would bring, and stores nothing."""
    (work / "a.md").write_text("TOY one\n")
    assert cli.ok("import", "a.md", "--dry-run").rows[0][1] == "1"
    assert cli.ok("list", "--json").data["total"] == 0


def test_formats_of_the_kernel_need_no_plugin(cli, work):
    """A format that is named is used even where an importer would recognise the file."""
    (work / "a.md").write_text("TOY one\n")
    cli.ok("import", "a.md", "--format", "text")
    assert cli.ok("list", "--json").data["data"][0]["content"] == "TOY one"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", b' [{"who": "knows"}]', "it is a JSON array that no importer recognises"),
        ("a.db", b"SQLite format 3\0....", "it is a SQLite database that no importer recognises"),
        (
            "a.zip",
            b"PK\x03\x04....",
            "it is a ZIP archive that no importer recognises, or that is cut off; unpack it and import what is inside",
        ),
    ],
)
def test_what_nobody_reads_is_one_line(cli, work, name, data, said):
    """What surely is neither of the kernel's formats nor of an importer's is refused in one line."""
    (work / name).write_bytes(data)
    answer = cli("import", name)
    assert answer.code == Exit.INVALID
    assert answer.err.splitlines() == [
        f"memspine: {name}: cannot be read: {said}; importers, for --format: {names(cli)}"
    ]


def names(cli):
    plugins = cli.ok("plugins", "--json").data["data"]
    offers = [offer for plugin in plugins for offer in plugin["providers"] if offer["kind"] == "importer"]
    return ", ".join(sorted(offer["name"] for offer in offers))


def test_plugins_lists_importers(cli):
    """`plugins` lists importers with what they read."""
    rows = cli.ok("plugins").rows
    assert ["toys", "toys 1.5", "importer", "toy", "-", "what toys write"] in rows
    assert json.dumps(cli.ok("plugins", "--json").data)
