"""What a plugin implements. The clauses in MUST words are in `core/contract/`; `memspine.conformance` proves them.

All calls are coroutines, keyword-only beyond the first argument, and take the time from the caller (`now`), so that
a store has no clock of its own. Scores are "higher is nearer". Ties are broken by id.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import attrs

from memspine.errors import CapabilityError
from memspine.model import (
    ChangePage,
    Counts,
    Health,
    KeywordMatches,
    KeywordQuery,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryPage,
    NewMemory,
    PurgeReceipt,
    PutOutcome,
    Revision,
    Scope,
    ScoredMemory,
    SearchQuery,
    Tombstone,
    Written,
)

CONTRACT: int = 0
"""The number of the contracts in this module: 0 while they are being proven, then raised for what is incompatible."""


class Capability(enum.StrEnum):
    """What a store can do beyond the base of its contract. Claimed ones are proven by the kit, others raise."""

    PUT = "put"
    CHANGES = "changes"
    LEXICAL = "lexical"
    NATIVE_HYBRID = "native_hybrid"
    HISTORY = "history"
    PURGE = "purge"
    BACKUP = "backup"


class MemoryBackend(Protocol):
    """A store of memories. It receives checked values only: the kernel has normalised text and enforced limits.

    `capabilities` is what this opened store can do, a subset of what its provider declares.
    """

    name: str
    capabilities: frozenset[Capability]

    async def create(self, memory: NewMemory, *, scope: Scope, id: str, now: datetime) -> Written:
        """Store a memory. With a key that the owner has already, replace that one and merge its metadata."""
        ...

    async def create_many(
        self, memories: Sequence[NewMemory], *, scope: Scope, ids: Sequence[str], now: datetime
    ) -> tuple[Written, ...]:
        """Store all of them in order, or none; results are in the order of the input."""
        ...

    async def get(self, id: str, *, scope: Scope, now: datetime) -> Memory | None:
        """The memory, or None when it is unknown, expired, deleted or foreign."""
        ...

    async def get_many(self, ids: Sequence[str], *, scope: Scope, now: datetime) -> dict[str, Memory]:
        """Those of the memories that `get` would return, by id, in the order asked. Any number of ids.

        In `Scope.shared` the caller's own memory wins over one of `global` with the same id.
        """
        ...

    async def update(
        self, id: str, changes: MemoryChanges, *, scope: Scope, now: datetime, expected_revision: int | None = None
    ) -> Memory:
        """Replace the named fields. Raises NotFoundError; ConflictError for another revision or a key that is taken."""
        ...

    async def delete(self, id: str, *, scope: Scope, now: datetime, expected_revision: int | None = None) -> Tombstone:
        """Delete for good. Raises NotFoundError, ConflictError."""
        ...

    async def delete_many(self, filter: MemoryFilter, *, scope: Scope, now: datetime, dry_run: bool) -> tuple[str, ...]:
        """Delete all that match, in one step; returns their ids in (created_at, id) order, also for a dry run."""
        ...

    async def list(
        self,
        filter: MemoryFilter,
        *,
        scope: Scope,
        now: datetime,
        limit: int,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> MemoryPage:
        """A page in (created_at, id) order, or the reverse. Raises CursorError for a cursor of another making."""
        ...

    async def count(
        self,
        filter: MemoryFilter,
        *,
        scope: Scope,
        now: datetime,
        by: Literal["type", "session", "owner"] | None = None,
    ) -> Counts:
        """How many match, in all and by group; empty groups are left out."""
        ...

    async def search(self, query: SearchQuery, *, scope: Scope, now: datetime) -> tuple[ScoredMemory, ...]:
        """The store's own best answers, best first."""
        ...

    async def record_access(self, counts: Mapping[str, int], *, scope: Scope, now: datetime) -> None:
        """Add to the access counts of these ids and set `last_accessed_at`; unknown ids are passed over."""
        ...

    async def expire(self, *, scope: Scope, now: datetime, limit: int) -> int:
        """Remove up to `limit` expired memories without a tombstone, in the scope of everyone or of an owner;
        returns how many."""
        ...

    async def health(self, *, deep: bool = False) -> Health:
        """A read-only probe; `deep` also checks the integrity of everything stored."""
        ...

    # ── capability "put" ──
    async def put(self, records: Sequence[Memory | Tombstone], *, scope: Scope) -> tuple[PutOutcome, ...]:
        """Store whole records with id, revision and times as they are, in order, in one step."""
        ...

    # ── capability "changes" ──
    async def changes(self, *, scope: Scope, limit: int, cursor: str | None = None) -> ChangePage:
        """The feed behind `cursor` (None: from its beginning). Raises CursorError when that part was trimmed."""
        ...

    async def tombstones(self, ids: Sequence[str], *, scope: Scope) -> dict[str, Tombstone]:
        """The tombstones of those ids that were deleted and not created again."""
        ...

    async def trim_changes(self, *, scope: Scope, before: datetime, limit: int) -> int:
        """Drop feed rows older than `before`, oldest first, up to `limit`; returns how many."""
        ...

    # ── capability "lexical" ──
    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """The best `limit` memories that hold at least one of the terms, with the scope owners' own statistics."""
        ...

    # ── capability "history" ──
    async def history(self, id: str, *, scope: Scope) -> tuple[Revision, ...]:
        """All kept states of a memory, oldest first; of a deleted one as well. Empty for an unknown id."""
        ...

    async def trim_history(self, *, scope: Scope, before: datetime, tombstones_before: datetime, limit: int) -> int:
        """Drop states replaced before `before` and tombstones older than `tombstones_before`, up to `limit` rows;
        returns how many."""
        ...

    # ── capability "purge" ──
    async def purge(self, ids: Sequence[str] | None, *, scope: Scope, now: datetime) -> PurgeReceipt:
        """Erase these memories (None: all of the owner's) from every place; tombstones stay, the receipt says so."""
        ...

    # ── capability "backup" ──
    async def backup(self, target: Path) -> None:
        """Write a consistent copy of the whole store to a new file while it is in use."""
        ...


