"""The options of the backend, and the place of its file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from memspine.contracts import Context

FILE_NAME: Final = "memspine.db"
"""The name of the file when the configuration names none."""


@attrs.frozen(kw_only=True)
class SQLiteConfig:
    """The options of a SQLite store."""

    path: str | None = attrs.field(
        default=None,
        metadata={"help": "The file; `~` is the home folder, a relative path starts at the configuration's folder."},
    )
    busy_timeout_seconds: float = attrs.field(
        default=5.0,
        validator=attrs.validators.ge(0),
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


def database_path(config: SQLiteConfig, context: Context) -> Path:
    """The absolute path of the database file, links followed: SQLite keeps its log beside the file itself."""
    if config.path is None:
        return (context.data_folder / FILE_NAME).resolve()
    return (context.config_folder / Path(config.path).expanduser()).resolve()
