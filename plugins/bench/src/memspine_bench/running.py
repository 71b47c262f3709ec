"""Fills stores with conversations and asks them."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from memspine_bench.data import Conversation, Message
from memspine_bench.errors import MeasureError
from memspine_bench.metrics import Measured, measure_both
from memspine_bench.places import Base, placed, store_key
from memspine_bench.sources import SharedSources

if TYPE_CHECKING:
    from memspine import MemoryManager
    from memspine.config import Config
    from memspine.indexing import Progress as SpaceProgress
    from memspine.results import SearchResult

RANKS: Final = 50
"""How many memories a question is answered with."""
BATCH: Final = 1000
_WARM_UP: Final = "Is anybody there?"

Progress = Callable[[str], None]


@attrs.frozen(kw_only=True, eq=False)
class Variant:
    """One configuration to be measured, equal to no other.

    `is_timed` says that each of its questions is embedded, although another variant may have asked it before.
    """

    label: str
    config: Config
    uses_source: bool
    is_timed: bool = True


@attrs.frozen(kw_only=True)
class Outcome:
    """How one question was answered. `lacking` says what was missing for the answer, if anything was."""

    conversation: int
    question: str
    category: str
    measured: Measured
    milliseconds: float
    lacking: tuple[str, ...] = ()


@attrs.define
class Taken:
    """What one variant came to, conversation by conversation. `notes` count what should be known beside."""

    outcomes: list[list[Outcome]] = attrs.field(factory=list)
    memories: int = 0
    seconds: float = 0.0
    vector_store: str = ""
    notes: Counter[str] = attrs.field(factory=Counter)

    @property
    def all(self) -> list[Outcome]:
        """The outcomes of all conversations."""
        return [outcome for conversation in self.outcomes for outcome in conversation]


async def run(
    variants: Sequence[Variant],
    conversations: Sequence[Conversation],
    *,
    base: Base,
    sources: SharedSources,
    progress: Progress,
) -> dict[Variant, Taken]:
    """What each variant comes to. Those that differ only in how they ask, ask the same store."""
    taken = {variant: Taken() for variant in variants}
    groups: defaultdict[str, list[tuple[Variant, Taken]]] = defaultdict(list)
    for variant in variants:
        groups[store_key(variant.config)].append((variant, taken[variant]))
    for place, conversation in enumerate(conversations):
        where = f"conversation {place + 1} of {len(conversations)}"
        for group in groups.values():
            with tempfile.TemporaryDirectory(prefix="memspine-bench-", ignore_cleanup_errors=True) as folder:
                store = _Store(conversation, place=place, folder=Path(folder), sources=sources)
                await store.measure(group, progress=_prefixed(progress, where))
                if base.has_own_place:
                    await store.remove(group[0][0])
    return taken


def _prefixed(progress: Progress, where: str) -> Progress:
    return lambda text: progress(f"{where}: {text}")


class _Store:
    """One conversation as the only owner in a store of its own."""

    def __init__(self, conversation: Conversation, *, place: int, folder: Path, sources: SharedSources) -> None:
        self._conversation = conversation
        self._place = place
        self._folder = folder
        self._sources = sources
        # Where the measurement names the place of the store, others may have memories there.
        self._owner = f"bench-{uuid.uuid4().hex}"
        # In the order of the file, and nothing else: an equal score must not put an answer first because of its id.
        self._ids = {f"m{number:08}": message.id for number, message in enumerate(conversation.messages, 1)}

    async def measure(self, group: Sequence[tuple[Variant, Taken]], *, progress: Progress) -> None:
        """Fill the store, then ask it in each of the ways."""
        messages = len(self._conversation.messages)
        progress(f"{group[0][0].label}: {messages} memories")
        started = time.perf_counter()
        notes = await self._fill(group[0][0])
        seconds = time.perf_counter() - started
        for variant, taken in group:
            progress(f"{variant.label}: {len(self._conversation.questions)} questions")
            taken.memories += messages
            taken.seconds += seconds
            taken.notes.update(notes)
            taken.outcomes.append(await self._ask(variant, taken))

    async def remove(self, variant: Variant) -> None:
        """Erase what was stored."""
        async with self._manager(variant, background=False) as memory:
            await memory.purge(None, owner=self._owner)

    async def _fill(self, variant: Variant) -> Counter[str]:
        notes: Counter[str] = Counter()
        async with self._manager(variant, background=False) as memory:
            ids = list(self._ids)
            messages: Sequence[Message] = self._conversation.messages
            for start in range(0, len(ids), BATCH):
                part = slice(start, start + BATCH)
                new = [message.memory for message in messages[part]]
                await memory.create_many(new, ids=ids[part], owner=self._owner)
            if variant.uses_source:
                await _index(memory, notes)
        return notes

    async def _ask(self, variant: Variant, taken: Taken) -> list[Outcome]:
        self._sources.reuses_questions = not variant.is_timed
        # As in a program that runs for long: what keeps the index up with other processes is not done before an answer.
        async with self._manager(variant, background=True) as memory:
            counts = await memory.count(owner=self._owner)
            if counts.total != len(self._ids):
                reason = f"{counts.backend} holds {counts.total} of {len(self._ids)} memories after it was opened anew"
                raise MeasureError(f"{reason}; a store that keeps nothing when it is closed cannot be measured")
            warm = await memory.search(_WARM_UP, limit=RANKS, owner=self._owner, preview=True)
            taken.vector_store = warm.trace.resolution.vector_store if warm.trace.resolution else ""
            return [await self._answer(memory, variant, number) for number in range(len(self._conversation.questions))]

    async def _answer(self, memory: MemoryManager, variant: Variant, number: int) -> Outcome:
        question = self._conversation.questions[number]
        started = time.perf_counter()
        # A preview differs in one thing: the recall is not counted, and so cannot change what comes after.
        result = await memory.search(question.text, limit=RANKS, owner=self._owner, preview=True)
        milliseconds = (time.perf_counter() - started) * 1000
        ranked = [self._ids[hit.memory.id] for hit in result.hits]
        return Outcome(
            conversation=self._place,
            question=question.id,
            category=question.category,
            measured=measure_both(ranked, question.gold, sessions=self._conversation.sessions),
            milliseconds=milliseconds,
            lacking=_lacking(result, variant),
        )

    def _manager(self, variant: Variant, *, background: bool) -> MemoryManager:
        from memspine import MemoryManager

        config = placed(variant.config, folder=self._folder, sources=self._sources)
        return MemoryManager(config, background=background)


async def _index(memory: MemoryManager, notes: Counter[str]) -> None:
    """Embed everything. Raises MeasureError if that does not come to its end."""
    last: list[tuple[int, str]] = []

    def remember(spaces: Sequence[SpaceProgress]) -> None:
        last[:] = [(space.failing, space.reason) for space in spaces]

    report = await memory.reindex(on_progress=remember)
    if not report.complete:
        raise MeasureError(f"not everything could be embedded: {'; '.join(report.troubles) or 'no reason is known'}")
    for failing, reason in last:
        if failing:
            notes[f"memories without a vector, because of: {reason}"] += failing


def _lacking(result: SearchResult, variant: Variant) -> tuple[str, ...]:
    """What was missing for an answer, but for vectors where none are asked for."""
    if variant.uses_source:
        return result.trace.degraded
    off = {leg.detail for leg in result.trace.legs if leg.leg == "vector"}
    return tuple(text for text in result.trace.degraded if text not in off)
