"""How far a space has read what it has to hold."""

from __future__ import annotations

import json
from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class Position:
    """First the end of the feed is noted, then all memories are listed, then the feed is followed from there.

    So nothing is missed, whatever is written meanwhile, and however much of the feed was trimmed before: what both
    name is queued once. A store without a feed is listed again and again; `passes` counts how often it was listed to
    the end. `cursor` is that of the list or of the feed, `feed` the feed's end before the listing began.
    """

    stage: Literal["begin", "list", "feed"] = "begin"
    cursor: str | None = None
    passes: int = 0
    feed: str | None = None

    @classmethod
    def of(cls, text: str) -> Position:
        """From what a space noted; the beginning for what cannot be read."""
        try:
            stage, cursor, passes, feed = json.loads(text)
        except ValueError:
            return cls()
        known = stage in ("begin", "list", "feed")
        return cls(stage=stage, cursor=cursor, passes=passes, feed=feed) if known else cls()

    def __str__(self) -> str:
        return json.dumps([self.stage, self.cursor, self.passes, self.feed])
