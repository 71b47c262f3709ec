"""Capability native_hybrid: the store's own vectors and keywords."""

from __future__ import annotations

from memspine.conformance.backend.test_search import ask
from memspine.conformance.backend.tools import add
from memspine.conformance.clauses import clause
from memspine.conformance.samples import BOB
from memspine.contracts import MemoryBackend
from memspine.model import Scope


@clause("MB-150")
async def test_a_native_search_keeps_the_rules_of_search(store: MemoryBackend) -> None:
    """Limits, order and walls hold, and a memory that says what was asked comes first."""
    await add(store, "wanted", "The walnut was planted in the spring", session="s")
    await add(store, "near", "A hazel bush grows beside the house")
    await add(store, "foreign", "The walnut was planted in the spring", scope=BOB)
    found = await ask(store, "The walnut was planted in the spring")
    assert found[0].memory.id == "wanted"
    assert {hit.memory.owner for hit in found} == {"alice"}
    assert len(await ask(store, "walnut", limit=1)) == 1
    inside = await ask(store, "hazel", scope=Scope.of_session("alice", "s"))
    assert "near" not in [hit.memory.id for hit in inside]
