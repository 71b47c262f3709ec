"""The values that everything speaks in: frozen, checked where they enter, never changed in place.

Text is NFC, times are UTC with milliseconds (`memspine.times`), metadata is a JSON object.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import attrs

from memspine import times
from memspine.errors import InvalidMemoryError, ScopeError

GLOBAL_OWNER: Final = "global"
"""The reserved owner whose memories `Scope.shared` adds to the caller's own."""

ID_LENGTH_MAX: Final = 128
OWNER_LENGTH_MAX: Final = 512
SESSION_LENGTH_MAX: Final = 512
KEY_LENGTH_MAX: Final = 512
CONTENT_LENGTH_MAX: Final = 100_000
METADATA_BYTES_MAX: Final = 64 * 1024
METADATA_DEPTH_MAX: Final = 32
LIMIT_MAX: Final = 10_000
"""The largest `limit` of one list or search call."""


class MemoryType(enum.StrEnum):
    """What kind of thing a memory is."""

    FACTUAL = "factual"
    EPISODIC = "episodic"
    PROCEDURAL = "procedural"
    SEMANTIC = "semantic"


class Unset(enum.Enum):
    """The type of `UNSET`: "leave this field as it is", where None is a value of its own."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@attrs.frozen(kw_only=True)
class Memory:
    """One memory at one revision. `metadata` is not to be changed by its readers."""

    id: str
    owner: str
    content: str
    type: MemoryType = MemoryType.FACTUAL
    session: str = ""
    key: str = ""
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    revision: int = 1
    access_count: int = 0
    last_accessed_at: datetime | None = None

    @property
    def content_hash(self) -> str:
        """SHA-256 of the canonical JSON of all that a revision is, telemetry and id left out (64 hex digits)."""
        expires = None if self.expires_at is None else times.to_text(self.expires_at)
        fields = (
            self.owner, self.session, self.type.value, self.key, self.content, self.metadata,
            times.to_text(self.created_at), times.to_text(self.updated_at), expires,
        )  # fmt: skip
        return hashlib.sha256(canonical_json(fields).encode()).hexdigest()

    def is_expired(self, now: datetime) -> bool:
        """Whether the memory counts as absent at `now`."""
        return self.expires_at is not None and self.expires_at <= now


class MemoryRef(NamedTuple):
    """Which memory: ids are unique per owner only."""

    owner: str
    id: str


@attrs.frozen(kw_only=True)
class NewMemory:
    """What a caller wants remembered. `created_at` is for things that happened earlier; None means now."""

    content: str
    type: MemoryType = MemoryType.FACTUAL
    session: str = ""
    key: str = ""
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    expires_at: datetime | None = None
    created_at: datetime | None = None

    @classmethod
    def of(cls, memory: Memory) -> NewMemory:
        """What to remember to have a memory again, without its id, revision and telemetry."""
        return cls(
            content=memory.content,
            type=memory.type,
            session=memory.session,
            key=memory.key,
            metadata=memory.metadata,
            expires_at=memory.expires_at,
            created_at=memory.created_at,
        )


@attrs.frozen(kw_only=True)
class MemoryChanges:
    """The fields that an update replaces, metadata as a whole; `UNSET` fields stay."""

    content: str | Unset = UNSET
    type: MemoryType | Unset = UNSET
    session: str | Unset = UNSET
    key: str | Unset = UNSET
    metadata: Mapping[str, Any] | Unset = UNSET
    expires_at: datetime | Unset | None = UNSET

    def named(self) -> dict[str, Any]:
        """The fields that are set, by name."""
        return {name: value for name, value in attrs.asdict(self, recurse=False).items() if value is not UNSET}


@attrs.frozen
class Scope:
    """Whose memories a call is about. Made by the class methods; compared by exact owner, never by prefix."""

    kind: Literal["owner", "session", "shared", "everyone"]
    owner: str = ""
    session_name: str = ""

    @classmethod
    def of_owner(cls, owner: str) -> Scope:
        """All memories of one owner."""
        return cls("owner", _named(owner))

    @classmethod
    def of_session(cls, owner: str, session: str) -> Scope:
        """The memories of one owner in one session; the empty session holds those without one."""
        return cls("session", _named(owner), session)

    @classmethod
    def shared(cls, owner: str) -> Scope:
        """The memories of one owner, and those of the reserved owner `global`."""
        return cls("shared", _named(owner))

    @classmethod
    def everyone(cls) -> Scope:
        """All memories of all owners: only for `list`, `count` and `changes`, and only for management."""
        return cls("everyone")

    @property
    def owners(self) -> tuple[str, ...] | None:
        """The owners whose memories may be read; None means every owner."""
        if self.kind == "everyone":
            return None
        return tuple(dict.fromkeys((self.owner, GLOBAL_OWNER))) if self.kind == "shared" else (self.owner,)

    @property
    def session(self) -> str | None:
        """The session that limits the scope; None means no limit."""
        return self.session_name if self.kind == "session" else None

    def require_owner(self, operation: str) -> str:
        """The one owner that `operation` may act for; raises ScopeError in a wider scope."""
        if self.kind not in ("owner", "session"):
            raise ScopeError(operation, self, "the scope of one owner, Scope.of_owner(…)")
        return self.owner

    def require_readable(self, operation: str) -> tuple[str, ...]:
        """The owners that `operation` may read; raises ScopeError for everyone."""
        owners = self.owners
        if owners is None:
            raise ScopeError(operation, self, "the scope of an owner; everyone is for list, count and changes")
        return owners

    def __str__(self) -> str:
        if self.kind == "session":
            return f"the session {self.session_name!r} of {self.owner!r}"
        return "the scope of everyone" if self.kind == "everyone" else f"the {self.kind} scope of {self.owner!r}"


def _named(owner: str) -> str:
    if not isinstance(owner, str) or not owner:
        raise ScopeError("a scope", repr(owner), "an owner's name, which is never empty")
    return owner


@attrs.frozen(kw_only=True)
class MemoryFilter:
    """Which memories of a scope a call is about; every field that is set has to hold.

    `created_from` is inclusive, `created_before` and `updated_before` are exclusive. `category` is compared with
    `metadata["category"]`. `text` is a case-folded substring of content or key.
    """

    types: tuple[MemoryType, ...] = ()
    key: str | None = None
    category: str | None = None
    text: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    updated_before: datetime | None = None

    def holds_for(self, memory: Memory) -> bool:
        """Whether every field that is set holds for a memory."""
        text = None if self.text is None else self.text.casefold()
        return (
            (not self.types or memory.type in self.types)
            and self.key in (None, memory.key)
            and (self.category is None or memory.metadata.get("category") == self.category)
            and (text is None or text in memory.content.casefold() or text in memory.key.casefold())
            and (self.created_from is None or self.created_from <= memory.created_at)
            and (self.created_before is None or memory.created_at < self.created_before)
            and (self.updated_before is None or memory.updated_at < self.updated_before)
        )


@attrs.frozen
class MemoryPage:
    """Memories in order, and the cursor of the page after (None at the end)."""

    memories: tuple[Memory, ...]
    cursor: str | None = None


@attrs.frozen
class Counts:
    """How many memories there are, in all and by group; the manager adds who counted and what was degraded."""

    total: int
    groups: Mapping[str, int] = attrs.field(factory=dict)
    backend: str = ""
    degraded: tuple[str, ...] = ()


@attrs.frozen
class Written:
    """A memory as it was stored; `created` is False when a key that was there before was replaced."""

    memory: Memory
    created: bool


@attrs.frozen(kw_only=True)
class Tombstone:
    """What stays of a deleted memory: enough to keep it deleted, none of its content."""

    id: str
    owner: str
    revision: int
    deleted_at: datetime


class PutOutcome(enum.StrEnum):
    """What became of a whole record: stored (or there already), older than what is there, or neither can be told."""

    APPLIED = "applied"
    STALE = "stale"
    CONFLICT = "conflict"


@attrs.frozen(kw_only=True)
class Change:
    """One row of a feed: memory `id` reached `revision`, or was deleted at it. `cursor` resumes behind it."""

    cursor: str
    id: str
    owner: str
    revision: int
    deleted: bool
    changed_at: datetime


@attrs.frozen
class ChangePage:
    """Changes in the order they were committed, and the cursor behind the last of them."""

    changes: tuple[Change, ...]
    cursor: str
    more: bool


@attrs.frozen(kw_only=True)
class Revision:
    """One state a memory has had. `replaced_at` is None for the current one; a deletion ends the last one."""

    memory: Memory
    replaced_at: datetime | None = None
    deleted: bool = False


@attrs.frozen(kw_only=True)
class PurgedPlace:
    """What became of one place that may hold a purged memory: `pending` and `kept` say why in `detail`."""

    place: str
    status: Literal["erased", "pending", "kept"]
    detail: str = ""


@attrs.frozen
class PurgeReceipt:
    """How many memories were purged, and each place with what became of it."""

    memories: int
    places: tuple[PurgedPlace, ...]


@attrs.frozen(kw_only=True)
class Finding:
    """Something about a store or the installation that a person should know, and what to do about it."""

    level: Literal["info", "warning", "error"]
    text: str
    advice: str = ""


@attrs.frozen(kw_only=True)
class Health:
    """Whether a store works. `facts` are versions, sizes and the like."""

    ok: bool
    detail: str = ""
    facts: Mapping[str, str] = attrs.field(factory=dict)
    findings: tuple[Finding, ...] = ()


@attrs.frozen(kw_only=True)
class Problem:
    """One thing wrong with a configuration. `line` counts from 1; None where no line can be named."""

    source: str
    line: int | None
    key: str
    text: str

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.key}: {self.text}" if self.key else f"{place}: {self.text}"


@attrs.frozen(kw_only=True)
class SearchQuery:
    """A question to a store's own search; answers are the best `limit` memories."""

    text: str
    limit: int
    filter: MemoryFilter = MemoryFilter()


