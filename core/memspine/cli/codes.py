"""What the exit code of a command says, and which error gives which."""

from __future__ import annotations

import enum
from typing import Final

from memspine.errors import (
    BackendError,
    CapabilityError,
    ConfigError,
    ConflictError,
    CursorError,
    InvalidMemoryError,
    JournalError,
    LoopError,
    MemspineError,
    ModelError,
    NotFoundError,
    PluginError,
    ScopeError,
    UnknownPluginError,
)


class Exit(enum.IntEnum):
    """The exit codes; the name in lower case is the `type` of an error in JSON."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    CONFIG = 3
    NOT_FOUND = 4
    INVALID = 5
    CONFLICT = 6
    UNAVAILABLE = 7
    CAPABILITY = 8
    PARTIAL = 9
    INTERRUPTED = 130


MEANINGS: Final = {
    Exit.OK: "done (also when the reader of a pipe went away, as with `| head`)",
    Exit.FAILURE: "an unexpected failure; MEMSPINE_DEBUG=1 shows where",
    Exit.USAGE: "the command line is not understood",
    Exit.CONFIG: "the configuration, or a plugin that it names, cannot be used; or services lead to each other",
    Exit.NOT_FOUND: "no memory of this owner has this id",
    Exit.INVALID: "a value that cannot be stored or asked for, or a file that cannot be read or written",
    Exit.CONFLICT: "the memory is not in the expected state; nothing was changed",
    Exit.UNAVAILABLE: "a store, a journal, a model or a download cannot be reached, is too slow, or is broken",
    Exit.CAPABILITY: "the store cannot do this, or there is no source of vectors for it",
    Exit.PARTIAL: "partly done: bad lines, places of a purge, some of several memories, copies that differ, a chain "
    "that needs somebody to look at it",
    Exit.INTERRUPTED: "interrupted",
}


class UsageError(MemspineError):
    """Arguments that do not go together."""


class InputError(MemspineError):
    """A file that cannot be read or written, or holds something else than was expected."""


class AnswerError(MemspineError):
    """An answer that could not be written."""


_BY_CLASS: Final[tuple[tuple[type[MemspineError], Exit], ...]] = (  # the first that fits
    (UsageError, Exit.USAGE),
    (ConfigError, Exit.CONFIG),
    (UnknownPluginError, Exit.CONFIG),
    (PluginError, Exit.CONFIG),
    (LoopError, Exit.CONFIG),
    (NotFoundError, Exit.NOT_FOUND),
    (InputError, Exit.INVALID),
    (InvalidMemoryError, Exit.INVALID),
    (CursorError, Exit.INVALID),
    (ScopeError, Exit.INVALID),
    (ConflictError, Exit.CONFLICT),
    (CapabilityError, Exit.CAPABILITY),
    (ModelError, Exit.UNAVAILABLE),
    (JournalError, Exit.UNAVAILABLE),
    (BackendError, Exit.UNAVAILABLE),
)


def exit_code(error: MemspineError) -> Exit:
    """The exit code of a command that an error ended."""
    return next((code for kind, code in _BY_CLASS if isinstance(error, kind)), Exit.FAILURE)


def exit_code_table() -> str:
    """All exit codes, one a line."""
    return "\n".join(f"  {code.value:>3}  {code.name.lower():<12} {meaning}" for code, meaning in MEANINGS.items())
