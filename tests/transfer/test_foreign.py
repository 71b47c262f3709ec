"""Importers of plugins: who reads a source, and what becomes of what they find."""

from __future__ import annotations

import asyncio
import io

import pytest

from memspine import MemoryManager
from memspine.contracts import BadLine, Importer, ImportSource, Note, SourceMemory
from memspine.errors import InvalidMemoryError, PluginError
from memspine.model import NewMemory
from memspine.transfer import ImportedMemory, choose_importer, import_items, read_foreign

SETTINGS = {"memory": {"owner": "me"}, "backends": {"store": {"plugin": "reference"}}}
SOURCE = ImportSource(name="file", stream=io.BytesIO())


def importer(*items, name="toy", recognises=True):
    """An importer that finds the same whatever it reads."""
    return Importer(
        name=name,
        summary=f"what {name} writes",
        changes="nothing",
        recognise=lambda source: recognises,
        read=lambda source: iter(items),
    )


def found(*identity, line=1, owner="", where="", **fields):
    return SourceMemory(line=line, memory=NewMemory(**fields), identity=identity, owner=owner, where=where)


def imported(*batches, **options):
    """The reports of imports into one store, and what is in it at the end, by owner."""

    async def work():
        async with MemoryManager(SETTINGS, background=False) as manager:
            reports = [
                await import_items(manager, read_foreign(importer(*items), SOURCE), management=True, **options)
                for items in batches
            ]
            page = await manager.list(everyone=True, management=True, newest_first=False)
            return reports, page.memories

    return asyncio.run(work())


def test_the_one_that_recognises_reads():
    """Without a format the importer that recognises the source reads it; where none does, the kernel's formats do."""
    yes, no = importer(name="yes"), importer(name="no", recognises=False)
    assert choose_importer(SOURCE, [no, yes]) is yes
    assert choose_importer(SOURCE, [no]) is None


def test_two_that_recognise_the_same_are_told():
    """Nothing is guessed: where two importers recognise a source, the format has to be named."""
    with pytest.raises(InvalidMemoryError, match=r"looks like a \(what a writes\) and b \(what b writes\)"):
        choose_importer(SOURCE, [importer(name="a"), importer(name="b")])


def test_the_wrong_product_is_named():
    """A format whose importer does not recognise what another one does is refused in a line that names the other."""
    wrong, right = importer(name="wrong", recognises=False), importer(name="right")
    with pytest.raises(InvalidMemoryError, match=r"'wrong' cannot be used; expected right: file looks like right"):
        choose_importer(SOURCE, [wrong, right], format="wrong")
    assert choose_importer(SOURCE, [wrong], format="wrong") is wrong
    assert choose_importer(SOURCE, [right], format="jsonl") is None


def test_an_unknown_format_lists_the_importers():
    """A format that nobody has is refused with all that there are."""
    with pytest.raises(InvalidMemoryError, match="jsonl, conversations, markdown, text, toy"):
        choose_importer(SOURCE, [importer()], format="csv")


def test_importing_again_changes_nothing():
    """What has the same ids is found again: unchanged, or replaced where its content is another one now."""
    first = found("c", "1", content="one"), found("c", "2", content="two")
    second = found("c", "1", content="one"), found("c", "2", content="two, edited")
    reports, memories = imported(first, first, second)
    assert [(report.stored, report.unchanged, report.replaced) for report in reports] == [
        (2, 0, 0),
        (0, 2, 0),
        (0, 1, 1),
    ]
    assert sorted(memory.content for memory in memories) == ["one", "two, edited"]


def test_identities_are_of_their_importer():
    """The same ids of another product name another memory."""
    one, other = (list(read_foreign(importer(found("1", content="x"), name=name), SOURCE)) for name in ("a", "b"))
    assert one[0].id != other[0].id


