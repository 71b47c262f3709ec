"""What has not arrived yet, durably: writes that wait, deletes that must hold, how far each replica is.

One file of the standard sqlite3 for a chain. `Journal` runs functions of the other modules, each in one transaction.
"""

from __future__ import annotations

from memspine.journal.file import Journal
from memspine.journal.schema import now_milliseconds
from memspine.journal.whose import Whose

__all__ = ["Journal", "Whose", "now_milliseconds"]
