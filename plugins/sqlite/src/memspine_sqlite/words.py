"""Spaces of terms, which are the keyword index of a backend that has none: storing and asking."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import attrs

from memspine.contracts import TermRecord
from memspine.model import KeywordMatches, KeywordQuery, MemoryFilter, MemoryRef, Scope
from memspine_sqlite import kept, queueing, rows, spaces, tables
from memspine_sqlite import lexical as searching
from memspine_sqlite import speakers as speaking
from memspine_sqlite.transactions import Transaction


def index_terms(
    transaction: Transaction, space_id: str, *, records: Sequence[TermRecord], holder: str | None = None
) -> None:
    """Store the terms of memories (of those that the queue has leased to the holder, if there is one), and take the
    memories out of the queue."""
    connection = transaction.connection
    space = spaces.layout(transaction, space_id).number
    if holder is not None:
        refs = [MemoryRef(record.owner, record.id) for record in records]
        leased = queueing.leased(connection, space, refs, holder=holder)
        records = [record for record, ref in zip(records, refs, strict=True) if ref in leased]
    owners: dict[str, dict[str, TermRecord]] = {}
    for record in records:
        known = owners.setdefault(record.owner, {})
        if record.id not in known or known[record.id].revision <= record.revision:
            known[record.id] = record
    done: list[tuple[int, str, int]] = []
    for name, newest in owners.items():
        owner = rows.owner_made(connection, name)
        held = kept.store(connection, transaction.tokens, space=space, owner=owner, records=list(newest.values()))
        done += [(owner, id, revision) for id, revision in held.items()]
    queueing.settle(connection, space, done)


def lexical(
    transaction: Transaction,
    space_id: str,
    *,
    query: KeywordQuery,
    scope: Scope,
    filter: MemoryFilter,
    now: datetime,
    limit: int,
) -> KeywordMatches:
    """The best matches of a question, with statistics of all that the space holds of the scope's owners."""
    # The other fields of a filter are about what an index without text does not know.
    known = MemoryFilter(types=filter.types, created_from=filter.created_from, created_before=filter.created_before)
    inside = _inside(transaction, space_id)
    return searching.lexical(inside, query, scope=scope, filter=known, now=now, limit=limit)


def speakers(
    transaction: Transaction, space_id: str, *, terms: Sequence[str], scope: Scope, now: datetime
) -> frozenset[str]:
    """Those of the terms that are in the name of the speaker of a memory that is alive."""
    return speaking.known(_inside(transaction, space_id), terms, scope=scope, now=now)


def _inside(transaction: Transaction, space_id: str) -> Transaction:
    """The transaction, with the tables of a space as those of the keyword index. Raises NotFoundError."""
    return attrs.evolve(transaction, tables=tables.kept(spaces.layout(transaction, space_id).number))
