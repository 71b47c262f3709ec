"""Writing for an owner, and the log of it: what was begun, and how it ended."""

from __future__ import annotations

import json
import os
import random

from memspine.errors import BackendUnavailable, ConflictError, NotFoundError

from .belief import GONE, Belief

ARCHIVED = 6
"""The first memories of each owner are in the archive as well, where that is no replica."""
KEYED = 10
"""One in so many memories has a key."""


def chances(*seed):
    """Chances that are the same for the same seed."""
    return random.Random(" ".join(map(str, seed)))  # noqa: S311 - they have to be foreseen


class Log:
    """The log, synchronised line by line, and what it says."""

    def __init__(self, path):
        self.file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.ftruncate(self.file, path.read_bytes().rfind(b"\n") + 1)  # half a line of one that was killed
        self.belief = Belief.read(path)
        self.number = self.belief.lines

    def write(self, **line):
        """Add a line."""
        os.write(self.file, json.dumps(line).encode() + b"\n")
        os.fsync(self.file)
        self.belief.note(line)

    def begin(self, **line):
        """Add the line before a write; its number."""
        self.number += 1
        self.write(n=self.number, **line)
        return self.number


class Pen:
    """Writes for one owner."""

    def __init__(self, memory, log, owner):
        self.memory, self.log, self.owner = memory, log, owner

    async def write(self, what, id):
        """Create, update or delete a memory, which ends in a number; how it ended."""
        # A content that no other write has.
        content = GONE if what == "delete" else f"{self.owner} keeps {id} as r{self.log.number + 1} walnut"
        number = self.log.begin(owner=self.owner, what=what, id=id, content=content)
        try:
            result = await self._call(what, id, content)
        except BackendUnavailable as error:
            outcome = {"outcome": "unknown" if error.outcome == "unknown" else "refused", "why": str(error)}
        except NotFoundError:
            outcome = {"outcome": "missing"}
        except ConflictError as error:
            outcome = {"outcome": "conflict", "why": str(error)}
        else:
            revision = result.revision if what == "delete" else result.memory.revision
            outcome = {"outcome": "pending" if result.pending else "done", "revision": revision}
            if result.pending and what != "delete":
                outcome["why"] = result.degraded
        self.log.write(n=number, **outcome)
        return outcome["outcome"]

    async def _call(self, what, id, content):
        # What the metadata says tells a whole state from a mixed one.
        fields = {"metadata": {"of": content}, "owner": self.owner, "management": True}
        if what == "delete":
            return await self.memory.delete(id, owner=self.owner, management=True)
        if what == "update":
            return await self.memory.update(id, content=content, **fields)
        number = int(id.rpartition("-")[2])
        key = f"key {id}" if number % KEYED == 0 and number >= ARCHIVED else ""
        return await self.memory.create(content, id=id, key=key, **fields)
