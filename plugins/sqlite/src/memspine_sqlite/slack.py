"""Overwrites what a database file holds beside its contents.

`PRAGMA secure_delete` overwrites what is deleted, but only where it lies at that moment. When SQLite spreads rows over
neighbouring pages and builds a page anew, copies of the rows that moved stay in the unused middle of the page (in
`rebuildPage`, unlike all other places, nothing is overwritten), and deleting the rows later does not reach them.
`VACUUM` would write the whole store once more; this reads it once and writes only what is not zero.

The bytes concerned have no meaning to SQLite, and each write is within them, so that neither a reader at the same time
nor a power cut in the middle can see anything but a sound page. What has to hold meanwhile is that no page changes:
the caller has the write lock, and the log is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw
import attrs

_LEAVES = frozenset({10, 13})
_INTERIORS = frozenset({2, 5})
_PAGES_AT_ONCE = 128
_PENDING_BYTE = 0x4000_0000


PAGES_MAX: Final = 0x0200_0000 - 1
"""Up to so many pages the first byte tells a B-tree page from an overflow page."""


class TooLargeError(Exception):
    """A file of so many pages that what is unused in it cannot be told."""


@attrs.frozen
class Shape:
    """Size and number of the pages of a database, and which of them are free: number to first unused byte."""

    page_size: int
    usable: int
    pages: int
    free: dict[int, int]


class DatabaseFile:
    """The bytes of a database, opened through SQLite, so that closing it loses none of SQLite's locks."""

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
        self._file = apsw.VFSFile(vfs or "", str(path), [flags, 0])

    def close(self) -> None:
        """Close the file."""
        self._file.xClose()

    def read(self, start: int, length: int) -> bytes:
        """Bytes of the file."""
        return self._file.xRead(length, start)

    def shape(self) -> Shape:
        """How the file is laid out now."""
        header = self.read(0, 100)
        size = int.from_bytes(header[16:18])
        page_size = 65536 if size == 1 else size
        pages = self._file.xFileSize() // page_size
        free = self._free_pages(int.from_bytes(header[32:36]), page_size=page_size, pages=pages)
        return Shape(page_size, page_size - header[20], pages, free)

    def clean(self, shape: Shape, first: int, last: int) -> int:
        """Overwrite all unused bytes of the pages `first` to `last`; returns how many were not zero before.

        Raises TooLargeError.
        """
        if shape.pages > PAGES_MAX:
            raise TooLargeError(shape.pages)
        found = 0
        size = shape.page_size
        for start in range(first, last + 1, _PAGES_AT_ONCE):
            count = min(_PAGES_AT_ONCE, last + 1 - start)
            data = self.read((start - 1) * size, count * size)
            for place in range(count):
                found += self._clean_page(shape, start + place, data[place * size : (place + 1) * size])
        if found:
            self._file.xSync(apsw.SQLITE_SYNC_FULL)
        return found

    def _clean_page(self, shape: Shape, number: int, page: bytes) -> int:
        found = 0
        for start, end in unused_ranges(shape, number, page):
            used = end - start - page.count(0, start, end)
            if used:
                self._file.xWrite(bytes(end - start), (number - 1) * shape.page_size + start)
                found += used
        return found

    def _free_pages(self, trunk: int, *, page_size: int, pages: int) -> dict[int, int]:
        """The pages of the free list: a trunk names others in its first bytes, a leaf holds nothing."""
        free: dict[int, int] = {}
        while 0 < trunk <= pages and trunk not in free:
            page = self.read((trunk - 1) * page_size, page_size)
            count = min(int.from_bytes(page[4:8]), page_size // 4 - 2)
            leaves = (int.from_bytes(page[8 + 4 * n : 12 + 4 * n]) for n in range(count))
            free.update((leaf, 0) for leaf in leaves)
            free[trunk] = 8 + 4 * count
            trunk = int.from_bytes(page[:4])
        return free


def unused_ranges(shape: Shape, number: int, page: bytes) -> Iterator[tuple[int, int]]:
    """The ranges of a page that hold nothing."""
    if number == _PENDING_BYTE // shape.page_size + 1:
        return
    if number in shape.free:
        yield shape.free[number], shape.usable
        return
    header = 100 if number == 1 else 0
    kind = page[header]
    # An overflow page begins with the number of the next one, whose first byte is less than any of these up to
    # PAGES_MAX. It has no unused bytes to clean: what it does not fill was zero when it was taken into use.
    if kind not in _LEAVES and kind not in _INTERIORS:
        return
    cells = int.from_bytes(page[header + 3 : header + 5])
    content = int.from_bytes(page[header + 5 : header + 7]) or 65536
    pointers_end = header + (8 if kind in _LEAVES else 12) + 2 * cells
    if not pointers_end <= content <= shape.usable:
        return
    yield pointers_end, content
    yield from _free_blocks(page, int.from_bytes(page[header + 1 : header + 3]), usable=shape.usable)


def _free_blocks(page: bytes, block: int, *, usable: int) -> Iterator[tuple[int, int]]:
    """The free blocks of a page, in ascending order; each begins with where the next one is, and its own size."""
    while 0 < block <= usable - 4:
        following = int.from_bytes(page[block : block + 2])
        end = block + int.from_bytes(page[block + 2 : block + 4])
        if end > usable:
            return
        yield block + 4, end
        if following < end:
            return
        block = following
