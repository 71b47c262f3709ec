"""Fetching a model: each file into a part beside its place, checked before it gets its name."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from memspine.config.files import locked
from memspine.contracts import Model, ModelFile
from memspine.modelfiles.catalogue import folder_of, is_present, part_of, path_of
from memspine.modelfiles.errors import InterruptedFetch, ModelFilesError
from memspine.modelfiles.origins import Origin, RangeRefused, Stream

MANIFEST: Final = "manifest.json"
CHUNK_BYTES: Final = 1 << 18
ATTEMPTS: Final = 4
"""How often a transfer is taken up again that brings nothing new."""
PAUSE_SECONDS: Final = 1.0
"""Before the second attempt; twice as long before each later one."""
SPACE_LEFT_BYTES: Final = 64 << 20
"""What is left free on the disk: a full one would stop more than this download."""
LOCK_SECONDS: Final = 3600.0


@attrs.frozen
class Progress:
    """How many bytes of a model are there, and how many there will be."""

    done: int
    total: int


@attrs.frozen(kw_only=True)
class Fetched:
    """Where a model is, which of its files were fetched now, and how many bytes that took."""

    folder: Path
    files: tuple[str, ...]
    bytes_read: int


def fetch_model(
    model: Model,
    *,
    data_folder: Path,
    origin: Origin,
    on_progress: Callable[[Progress], None] | None = None,
    on_wait: Callable[[], None] | None = None,
) -> Fetched:
    """Fetch what is not there yet, or not what it should be. `on_wait` is called when another process is at it.

    Whatever ends it early, what came is kept, and the next call goes on from there. Raises ModelFilesError, and OSError
    when the disk does not take it.
    """
    folder = folder_of(model, data_folder=data_folder)
    for place in (data_folder, folder.parent):  # one by one: parents that are made along the way are for everyone
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    fetch = _Fetch(model, folder=folder, origin=origin, on_progress=on_progress)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder, timeout_seconds=0))
        except TimeoutError:
            if on_wait is not None:
                on_wait()
            stack.enter_context(locked(folder, timeout_seconds=LOCK_SECONDS))
        return fetch.run()


class _Fetch:
    """One run, alone with the folder."""

    def __init__(
        self, model: Model, *, folder: Path, origin: Origin, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._model = model
        self._folder = folder
        self._origin = origin
        self._on_progress = on_progress
        self._total = sum(file.size_bytes for file in model.files)
        self._before = 0
        self._read = 0

    def run(self) -> Fetched:
        paths = {file: path_of(file, model=self._model, folder=self._folder) for file in self._model.files}
        lacking = [file for file, path in paths.items() if not _is_whole(path, file)]
        self._before = self._total - sum(file.size_bytes for file in lacking)
        self._check_space([(file, part_of(paths[file])) for file in lacking])
        for file in lacking:
            self._fetch(file, paths[file])
            self._before += file.size_bytes
        self._write_manifest()
        self._tell(0)
        return Fetched(folder=self._folder, files=tuple(file.path for file in lacking), bytes_read=self._read)

    def _write_manifest(self) -> None:
        """Say beside the files what they have to be, for whoever reads them later."""
        files = [{"path": f.path, "sha256": f.sha256.lower(), "size_bytes": f.size_bytes} for f in self._model.files]
        path = self._folder / MANIFEST
        part = part_of(path)
        part.write_text(json.dumps({"files": files}, indent=1) + "\n", encoding="utf-8")
        part.replace(path)

    def _check_space(self, parts: list[tuple[ModelFile, Path]]) -> None:
        needed = sum(max(file.size_bytes - _size(part), 0) for file, part in parts)
        free = shutil.disk_usage(self._folder.parent).free
        if needed and needed + SPACE_LEFT_BYTES > free:
            text = f"{needed} bytes are to come, {free} are free, and {SPACE_LEFT_BYTES} of them have to stay so"
            raise OSError(errno.ENOSPC, text, str(self._folder.parent))

    def _fetch(self, file: ModelFile, path: Path) -> None:
        """One file, taken up again as long as that brings anything."""
        part = part_of(path)
        part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        furthest, failures = _size(part), 0
        while True:
            try:
                self._read_on(file, part)
                break
            except RangeRefused:
                part.unlink()
            except InterruptedFetch as error:
                failures = 1 if _size(part) > furthest else failures + 1
                furthest = max(furthest, _size(part))
                # Where nothing came at all, it is no cut connection that time would mend.
                if failures >= ATTEMPTS or not self._read:
                    reason = f"{file.path} ended after {_size(part)} of {file.size_bytes} bytes: {error}"
                    expected = "all of it; the same command goes on from there"
                    raise ModelFilesError(self._model.name, reason, expected=expected, kind="transient") from error
                time.sleep(PAUSE_SECONDS * 2 ** (failures - 1))
        self._check(file, part)
        part.replace(path)

    def _read_on(self, file: ModelFile, part: Path) -> None:
        """Read from where the part ends. Raises InterruptedFetch when the rest does not come."""
        start = _size(part)
        if start > file.size_bytes:
            part.unlink()
            start = 0
        if start == file.size_bytes:
            part.touch()
            return
        with self._origin.opened(file, start=start) as stream:
            self._write(stream, file, part)

    def _write(self, stream: Stream, file: ModelFile, part: Path) -> None:
        size = stream.start
        with part.open("ab" if size else "wb") as target:
            while chunk := stream.read(CHUNK_BYTES):
                size += len(chunk)
                self._read += len(chunk)
                if size > file.size_bytes:
                    break
                target.write(chunk)
                self._tell(size)
            target.flush()
            os.fsync(target.fileno())
        if size > file.size_bytes:
            self._refuse(file, part, f"is larger than {file.size_bytes} bytes")
        if size < file.size_bytes:
            raise InterruptedFetch("the connection was closed")

    def _check(self, file: ModelFile, part: Path) -> None:
        digest = _sha256(part)
        if digest != file.sha256.lower():
            self._refuse(file, part, f"has the SHA-256 {digest}")

    def _refuse(self, file: ModelFile, part: Path, reason: str) -> None:
        part.unlink(missing_ok=True)
        expected = f"{file.size_bytes} bytes with the SHA-256 {file.sha256}; what came was deleted"
        raise ModelFilesError(self._model.name, f"{file.path} {reason}", expected=expected)

    def _tell(self, of_file: int) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(self._before + of_file, self._total))


def _is_whole(path: Path, file: ModelFile) -> bool:
    """Whether the file is there and what it should be: a disk may have damaged it, or a plugin ask for a newer one."""
    return is_present(path, file) and _sha256(path) == file.sha256.lower()


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
