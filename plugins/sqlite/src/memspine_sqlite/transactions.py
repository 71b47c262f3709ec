"""What an operation works with: one transaction of one connection."""

from __future__ import annotations

import apsw
import attrs

from memspine_sqlite.keywords import Tokens


@attrs.frozen(kw_only=True)
class Transaction:
    """An open transaction. `backend` names the store in errors."""

    connection: apsw.Connection
    backend: str
    tokens: Tokens
