"""What an operation works with: one transaction of one connection."""

from __future__ import annotations

import apsw
import attrs

from memspine_sqlite.keywords import Tokens
from memspine_sqlite.tables import MEMORIES, Tables


@attrs.frozen(kw_only=True)
class Transaction:
    """An open transaction. `backend` names the store in errors.

    `has_speakers` is False in a backup from before a store knew who said its memories. `tables` are those of the
    keyword index that is asked.
    """

    connection: apsw.Connection
    backend: str
    tokens: Tokens
    has_speakers: bool = True
    tables: Tables = MEMORIES
