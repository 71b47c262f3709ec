"""Stores to copy between: the reference backend, and such as give ids of their own, or take not everything."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime

import attrs

from memspine import times
from memspine.chain import Chain, Member
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.contracts import Capability
from memspine.copying.copy import Copy
from memspine.errors import BackendUnavailable
from memspine.model import Health, Memory, MemoryFilter, MemoryRef, NewMemory, Scope, Written

START = datetime(2026, 1, 1, tzinfo=UTC)
EVERYONE = Scope.everyone()
PLAIN = (Capability.PUT, Capability.HISTORY, Capability.CHANGES)


def store(*, without=(), kind=ReferenceBackend):
    """An empty store that lacks some capabilities."""
    backend = kind("store")
    backend.capabilities = frozenset(backend.capabilities - set(without))
    return backend


def place(backend):
    """A store as a copy has it."""

    @asynccontextmanager
    async def open():
        yield backend

    return Chain([Member(backend.name, open=open)], deadline_seconds=5)


async def add(backend, id, text, *, owner="ann", **fields):
    """Create a memory under an id."""
    scope = Scope.of_owner(owner)
    return await backend.create(NewMemory(content=text, **fields), scope=scope, id=id, now=START)


async def copied(source, target, **options):
    """The report of a copy."""
    return await Copy(source=place(source), target=place(target), **options).run()


async def held(backend):
    """All that a store holds."""
    page = await backend.list(MemoryFilter(), scope=EVERYONE, now=times.now(), limit=1000)
    return {MemoryRef(memory.owner, memory.id): memory for memory in page.memories}


async def texts(backend):
    """Owner and content of all that a store holds, in order."""
    return sorted((ref.owner, memory.content) for ref, memory in (await held(backend)).items())


class Picky(ReferenceBackend):
    """A store that takes no memory whose content begins with "no", and nothing at all once it is down."""

    is_down = False

    async def put(self, records, *, scope):
        """Whole records, all or none."""
        for record in records:
            self.judge(record)
        return await super().put(records, scope=scope)

    async def create_many(self, memories, *, scope, ids, now):
        """One after the other, as a service does it: those before one that is refused are stored."""
        written = []
        for memory, id in zip(memories, ids, strict=True):
            self.judge(memory, has_written=bool(written))
            written += await super().create_many([memory], scope=scope, ids=[id], now=now)
        return tuple(written)

    def judge(self, record, *, has_written=False):
        """Refuse what is not taken."""
        if self.is_down or getattr(record, "content", "").startswith("no"):
            raise BackendUnavailable(self.name, "too long", outcome="unknown" if has_written else "none")

    async def health(self, *, deep=False):
        """Whether it is up."""
        return Health(ok=not self.is_down)


class Minting(Picky):
    """A service that gives ids and times of its own. After `breaks_after` creates it breaks off for once: before an
    answer is lost (`loses_answer`), the memory is stored all the same."""

    mints_ids = True
    minted = 0
    breaks_after = -1
    loses_answer = False
    is_broken = False

    async def create_many(self, memories, *, scope, ids, now):
        """One after the other, each under a new id."""
        written = []
        for memory in memories:
            self.judge(memory, has_written=bool(written))
            if self.breaks_after == 0:
                self.breaks_after = -1
                if self.loses_answer:
                    self.mint(memory, owner=scope.owner)
                self.is_broken = not self.loses_answer
                raise BackendUnavailable(self.name, "it broke", outcome="unknown")
            self.breaks_after -= 1
            written.append(Written(self.mint(memory, owner=scope.owner), created=True))
        return tuple(written)

    def mint(self, new, *, owner):
        """Store a memory as the service does."""
        self.minted += 1
        at = START.replace(year=2027)
        fields = {**attrs.asdict(new, recurse=False), "created_at": at}
        return self.keep(Memory(id=f"{self.minted}", owner=owner, updated_at=at, **fields), now=at)

    async def health(self, *, deep=False):
        """Whether it is up."""
        return Health(ok=not self.is_broken)
