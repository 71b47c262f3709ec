"""The one place where errors of SQLite and of the file system become those of memspine."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from memspine.errors import BackendUnavailable

_CAUSES: tuple[tuple[type[apsw.Error], str, str], ...] = (
    (
        apsw.BusyError,
        "another process kept writing to it for longer than busy_timeout_seconds",
        "try again, or raise busy_timeout_seconds",
    ),
    (apsw.LockedError, "it is locked within this process", "try again"),
    (apsw.FullError, "the disk is full", "free some space and try again; what was stored before is still there"),
    (
        apsw.ReadOnlyError,
        "it cannot be written to",
        "make the file and its folder writable for the user that memspine runs as",
    ),
    (
        apsw.CantOpenError,
        "it cannot be opened",
        "check that the folder exists and that the user memspine runs as may read and write in it",
    ),
    (apsw.PermissionsError, "access was denied", "check who may read and write the file"),
    (apsw.NotADBError, "it is no SQLite database", "name another file in `path`"),
    (
        apsw.CorruptError,
        "the file is damaged",
        "keep a copy of it, then restore a backup; `memspine doctor` says what is damaged",
    ),
    (apsw.NoMemError, "there is not enough memory", "free some memory and try again"),
)


@contextmanager
def translated(backend: str, path: Path) -> Iterator[None]:
    """Raise what SQLite and the file system report about `path` as errors of memspine."""
    try:
        yield
    except apsw.Error as error:
        raise failure(error, backend=backend, path=path) from error
    except OSError as error:
        raise file_failure(error, backend=backend, path=path) from error


def failure(error: apsw.Error, *, backend: str, path: Path) -> BackendUnavailable:
    """What an error of SQLite means: cause and advice where the user can do something about it."""
    for kind, cause, advice in _CAUSES:
        if isinstance(error, kind):
            return BackendUnavailable(backend, f"{path}: {cause} (SQLite: {error})", advice=advice)
    if isinstance(error, apsw.IOError):
        return BackendUnavailable(backend, _io_reason(error, path), advice=_IO_ADVICE)
    reason = f"{path}: SQLite refused a statement ({type(error).__name__}: {error})"
    return BackendUnavailable(backend, reason, advice="run `memspine doctor`: the file may be damaged")


def commit_failure(error: apsw.IOError, *, backend: str, path: Path, ids: Sequence[str]) -> BackendUnavailable:
    """What it means that a commit could not be written: the log may hold the transaction, or not."""
    return BackendUnavailable(backend, _io_reason(error, path), outcome="unknown", ids=ids, advice=_IO_ADVICE)


_IO_ADVICE = "check the disk and its free space; what was stored before is still there"


def _io_reason(error: apsw.IOError, path: Path) -> str:
    return f"{path}: reading or writing failed ({_extended(error)}, SQLite: {error})"


def file_failure(error: OSError, *, backend: str, path: Path) -> BackendUnavailable:
    """What an error of the file system means."""
    advice = "check that the user memspine runs as may read and write there"
    if error.errno == errno.ENOSPC:
        advice = "free some space and try again"
    elif isinstance(error, IsADirectoryError):
        advice = "name a file in `path`"
    place = error.filename or path
    return BackendUnavailable(backend, f"{place}: {error.strerror or error}", advice=advice)


def _extended(error: apsw.Error) -> str:
    code: int = getattr(error, "extendedresult", 0)
    return str(apsw.mapping_extended_result_codes.get(code, code))
