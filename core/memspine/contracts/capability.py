"""What a store can do beyond the base of its contract."""

from __future__ import annotations

import enum


class Capability(enum.StrEnum):
    """What a store can do beyond the base of its contract. Claimed ones are proven by the kit, others raise."""

    PUT = "put"
    CHANGES = "changes"
    LEXICAL = "lexical"
    NATIVE_HYBRID = "native_hybrid"
    HISTORY = "history"
    PURGE = "purge"
    BACKUP = "backup"
