"""What every importer does with sound exports."""

from __future__ import annotations

import io
import re
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from memspine import times
from memspine.conformance.clauses import clause
from memspine.conformance.importer.samples import Product
from memspine.conformance.importer.sources import (
    FOREIGN,
    PICTURE,
    Untouched,
    Watched,
    bad_lines,
    copied,
    files_of,
    items,
    memories,
    opened,
    recognises,
    snapshot,
)
from memspine.contracts import SourceMemory
from memspine.intake import Intake
from memspine.plugins import reader, recogniser

SMALL, LARGE = 1000, 8000
"""How many memories two sources have of which one is much longer than the other."""
SPARE_BYTES = 1024 * 1024


@clause("IM-1")
def test_exports_are_recognised(product: Product) -> None:
    """Every sample is, and so is a source of few memories."""
    for sample in product.samples:
        assert recognises(product.importer, sample.path), sample.path
    assert recognises(product.importer, product.grown(3))


@clause("IM-2")
def test_nothing_else_is_recognised(product: Product, tmp_path: Path) -> None:
    """Neither files of other formats nor folders of them."""
    for name, data in FOREIGN.items():
        file = tmp_path / "foreign" / name / "export"
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
        assert not recognises(product.importer, file), name
        assert not recognises(product.importer, file, is_piped=True), name
    folder = tmp_path / "folder"
    folder.mkdir()
    assert not recognises(product.importer, folder), "an empty folder"
    (folder / "notes.md").write_bytes(FOREIGN["note"])
    (folder / "data.json").write_bytes(FOREIGN["array"])
    (folder / "picture.png").write_bytes(PICTURE)
    assert not recognises(product.importer, folder), "a folder of a note, a document and a picture"


@clause("IM-3")
def test_recognising_leaves_the_stream_alone(product: Product, tmp_path: Path) -> None:
    """Samples and other files are told apart by name, head and path."""
    other = tmp_path / "other"
    other.write_bytes(FOREIGN["prose"])
    for path in (other, *(sample.path for sample in product.samples)):
        recognises(product.importer, path, wrapped=Untouched)
        recognises(product.importer, path, wrapped=Untouched, is_piped=True)


@clause("IM-10")
def test_all_memories_are_read(product: Product) -> None:
    """As often as they stand there, with their texts changed as it is declared, and nothing else."""
    for sample in product.samples:
        found = memories(items(product.importer, sample.path))
        wanted = Counter(memory.content for memory in sample.memories)
        assert Counter(item.memory.content for item in found) == wanted, sample.path
    assert len(memories(items(product.importer, product.grown(SMALL)))) == SMALL


@clause("IM-11")
def test_memories_come_in_order(product: Product) -> None:
    """That of the source."""
    for sample in product.samples:
        found = memories(items(product.importer, sample.path))
        assert [item.memory.content for item in found] == [memory.content for memory in sample.memories], sample.path


@clause("IM-12")
def test_the_same_gives_the_same(product: Product, tmp_path: Path) -> None:
    """Read again, and read from another folder."""
    for number, sample in enumerate(product.samples):
        first = items(product.importer, sample.path)
        assert items(product.importer, sample.path) == first
        assert items(product.importer, copied(sample.path, tmp_path / f"elsewhere-{number}")) == first


@clause("IM-13")
def test_identities_are_those_of_the_product(product: Product) -> None:
    """Equal where the product's ids are, and only there."""
    repeated = 0
    for sample in product.samples:
        found = memories(items(product.importer, sample.path))
        assert len(found) == len(sample.memories)
        names = [memory.ids or f"\0{place}" for place, memory in enumerate(sample.memories)]
        repeated += len(names) - len(set(names))
        by_name = {name: item.identity for name, item in zip(names, found, strict=True)}
        assert [item.identity for item in found] == [by_name[name] for name in names], sample.path
        assert len(set(by_name.values())) == len(by_name), sample.path
    assert repeated, "no sample has the same ids twice (Wanted.ids); add one, as people merge exports"


@clause("IM-14")
def test_a_later_export_changes_nothing(product: Product) -> None:
    """What was there before has the same identity, and is the same memory."""
    first, second, third = (
        {item.identity: item.memory for item in memories(items(product.importer, product.grown(count)))}
        for count in (10, 11, 300)
    )
    assert (len(first), len(second), len(third)) == (10, 11, 300)
    for earlier, later in ((first, second), (second, third)):
        assert {identity: later.get(identity) for identity in earlier} == earlier


@clause("IM-15")
def test_owners_are_those_of_the_product(product: Product) -> None:
    """Each memory's, and nobody where none is named."""
    for sample in product.samples:
        found = memories(items(product.importer, sample.path))
        assert [item.owner for item in found] == [memory.owner for memory in sample.memories], sample.path


@clause("IM-16")
def test_the_kernel_takes_every_memory(product: Product) -> None:
    """As it is, with an identity that names it."""
    paths = [*(sample.path for sample in product.samples), product.grown(10)]
    for item in (item for path in paths for item in memories(items(product.importer, path))):
        intake = Intake()
        taken = intake.memory(item.memory, now=times.now())
        assert taken == item.memory
        assert not intake.notes
        assert item.line >= 1
        assert item.identity
        assert all(isinstance(part, str) for part in item.identity)


@clause("IM-17")
def test_standard_input_is_read_or_refused(product: Product) -> None:
    """The same as by the path, or one bad line."""
    for sample in product.samples:
        if sample.path.is_dir():
            continue
        piped = items(product.importer, sample.path, is_piped=True)
        is_refused = len(piped) == 1 and len(bad_lines(piped)) == 1
        assert is_refused or piped == items(product.importer, sample.path), sample.path


@clause("IM-30")
def test_nothing_is_changed(product: Product, tmp_path: Path) -> None:
    """Neither the source nor what is beside it, by recognising or by reading."""
    for number, sample in enumerate(product.samples):
        folder = tmp_path / f"watched-{number}"
        path = copied(sample.path, folder)
        (folder / "beside").write_bytes(b"other")
        before = snapshot(folder)
        recognises(product.importer, path)
        items(product.importer, path)
        assert snapshot(folder) == before


def peak_bytes(product: Product, path: Path) -> int:
    """How much memory reading takes at most."""
    with opened(path) as source:
        found = reader(product.importer)(source)
        next(found)
        tracemalloc.start()
        try:
            for _ in found:
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@clause("IM-31")
def test_memory_does_not_grow(product: Product) -> None:
    """A source that is eight times as long takes no more of it, and its first memory comes before its end is read."""
    small, large = product.grown(SMALL), product.grown(LARGE)
    bytes_of = [sum(file.stat().st_size for file in files_of(path)) for path in (small, large)]
    assert bytes_of[1] >= 400 * LARGE, "grown() gives memories that are too short to measure anything"
    assert peak_bytes(product, large) < 2 * peak_bytes(product, small) + SPARE_BYTES
    streams: list[Watched] = []

    def watched(file: BinaryIO) -> io.BufferedReader:
        streams.append(Watched(file))
        return io.BufferedReader(streams[-1])

    with opened(large, wrapped=watched) as source:
        found = reader(product.importer)(source)
        assert any(isinstance(item, SourceMemory) for item in found)
        assert all(stream.done < bytes_of[1] / 2 for stream in streams)


@clause("IM-32")
def test_an_importer_says_what_it_is(product: Product) -> None:
    """Its name, what it reads, and what becomes of the text."""
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", product.importer.name)
    for text in (product.importer.summary, product.importer.changes):
        assert text.strip()
        assert text.isprintable()
    assert callable(recogniser(product.importer))
    assert callable(reader(product.importer))