def test_ids_that_are_there_twice_lose_nothing():
    """Of two with the same ids and other contents both are taken, of two that are the same one, each with a line."""
    items = found("1", content="one"), found("1", line=2, content="two"), found("1", line=3, content="one")
    reports, memories = imported(items, items)
    assert sorted(memory.content for memory in memories) == ["one", "two"]
    assert reports[0].notes == (
        "line 2: the ids '1' were there before, with other content: both are taken",
        "line 3: the ids '1' were there before, with the same content: taken once",
    )
    assert (reports[1].stored, reports[1].unchanged, reports[1].replaced) == (0, 2, 0)


def test_keys_that_are_there_twice_lose_nothing():
    """A second memory with a key of another one keeps the key as metadata, and does not take its place."""
    items = found("1", content="one", key="k"), found("2", content="two", key="k")
    reports, memories = imported(items, items)
    assert sorted((memory.content, memory.key, dict(memory.metadata)) for memory in memories) == [
        ("one", "k", {}),
        ("two", "", {"key": "k"}),
    ]
    assert reports[1].unchanged == 2


def test_owners_are_kept():
    """What names an owner stays theirs, what names none goes to the owner of the configuration, and it is told."""
    items = found("1", content="hers", owner="ada"), found("1", content="his", owner="bob"), found("2", content="free")
    reports, memories = imported(items, items)
    assert {memory.content: memory.owner for memory in memories} == {"hers": "ada", "his": "bob", "free": "me"}
    assert reports[0].notes == (
        "owners were kept as the source names them: 'ada', 'bob'; name one to give it what is there",
    )
    assert reports[1].unchanged == 3


def test_two_owners_are_not_mixed():
    """Given to a named owner, what belongs to a second one is refused, each in a line that holds nothing of it."""
    items = found("1", content="hers", owner="ada"), found("2", line=2, content="secret", owner="bob")
    reports, memories = imported(items, owner="carol")
    assert [(memory.content, memory.owner) for memory in memories] == [("hers", "carol")]
    [bad] = reports[0].bad
    assert (bad.line, "secret" in bad.reason) == (2, False)
    assert "belongs to 'bob', those before it to 'ada'" in bad.reason


@pytest.mark.parametrize(
    ("owner", "keys"),
    [(None, {"one": "k", "two": "k", "three": "", "four": "k"}), ("ada", {"one": "k", "two": "", "three": ""})],
)
def test_keys_are_the_receivers(owner, keys):
    """Whether a key is there twice is asked for whoever gets the memories, not for those who had them."""
    items = (
        found("1", content="one", key="k"),
        found("2", content="two", key="k", owner="key-1"),
        found("3", content="three", key="k", owner="key-1"),
        found("4", content="four", key="k", owner="key-2"),
    )
    given = {"owner": owner or "me", "keep_owners": owner is None}
    read = list(read_foreign(importer(*items), SOURCE, **given))
    got = {item.memory.content: item.memory.key for item in read if isinstance(item, ImportedMemory)}
    assert got == {**keys, "four": "k"}


def test_what_cannot_be_stored_is_told_with_its_place():
    """Bad lines and notes of the reader are passed on; what the kernel refuses is told with the place it has."""
    items = (
        BadLine(1, "broken"),
        Note(2, "odd"),
        found("3", line=3, content="", where="message 3: "),
        found("4", line=4, content="x", owner="o" * 600, where="message 4: "),
    )
    read = list(read_foreign(importer(*items), SOURCE))
    assert read[:2] == [BadLine(1, "broken"), Note(2, "odd")]
    assert [item.reason.split(": ")[:2] for item in read[2:]] == [["message 3", "content"], ["message 4", "owner"]]


def test_an_importer_that_yields_something_else_is_at_fault():
    """What is none of the values of the contract ends the import with the importer's name."""
    with pytest.raises(PluginError, match="importer 'toy' yields str"):
        list(read_foreign(importer("text"), SOURCE))


def test_a_dry_run_counts_and_stores_nothing():
    """A dry run says what would be stored, each once, and stores nothing."""
    items = found("1", content="one"), found("1", content="one"), found("2", content="two", owner="ada")
    reports, memories = imported(items, dry_run=True)
    assert (reports[0].stored, memories) == (2, ())
