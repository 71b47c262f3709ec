"""Changing a file so that neither a crash nor another process loses anything."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PAUSE_SECONDS: Final = 0.01


@contextlib.contextmanager
def locked(path: Path, *, timeout_seconds: float) -> Iterator[None]:
    """Alone among the processes and threads that change this file. Raises TimeoutError, or OSError without a lock.

    The lock is on a file beside it, which stays: the file itself is replaced, and removing a lock file is a race.
    """
    descriptor = _open_lock(path.with_name(f".{path.name}.lock"))
    try:
        deadline = time.monotonic() + timeout_seconds
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"is being changed by another process for more than {timeout_seconds} s")
            time.sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)  # which gives the lock back


def replace_file(path: Path, content: bytes) -> None:
    """The file with a new content, whole or not at all; mode and owner stay, a new file is for its owner alone."""
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if path.exists():
                _copy_rights(path, name)
            os.fsync(file.fileno())
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
    _sync_folder(path.parent)


def _copy_rights(path: Path, name: str) -> None:
    status = path.stat()
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):  # not ours to give away: then it becomes the writer's
            os.chown(name, status.st_uid, status.st_gid)
    Path(name).chmod(status.st_mode & 0o7777)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where a folder can be synced."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_lock(path: Path) -> int:
    flags = os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags | os.O_RDWR, 0o644)
    except PermissionError:
        # Another user, as with sudo, made the lock file: reading is enough for a lock on a local disk.
        return os.open(path, flags & ~os.O_CREAT | os.O_RDONLY)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
