"""The options of the backend and of the vector store, and the place of their file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from memspine.contracts import Context, Folders
from memspine.errors import BackendUnavailable

FILE_NAME: Final = "memspine.db"
"""The name of the file when the configuration names none."""


BUSY_TIMEOUT_SECONDS_MAX: Final = 3600
LEAN_CACHE_MB: Final = 4


def _check_path(_: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    """Raise ValueError for what no file can be called."""
    if value is not None and "\0" in value:
        raise ValueError(f"'{attribute.name}' must not hold a NUL character: {value!r}")


@attrs.frozen(kw_only=True)
class SQLiteConfig:
    """The options of a SQLite store."""

    path: str | None = attrs.field(
        default=None,
        validator=_check_path,
        metadata={"help": "The file; `~` is the home folder, a relative path starts at the configuration's folder."},
    )
    busy_timeout_seconds: float = attrs.field(
        default=5.0,
        validator=[attrs.validators.ge(0), attrs.validators.le(BUSY_TIMEOUT_SECONDS_MAX)],
        metadata={"help": "How long a call waits while another process writes; below `[memory] deadline_seconds`."},
    )
    readers: int = attrs.field(
        default=2,
        validator=[attrs.validators.ge(1), attrs.validators.le(64)],
        metadata={"help": "How many calls may read at once, each with its own connection."},
    )
    cache_mb: int = attrs.field(
        default=16,
        validator=attrs.validators.ge(1),
        metadata={"help": "Page cache of each connection in MB: one for each reader, one for the writer."},
    )


def lean(config: SQLiteConfig) -> SQLiteConfig:
    """The options for a process that reads or writes each page once."""
    return attrs.evolve(config, readers=1, cache_mb=min(config.cache_mb, LEAN_CACHE_MB))


def place(config: SQLiteConfig, folders: Folders) -> str:
    """Which file it is: its absolute path, links followed; as it is written where that leads nowhere."""
    try:
        path = _named(config, config_folder=folders.config_folder, data_folder=folders.data_folder)
    except RuntimeError:
        return config.path or ""
    return os.path.realpath(path)


Engine = Literal["auto", "numpy", "sqlite-vec", "python"]
"""What compares vectors."""

ENGINES: Final[tuple[Engine, ...]] = ("auto", "numpy", "sqlite-vec", "python")


@attrs.frozen(kw_only=True)
class SQLiteVectorsConfig(SQLiteConfig):
    """The options of a vector store in SQLite."""

    matrix_mb: int = attrs.field(
        default=256,
        validator=attrs.validators.ge(0),
        metadata={"help": "Memory in MB for vectors of owners who are asked about again and again; 0 keeps none."},
    )
    engine: Engine = attrs.field(
        default="auto",
        validator=attrs.validators.in_(ENGINES),
        metadata={"help": "What compares vectors: `numpy`, `sqlite-vec`, `python`, or `auto`: the fastest there is."},
    )


def database_path(config: SQLiteConfig, context: Context) -> Path:
    """The absolute path of the database file, links followed: SQLite keeps its log beside the file itself.

    Raises BackendUnavailable where a path leads nowhere.
    """
    try:
        path = _named(config, config_folder=context.config_folder, data_folder=context.data_folder)
    except RuntimeError as error:
        reason = f"{config.path}: no home folder is known for its `~`"
        raise BackendUnavailable(context.name, reason, advice="write out the whole path in `path`") from error
    return _followed(path, backend=context.name)


def _named(config: SQLiteConfig, *, config_folder: Path, data_folder: Path) -> Path:
    """The file that is named, or else the usual one. Raises RuntimeError for a home folder that nobody knows."""
    return data_folder / FILE_NAME if config.path is None else config_folder / Path(config.path).expanduser()


def _followed(path: Path, *, backend: str) -> Path:
    # Links that lead back to themselves stay as they are, and only asking for the file tells.
    followed = Path(os.path.realpath(path))
    try:
        followed.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            reason, advice = f"{path}: a link in it leads back to itself", "correct it, or name another file in `path`"
            raise BackendUnavailable(backend, reason, advice=advice) from error
    return followed
