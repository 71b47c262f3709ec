"""Quality of the keyword leg on conversations that are kept outside the repository. Runs as: tox -e bench."""

import json
import statistics
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path

import pytest

from memspine.model import KeywordStatistics
from memspine.ranking import best_documents, length_code
from memspine.text import memory_terms, query_terms

from .corpus import NO_DATA

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


class Index:
    """Posting lists in memory; ties are broken by position, because the ids of these files are positions."""

    def __init__(self, memories):
        self.ids = [memory["id"] for memory in memories]
        self.postings = defaultdict(dict)
        for position, memory in enumerate(memories):
            # A memory without a time is of the day it is imported: the same for all, and so of no weight.
            created = datetime.fromisoformat(memory["time"] or "2026-01-01")
            terms = memory_terms(memory["text"], key="", metadata={"speaker": memory["speaker"]}, created_at=created)
            for term, frequency in Counter(terms).items():
                self.postings[term][position << 8 | length_code(len(terms))] = frequency

    def search(self, question, limit):
        """The ids of the best memories."""
        postings = [self.postings.get(term, {}) for term in query_terms(question).terms]
        counts = KeywordStatistics(
            documents=len(self.ids), total_length=0, document_frequencies=tuple(map(len, postings))
        )
        found = best_documents(postings, statistics=counts, limit=limit)
        best = sorted(found.best, key=lambda pair: (-pair[0], pair[1]))
        return [self.ids[document >> 8] for _, document in best[:limit]]


@pytest.mark.parametrize(
    ("name", "any5", "any10", "all10"),
    [("conversations-short.json", 65.1, 72.6, 60.9), ("conversations-long.json", 68.5, 75.0, 39.8)],
)
def test_questions_find_their_memories(bench, without_shared, *, name, any5, any10, all10):
    """Of the questions, so many percent have one of their memories among the first 5 and 10, and all among 10."""
    row = f"ranking-{name.removeprefix('conversations-').removesuffix('.json')}"
    if not (DATA / name).exists():
        bench.missing(row, reason=NO_DATA)
        without_shared(NO_DATA)
    rows = []
    for conversation in json.loads((DATA / name).read_text(encoding="utf-8"))["conversations"]:
        index = Index(conversation["memories"])
        for question in conversation["questions"]:
            found, gold = index.search(question["text"], 10), set(question["gold"])
            rows.append((bool(gold & set(found[:5])), bool(gold & set(found)), gold <= set(found)))
    reached = [round(100 * statistics.fmean(column), 1) for column in zip(*rows, strict=True)]
    bench.record(row, measured=tuple(reached))
    assert all(value >= floor for value, floor in zip(reached, (any5, any10, all10), strict=True)), reached