class MemoryBackendDefaults:
    """Base class for backends: every capability raises CapabilityError until the subclass defines it."""

    name: str = "backend"
    capabilities: frozenset[Capability] = frozenset()

    def _unclaimed(self, capability: Capability, operation: str) -> CapabilityError:
        return CapabilityError(capability, operation=operation, store=self.name)

    async def put(self, records: Sequence[Memory | Tombstone], *, scope: Scope) -> tuple[PutOutcome, ...]:
        raise self._unclaimed(Capability.PUT, "put")

    async def changes(self, *, scope: Scope, limit: int, cursor: str | None = None) -> ChangePage:
        raise self._unclaimed(Capability.CHANGES, "changes")

    async def tombstones(self, ids: Sequence[str], *, scope: Scope) -> dict[str, Tombstone]:
        raise self._unclaimed(Capability.CHANGES, "tombstones")

    async def trim_changes(self, *, scope: Scope, before: datetime, limit: int) -> int:
        raise self._unclaimed(Capability.CHANGES, "trim_changes")

    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        raise self._unclaimed(Capability.LEXICAL, "lexical")

    async def history(self, id: str, *, scope: Scope) -> tuple[Revision, ...]:
        raise self._unclaimed(Capability.HISTORY, "history")

    async def trim_history(self, *, scope: Scope, before: datetime, tombstones_before: datetime, limit: int) -> int:
        raise self._unclaimed(Capability.HISTORY, "trim_history")

    async def purge(self, ids: Sequence[str] | None, *, scope: Scope, now: datetime) -> PurgeReceipt:
        raise self._unclaimed(Capability.PURGE, "purge")

    async def backup(self, target: Path) -> None:
        raise self._unclaimed(Capability.BACKUP, "backup")


# ── embedding sources ──


@attrs.frozen(kw_only=True)
class EmbeddingIdentity:
    """What makes two vectors comparable. `revision` is a hash of the weights, or the provider's version."""

    plugin: str
    model: str
    revision: str
    dimension: int
    prompt_scheme: str = "none"


@attrs.frozen
class Vectors:
    """Contiguous little-endian float32 of shape (len(self), dimension), each row of norm 1."""

    dimension: int
    data: bytes

    def __len__(self) -> int:
        return len(self.data) // (4 * self.dimension)

    def row(self, index: int) -> Sequence[float]:
        """One vector as floats."""
        values = array("f")
        values.frombytes(self.data[index * 4 * self.dimension : (index + 1) * 4 * self.dimension])
        return values


class EmbeddingSource(Protocol):
    """Turns texts into vectors."""

    name: str

    async def identity(self) -> EmbeddingIdentity:
        """The identity of the vectors that `embed` gives; the same until the source is closed."""
        ...

    async def embed(self, texts: Sequence[str], *, role: Literal["document", "query"]) -> Vectors:
        """One vector a text, in their order. Raises EmbeddingError for the whole batch when any is unusable."""
        ...


# ── vector stores ──


@attrs.frozen(kw_only=True)
class Space:
    """One set of comparable vectors: an embedding identity, a quantisation, and the source's configuration.

    `source` is the configuration that made it, secrets as references, so that the space stays queryable.
    """

    id: str
    identity: EmbeddingIdentity
    quantisation: Literal["none", "int8", "binary"] = "none"
    source: Mapping[str, Any] = attrs.field(factory=dict)
    active: bool = False


@attrs.frozen(kw_only=True)
class VectorRecord:
    """The vector of one chunk of one memory at one revision, with what the search filters by."""

    id: str
    owner: str
    chunk: int
    revision: int
    session: str
    type: str
    created_at: datetime
    expires_at: datetime | None
    vector: bytes


