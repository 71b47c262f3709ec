"""Whose a journal is: what waits in it must never reach another store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from sqlite3 import Connection

MARK_LENGTH: Final = 12
"""So much of a mark tells stores apart for people, and in the names of files."""


@attrs.frozen(kw_only=True)
class Whose:
    """The primary of the chain that a journal belongs to: its name and plugin, the mark of its store, and its place as
    a person knows it, where that may be shown."""

    primary: str
    plugin: str
    store: str = ""
    place: str = attrs.field(default="", eq=False)

    def __str__(self) -> str:
        store = self.place or (f"store {self.store[:MARK_LENGTH]}" if self.store else "")
        return f"primary {self.primary!r} ({', '.join(filter(None, (self.plugin, store)))})"

    def told_from(self, other: Whose) -> str:
        """The same, with the mark where the rest does not tell it from another."""
        return f"{self}, store {self.store[:MARK_LENGTH]}" if str(self) == str(other) else str(self)


def read_whose(connection: Connection) -> Whose:
    """Whose the journal is."""
    row = connection.execute("SELECT primary_name, plugin, store, place FROM chain").fetchone()
    return Whose(primary=row[0], plugin=row[1], store=row[2], place=row[3])


def note_whose(connection: Connection, whose: Whose) -> None:
    """Note whose the journal is from now on."""
    connection.execute("DELETE FROM chain")
    connection.execute("INSERT INTO chain VALUES (?, ?, ?, ?)", (whose.primary, whose.plugin, whose.store, whose.place))
