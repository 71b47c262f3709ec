"""A store as a dictionary: what the state machine compares a backend with. It shares no code with any backend."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from memspine import times
from memspine.model import MemoryFilter, NewMemory, Scope, canonical_json

Row = dict[str, Any]


class Model:
    """Rows by (owner, id), and the revisions of the tombstones."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}
        self.graves: dict[tuple[str, str], int] = {}
        self.buried: set[tuple[str, str]] = set()
        self.past: dict[tuple[str, str], list[tuple[int, str]]] = {}
        self.feed: list[tuple[str, str, int, bool]] = []

    def live(self, scope: Scope, now: datetime) -> dict[tuple[str, str], Row]:
        """The rows of a scope that have not expired."""
        return {
            place: row
            for place, row in self.rows.items()
            if (scope.kind == "everyone" or place[0] == scope.owner)
            and (scope.kind != "session" or row["session"] == scope.session_name)
            and (row["expires_at"] is None or row["expires_at"] > now)
        }

    def create(self, new: NewMemory, *, scope: Scope, id: str, now: datetime) -> tuple[str, bool]:
        """The id that the memory got, and whether it is a new one."""
        owner = scope.owner
        holders = [place for place, row in self.rows.items() if place[0] == owner and new.key and row["key"] == new.key]
        place = holders[0] if holders else (owner, id)
        old = self.rows.get(place)
        row = {
            "content": new.content,
            "type": new.type,
            "session": scope.session_name if scope.kind == "session" else new.session,
            "key": new.key,
            "metadata": json.loads(canonical_json(dict(new.metadata))),
            "created_at": now if new.created_at is None else new.created_at,
            "updated_at": now,
            "expires_at": new.expires_at,
            "revision": self.graves.get(place, 0) + 1 if old is None else old["revision"] + 1,
            "accesses": 0,
        }
        dead = old is not None and old["expires_at"] is not None and old["expires_at"] <= now
        if dead:
            self.drop(place)  # a store need not remember what was before
        if old is not None and not dead:
            row["created_at"], row["accesses"] = old["created_at"], old["accesses"]
            merged = dict(old["metadata"])
            for name, value in row["metadata"].items():
                merged[name] = value
                if value is None:
                    del merged[name]
            row["metadata"] = merged
        self._put(place, row)
        return place[1], old is None or dead

    def update(self, place: tuple[str, str], fields: dict[str, Any], *, now: datetime) -> bool:
        """Whether the update is done; it is not when its key is taken."""
        key = fields.get("key")
        for other, row in list(self.rows.items()):
            if key and other != place and other[0] == place[0] and row["key"] == key:
                if row["expires_at"] is None or row["expires_at"] > now:
                    return False
                self.drop(other)
        old = self.rows[place]
        self._put(place, old | fields | {"updated_at": now, "revision": old["revision"] + 1})
        return True

    def delete(self, place: tuple[str, str]) -> int:
        """The revision of the tombstone."""
        row = self.rows.pop(place)
        self.graves[place] = row["revision"] + 1
        self.buried.add(place)
        self.past.setdefault(place, []).append((row["revision"], row["content"]))
        self.feed.append((place[1], place[0], row["revision"] + 1, True))
        return self.graves[place]

    def drop(self, place: tuple[str, str]) -> None:
        """Forget a row that has expired. What its history says from then on is the store's affair."""
        del self.rows[place]
        self.past.pop(place, None)

    def _put(self, place: tuple[str, str], row: Row) -> None:
        old = self.rows.get(place)
        if old is not None:
            self.past.setdefault(place, []).append((old["revision"], old["content"]))
        self.rows[place] = row
        self.graves.pop(place, None)
        self.feed.append((place[1], place[0], row["revision"], False))


def fits(row: Row, filter: MemoryFilter) -> bool:
    """Whether a row is what the filter asks for."""
    if filter.types and row["type"] not in filter.types:
        return False
    if filter.key is not None and row["key"] != filter.key:
        return False
    if filter.category is not None and row["metadata"].get("category") != filter.category:
        return False
    text = (filter.text or "").casefold()
    if text not in row["content"].casefold() and text not in row["key"].casefold():
        return False
    if filter.created_before is not None and row["created_at"] >= filter.created_before:
        return False
    return filter.updated_before is None or row["updated_at"] < filter.updated_before


def place_order(item: tuple[tuple[str, str], Row]) -> tuple[str, str]:
    """The order of a list."""
    (_, id), row = item
    return times.to_text(row["created_at"]), id