@attrs.frozen
class ScoredMemory:
    """A memory with a store's own score: higher is nearer, comparable within one answer only."""

    memory: Memory
    score: float


@attrs.frozen
class KeywordQuery:
    """Distinct index terms of a question, as `memspine.text.query_terms` gives them.

    Of the memories in `also`, and of the `before` and `after` memories around each match and each of those in its
    session, the answer tells the same numbers as of a match.
    """

    terms: tuple[str, ...]
    also: tuple[MemoryRef, ...] = ()
    before: int = 0
    after: int = 0


@attrs.frozen(kw_only=True)
class KeywordMatch:
    """A memory that holds at least one term of a question, with the numbers that ranking needs.

    `frequencies[i]` says how often `terms[i]` occurs in it; `length` is the number of its terms, possibly rounded as
    `memspine.ranking.length_code` rounds. `speaker` are the places of those terms of the question that are in the
    speaker's name (`memspine.text.speaker_terms`); `asks` says that the content ends by asking something
    (`memspine.text.asks`).
    """

    id: str
    owner: str
    session: str
    created_at: datetime
    length: int
    frequencies: tuple[int, ...]
    speaker: tuple[int, ...] = ()
    asks: bool = False


@attrs.frozen(kw_only=True)
class KeywordStatistics:
    """The numbers of the memories in a scope's owners alone: how many are alive, how many terms they hold in all,
    and for each term of the question how many of them hold it."""

    documents: int
    total_length: int
    document_frequencies: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Neighbour:
    """A memory next to another one, `of`, in their owner's session; `offset` is negative before it, positive after."""

    of: MemoryRef
    id: str
    offset: int


@attrs.frozen
class KeywordMatches:
    """The best matches of a question in the order of `memspine.ranking.keyword_scores`, and how many there were.

    `others` are those that were asked for in `also` and those that `neighbours` names, each once, as far as they are
    not among `matches`; one without any of the terms has frequencies of 0. Both are in no particular order.
    """

    matches: tuple[KeywordMatch, ...]
    statistics: KeywordStatistics
    matched: int
    others: tuple[KeywordMatch, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


def canonical_json(value: object) -> str:
    """JSON with sorted keys, no spaces and no escapes beyond the necessary: equal values give equal text."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def merged_metadata(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata after a replacement: new entries win, null removes. Raises InvalidMemoryError for too much in all."""
    merged = {name: value for name, value in {**old, **new}.items() if value is not None or name not in new}
    if (size := len(canonical_json(merged).encode())) > METADATA_BYTES_MAX:
        raise InvalidMemoryError("metadata", new, f"at most {METADATA_BYTES_MAX} bytes with what is there, not {size}")
    return merged
