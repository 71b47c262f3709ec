"""Tables for people, drawn by rich: imported only where a person looks at a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memspine.cli.text import cut

CELL_LENGTH_MAX: Final = 400
"""What a cell shows at most; `get` shows all, and lines for other programs are never cut."""

_LAST_WIDTH_MIN: Final = 40
_EMPTY: Final = "-"


def draw(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """A table whose last column takes the space that is left, or, where that is too little, a paragraph a row.

    Columns in which every cell is empty are left out.
    """
    *heads, last = [n for n in range(len(columns)) if n == len(columns) - 1 or any(row[n] != _EMPTY for row in rows)]
    widths = {n: max(len(text) for text in (columns[n], *(row[n] for row in rows))) for n in (*heads, last)}
    needed = sum(widths[n] + 3 for n in heads) + min(widths[last], _LAST_WIDTH_MIN)
    if needed > console.width:
        for row in rows:
            console.print(Text("  ".join(row[n] for n in heads if row[n] != _EMPTY), style="bold"), soft_wrap=True)
            console.print(Padding(Text(cut(row[last], CELL_LENGTH_MAX)), (0, 0, 1, 2)))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for n in heads:
        table.add_column(columns[n], no_wrap=True)
    table.add_column(columns[last], overflow="fold", ratio=1)
    for row in rows:
        table.add_row(*(Text(cut(row[n], CELL_LENGTH_MAX)) for n in (*heads, last)))
    console.print(table)
