"""What every importer does with exports that are damaged, cut off or of another product."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.importer.samples import Product, Sample
from memspine.conformance.importer.sources import (
    FOREIGN,
    JSON_FOREIGN,
    PICTURE,
    Watched,
    bad_lines,
    copied,
    files_of,
    items,
    memories,
    recognises,
    said,
    told,
)

CUTS = 24
"""In how many places a file is cut, and damaged."""
REASON_CHARS_MAX = 500
LONG, SPARE = 60, 3
"""The memories of a source that is cut, and how many of those before the cut may stand a little further on."""
DATABASE = FOREIGN["database"][:16]


def places(data: bytes, count: int = CUTS) -> list[int]:
    """Places within lines, all over the file."""
    marks = (len(data) * number // (count + 1) for number in range(1, count + 1))
    return [mark for mark in dict.fromkeys(marks) if data[mark - 1 : mark + 1].strip() == data[mark - 1 : mark + 1]]


def damaged(data: bytes) -> Iterator[bytes]:
    """The file with a piece of it overwritten, taken out or doubled."""
    for number, place in enumerate(places(data)):
        piece = (b"\xff\xfe", b"\0" * 9, b'"', b"{", b"]", b"\n", b"---\n")[number % 7]
        yield data[:place] + piece + data[place + len(piece) :]
        yield data[:place] + data[place + 5 :]
        yield data[:place] + data[place // 2 :]


def file_samples(product: Product) -> Iterator[Sample]:
    """Those that are files."""
    return (sample for sample in product.samples if not sample.path.is_dir())


@clause("IM-4")
def test_recognising_raises_nothing(product: Product, tmp_path: Path) -> None:
    """However a file is cut off or damaged, and whatever stands in its place in a folder."""
    for number, sample in enumerate(product.samples):
        path = copied(sample.path, tmp_path / str(number))
        for file in files_of(path):
            whole = file.read_bytes()
            for data in (*(whole[:place] for place in places(whole)), *damaged(whole), *FOREIGN.values()):
                file.write_bytes(data)
                assert recognises(product.importer, path) in (True, False)
            file.write_bytes(whole)


@clause("IM-20")
def test_bad_lines_are_told_and_the_rest_is_read(product: Product) -> None:
    """Each bad line of a sample has its number, and none of the memories around it is missing."""
    for sample in product.samples:
        found = items(product.importer, sample.path)
        assert sorted({line.line for line in bad_lines(found)}) == sorted(sample.bad_lines), sample.path
        assert len(memories(found)) == len(sample.memories), sample.path
    assert any(sample.bad_lines for sample in product.samples), "no sample has bad lines (Sample.bad_lines); add one"


@clause("IM-21")
def test_what_is_told_is_one_line(product: Product, tmp_path: Path) -> None:
    """Of samples, and of what is made of them by damage."""
    for number, sample in enumerate(product.samples):
        path = copied(sample.path, tmp_path / str(number))
        for file in files_of(path):
            whole = file.read_bytes()
            for data in (whole, *damaged(whole), PICTURE):
                file.write_bytes(data)
                for text in told(items(product.importer, path)):
                    assert text.strip()
                    assert "\n" not in text
                    assert len(text) <= REASON_CHARS_MAX
            file.write_bytes(whole)


@clause("IM-22")
def test_a_file_that_is_cut_off(product: Product, tmp_path: Path) -> None:
    """What stood before the cut is read, nothing is made up but the end of a text, and what is missing is told."""
    for number, sample in enumerate(file_samples(product)):
        path = copied(sample.path, tmp_path / str(number))
        whole, data = items(product.importer, path), path.read_bytes()
        for place in places(data):
            path.write_bytes(data[:place])
            found = items(product.importer, path)
            read = memories(found)
            is_shortened = not said(read[-1:]) <= said(whole)
            assert said(read[:-1]) <= said(whole), place
            assert bad_lines(found) or is_shortened or len(read) == len(memories(whole)), place


@clause("IM-22")
def test_what_stands_before_a_cut_is_read(product: Product) -> None:
    """Of memories of one length as many as there is of the file. A database that is cut off has no beginning."""
    path = product.grown(LONG)
    if path.is_dir() or (data := path.read_bytes()).startswith(DATABASE):
        return
    whole = said(items(product.importer, path))
    for share in (0.25, 0.5, 0.9):
        path.write_bytes(data[: int(len(data) * share)])
        found = said(items(product.importer, path))
        assert len(found & whole) >= LONG * share - SPARE


@clause("IM-22")
def test_a_file_of_a_folder_that_is_cut_off(product: Product, tmp_path: Path) -> None:
    """It costs the other files nothing."""
    folders = [sample.path for sample in product.samples if sample.path.is_dir()]
    for number, folder in enumerate(folders):
        path = copied(folder, tmp_path / str(number))
        for file in files_of(path):
            data = file.read_bytes()
            file.unlink()
            others = items(product.importer, path)
            file.write_bytes(data[: len(data) // 2])
            assert said(others) <= said(items(product.importer, path)), file.name
            file.write_bytes(PICTURE)
            assert said(others) <= said(items(product.importer, path)), file.name
            file.write_bytes(data)


def foreign_to(product: Product) -> dict[str, bytes]:
    """What is surely of another product: binary files, and documents where the product's own are such."""
    beginnings = [sample.path.read_bytes().lstrip()[:1] for sample in file_samples(product)]
    is_json = any(beginning in (b"[", b"{") for beginning in beginnings)
    return {"picture": PICTURE, "UTF-16": FOREIGN["UTF-16"], **(JSON_FOREIGN if is_json else {})}


@clause("IM-23")
def test_a_source_of_another_product(product: Product, tmp_path: Path) -> None:
    """No memory, and one line that says so."""
    for name, data in foreign_to(product).items():
        file = tmp_path / "foreign" / name / "export"
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
        found = items(product.importer, file)
        assert memories(found) == [], name
        assert len(bad_lines(found)) == 1, name
    for name in ("prose", "lines", "database", "archive", "export of memspine"):
        file = tmp_path / f"foreign-{name}"
        file.write_bytes(FOREIGN[name])
        items(product.importer, file)  # whatever comes of it, nothing is raised


@clause("IM-24")
def test_reading_raises_nothing(product: Product, tmp_path: Path) -> None:
    """Whatever is in the source."""
    for number, sample in enumerate(product.samples):
        path = copied(sample.path, tmp_path / str(number))
        for file in files_of(path):
            whole = file.read_bytes()
            for data in (*damaged(whole), *FOREIGN.values(), b"[" * 50_000, b"\n" * 1000, whole * 2):
                file.write_bytes(data)
                try:
                    items(product.importer, path)
                except OSError:
                    continue
            file.write_bytes(whole)


@clause("IM-24")
def test_a_device_that_fails_is_no_end(product: Product) -> None:
    """Where reading the stream fails, OSError is raised, or a bad line tells it."""
    for sample in file_samples(product):
        half = sample.path.stat().st_size // 2
        streams: list[Watched] = []

        def failing(file: BinaryIO, half: int = half, streams: list[Watched] = streams) -> io.BufferedReader:
            streams.append(Watched(file, half))
            return io.BufferedReader(streams[-1])

        whole = items(product.importer, sample.path)
        try:
            found = items(product.importer, sample.path, wrapped=failing)
        except OSError:
            continue
        if streams[0].done and len(bad_lines(found)) <= len(bad_lines(whole)):
            pytest.fail(f"{sample.path.name}: the stream failed in the middle, and nobody was told")
