"""The file that a copy keeps ids in, where the target gives ids of its own: JSON lines, written page by page.

The first line names both places; each other one is a memory with its id there. A line that was cut off by a crash is
dropped: the memory is found again by what it says.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from memspine.cli.codes import InputError
from memspine.copying.idmap import IdMap
from memspine.model import MemoryRef

EXPECTED: Final = "a file that `memspine copy --id-map` has written, or a new one"


class IdFile(IdMap):
    """An id map in a file, which is made if it is not there. Raises InputError for a file that is none, or is of other
    places, or cannot be written. A dry run reads it and leaves it as it is."""

    def __init__(self, path: Path, *, source: str, target: str, is_dry: bool = False) -> None:
        self._path, self._is_dry = path, is_dry
        self._header = {"memspine": "id map", "from": source, "to": target}
        self._lines: list[str] = []
        try:
            data = path.read_bytes() if path.exists() else b""
            whole = data[: data.rfind(b"\n") + 1]
            if not whole and not _line(self._header).encode().startswith(data):
                raise self._unusable("is no id map", EXPECTED)
            super().__init__(dict(self._read(whole)))
            if not is_dry:
                self._begin(length=len(whole))
        except OSError as error:
            raise self._unusable(f"cannot be used: {error.strerror or error}", "a file that can be written") from error

    def note(self, ref: MemoryRef, id: str) -> None:
        """Remember an id; the next `keep` writes it."""
        super().note(ref, id)
        self._lines.append(_line({"owner": ref.owner, "id": ref.id, "target_id": id}))

    async def keep(self) -> None:
        """Write what was noted, so that it outlasts a crash. Raises InputError."""
        lines, self._lines = self._lines, []
        if lines and not self._is_dry:
            try:
                await asyncio.to_thread(self._append, "".join(lines))
            except OSError as error:
                reason = f"cannot be written: {error.strerror or error}"
                raise self._unusable(reason, "room for one line a memory; what was copied is found again") from error

    def _begin(self, *, length: int) -> None:
        """Cut off half a line, and begin a new file with its header."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(handle, length)
        finally:
            os.close(handle)
        if not length:
            self._append(_line(self._header))

    def _append(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _read(self, data: bytes) -> Iterator[tuple[MemoryRef, str]]:
        for number, line in enumerate(data.splitlines(), 1):
            try:
                fields = json.loads(line)
                if number == 1:
                    self._check(fields)
                    continue
                yield MemoryRef(_text(fields, "owner"), _text(fields, "id")), _text(fields, "target_id")
            except (ValueError, TypeError, KeyError) as error:
                reason = f"line {number} is not that of an id map"
                raise self._unusable(reason, EXPECTED) from error

    def _check(self, header: Any) -> None:
        if header["memspine"] != self._header["memspine"]:
            raise ValueError
        if header != self._header:
            places = f"is of a copy from {header['from']!r} to {header['to']!r}"
            raise self._unusable(places, f"one from {self._header['from']!r} to {self._header['to']!r}")

    def _unusable(self, reason: str, expected: str) -> InputError:
        return InputError(f"{self._path}: {reason}; expected {expected}; name another file with --id-map")


def _line(fields: dict[str, str]) -> str:
    return f"{json.dumps(fields)}\n"


def _text(fields: Any, name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value
