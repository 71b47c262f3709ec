"""The memories around others, in their owner's session: by time of creation, then in the order in which they came.

That order is the one of row numbers. Memories without a session stand beside nothing.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apsw

from memspine_sqlite import sql
from memspine_sqlite.filters import listed
from memspine_sqlite.rows import LIVE
from memspine_sqlite.tables import MEMORIES

# In the order of the index, which has the number of the row in it; without a look at the row unless one has expired.
# In two steps, because SQLite would walk through everything of the same time to compare both at once.
_STEP = (
    "SELECT * FROM (SELECT n.row FROM {documents} AS n INDEXED BY {documents}_session "
    "WHERE n.owner = m.owner AND n.session = m.session AND {{compared}} AND {live} "
    "ORDER BY n.created_at {order}, n.row {order} LIMIT {limit})"
)
_SAME, _OTHER = "n.created_at = m.created_at AND n.row {sign} m.row", "n.created_at {sign} m.created_at"


class Near(NamedTuple):
    """Rows, side by side with the rows that they are next to and by how many places, negative before these."""

    of: list[int]
    offsets: list[int]
    rows: list[int]


def around(
    connection: apsw.Connection,
    anchors: Sequence[int],
    *,
    before: int,
    after: int,
    at: int | None,
    documents: str = MEMORIES.documents,
) -> Near:
    """The rows of `documents` around rows of it, in the order asked, offsets rising.

    `at` is the time at which the memories count; None when none has expired, which saves looking.
    """
    near = Near([], [], [])
    if not anchors or (before <= 0 and after <= 0):
        return near
    # One text for all: reading one for each row would take longer than finding it.
    text = sql.value(
        connection,
        statement_around(has_before=before > 0, has_after=after > 0, has_expired=at is not None, documents=documents),
        {"anchors": listed(anchors), "before": before, "after": after, "at": at},
    )
    for row, earlier, later in json.loads(text):
        earlier.reverse()
        near.of.extend([row] * (len(earlier) + len(later)))
        near.offsets.extend([*range(-len(earlier), 0), *range(1, len(later) + 1)])
        near.rows.extend(earlier)
        near.rows.extend(later)
    return near


@functools.cache
def statement_around(
    *, has_before: bool, has_after: bool, has_expired: bool, documents: str = MEMORIES.documents
) -> str:
    """The statement behind `around`, for either side or both."""
    live = "(n.expires_at IS NULL OR n.expires_at > :at)" if has_expired else "TRUE"
    sides = []
    for sign, order, limit, is_wanted in (("<", "DESC", ":before", has_before), (">", "ASC", ":after", has_after)):
        step = _STEP.format(documents=documents, live=live, order=order, limit=limit)
        steps = " UNION ALL ".join(step.format(compared=compared.format(sign=sign)) for compared in (_SAME, _OTHER))
        side = f"(SELECT json_group_array(row) FROM ({steps} LIMIT {limit}))"
        sides.append(f"json({side})" if is_wanted else "json('[]')")
    return (
        f"SELECT json_group_array(json_array(m.row, {', '.join(sides)})) "
        f"FROM json_each(:anchors) AS j CROSS JOIN {documents} AS m WHERE m.row = j.value AND m.session != ''"
    )


def live_rows(
    connection: apsw.Connection,
    owner: int,
    ids: Iterable[str],
    *,
    session: str | None,
    at: int | None,
    documents: str = MEMORIES.documents,
) -> list[tuple[int, str]]:
    """The rows of those ids that have not expired and lie in the session, with the ids, in their order.

    `at` is None when nothing has expired.
    """
    inside = ""
    values: list[Any] = []
    if session is not None:
        inside, values = " AND m.session = ?", [session]
    if at is not None:
        inside, values = f"{inside} AND {LIVE}", [*values, at]
    found = sql.rows(
        connection,
        f"SELECT m.row, m.id FROM json_each(?) AS j CROSS JOIN {documents} AS m "
        f"WHERE m.owner = ? AND m.id = j.value{inside}",
        (listed(list(ids)), owner, *values),
    )
    return [(row, id) for row, id in found]