@attrs.frozen(kw_only=True)
class VectorHit:
    """A memory by its best chunk. `score` is the cosine, higher is nearer."""

    id: str
    owner: str
    session: str
    created_at: datetime
    chunk: int
    revision: int
    score: float


@attrs.frozen(kw_only=True)
class Neighbour:
    """A memory next to another one in its session; `offset` is negative before it, positive after it."""

    of: str
    id: str
    offset: int


class VectorStore(Protocol):
    """The vector index of a chain, in spaces. Scope, filter and expiry hold inside the search."""

    name: str
    capabilities: frozenset[Capability]

    async def spaces(self) -> tuple[Space, ...]:
        """All spaces, oldest first."""
        ...

    async def open_space(self, space: Space) -> Space:
        """Make the space if it is not there; the one that is there wins."""
        ...

    async def activate(self, space_id: str) -> None:
        """Make this the one space that queries use, atomically. Raises NotFoundError."""
        ...

    async def drop_space(self, space_id: str) -> None:
        """Remove a space and its vectors. Raises NotFoundError; ConflictError for the active one."""
        ...

    async def upsert(self, space_id: str, *, records: Sequence[VectorRecord]) -> None:
        """Store vectors; a memory's chunks of an older revision are replaced, newer ones stay."""
        ...

    async def delete(self, ids: Sequence[str], *, scope: Scope) -> None:
        """Remove all vectors of these memories from every space; unknown ids are passed over."""
        ...

    async def search(
        self, space_id: str, *, vector: bytes, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> tuple[VectorHit, ...]:
        """The best `limit` memories, best first."""
        ...

    async def missing(self, space_id: str, *, revisions: Mapping[str, int], scope: Scope) -> tuple[str, ...]:
        """Those of the ids that this space does not hold at this revision or a newer one, in the order given."""
        ...

    async def count(self, space_id: str, *, scope: Scope, now: datetime) -> int:
        """How many memories the space holds."""
        ...

    async def claim(
        self, space_id: str, *, ids: Sequence[str], holder: str, now: datetime, lease_seconds: float
    ) -> tuple[str, ...]:
        """Those of the ids that nobody else has a lease on, now leased to `holder`."""
        ...

    async def neighbours(
        self, ids: Sequence[str], *, scope: Scope, now: datetime, before: int, after: int
    ) -> tuple[Neighbour, ...]:
        """The memories around each id in (created_at, id) order of its session."""
        ...

    async def health(self, *, deep: bool = False) -> Health:
        """A read-only probe; `deep` also checks the integrity of everything stored."""
        ...


# ── injectors ──


class Injector(Protocol):
    """Places a block of memories into one shape of chat request. Pure: requests are never changed in place."""

    name: str
    shape: str

    def query_text(self, request: Mapping[str, Any]) -> str:
        """What the user asks now; empty when the request holds no words of the user's."""
        ...

    def inject(self, request: Mapping[str, Any], block: str, *, options: Mapping[str, Any]) -> dict[str, Any]:
        """A new request with the block placed; every other field is kept as it was."""
        ...

    def texts(self, request: Mapping[str, Any]) -> tuple[str, ...]:
        """The texts of the request in which an earlier block may stand."""
        ...

    def without(self, request: Mapping[str, Any], block: str) -> dict[str, Any]:
        """A new request with this block taken out."""
        ...


# ── providers ──

T = TypeVar("T")
C = TypeVar("C")


class Secret(Protocol):
    """A credential that the configuration names by reference; its repr never shows it."""

    def reveal(self) -> str:
        """The credential. Raises ConfigError when the variable or file is missing."""
        ...


class Context(Protocol):
    """What the kernel gives a provider when it opens."""

    name: str
    """The name that the configuration gives this instance."""
    config_folder: Path
    """Where relative paths of the configuration start."""
    data_folder: Path
    """Where the plugin may keep files when the configuration names none."""

    async def shared(self, key: str, open: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """One reference-counted resource for all who ask with the same key; closed when the last of them closes."""
        ...


@attrs.frozen(kw_only=True)
class Provider(Generic[T, C]):
    """What a plugin offers: a name, how its table in the TOML is checked, and how it is opened.

    `open` is a callable, or its address "module:attribute" (resolved at first use, so that registering imports
    nothing heavy). It takes the checked configuration and a Context and gives an async context manager: constructing
    does no I/O, entering opens, leaving closes everything.
    """

    name: str
    config_type: type[C]
    open: str | Callable[[C, Context], AbstractAsyncContextManager[T]]
    capabilities: frozenset[Capability] = frozenset()
    contract: int = CONTRACT
    summary: str = ""
    distribution: str = ""
    """Filled in by the kernel when it loads the plugin: the distribution and its version, for messages."""
