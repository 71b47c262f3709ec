"""Owners apart, odd texts, processes without a network, and what a purge leaves, with words and meaning together."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memspine.blocking import MemoryManager
from memspine.errors import InvalidMemoryError, MemspineError
from memspine.model import MemoryFilter
from memspine.text import query_terms

from .parts import active, new_memory, rows, shelved
from .workers import text_of

SUBJECTS = (
    "walnut tree garden train lisbon bee sting allergic penicillin printer invoice cello evening spring dog puppy "
    "veterinarian car mechanic holiday vacation doctor physician coffee espresso"
).split()
QUESTIONS = ("Which vet treats the puppy?", "walnut", "the of and", "holiday in Lisbon", "🐕")
SESSIONS = ("", "s1", "s2")


def leg(result, name):
    (found,) = [one for one in result.trace.legs if one.leg == name]
    return found


# ── owners ──


def short_texts():
    """Short texts of words that questions ask about."""
    return st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=8).map(" ".join)


def memories():
    """Memories of one owner, some with a speaker."""
    return st.builds(
        lambda text, session, speaker: new_memory(
            text, session=session, metadata={"speaker": speaker} if speaker else {}
        ),
        short_texts(),
        st.sampled_from(SESSIONS),
        st.sampled_from(["", "Ada", "Ben"]),
    )


def answers(memory):
    """What alice is answered: ids, scores and order, and everything of the trace that no clock decides."""
    found = []
    for question in QUESTIONS:
        for strategy in ("hybrid", "semantic"):
            for session in (None, "s1"):
                result = memory.search(question, strategy=strategy, owner="alice", session=session, limit=30)
                hits = [(hit.memory.id, hit.score, hit.rank, hit.legs, hit.matched) for hit in result.hits]
                legs = [(one.leg, one.status, one.detail, one.matched, one.candidates) for one in result.trace.legs]
                found.append((question, strategy, session, hits, legs, result.trace.degraded, result.trace.cut_counts))
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mine=st.lists(memories(), min_size=1, max_size=25),
    theirs=st.lists(memories(), min_size=1, max_size=40),
    nearer=st.integers(0, 30),
)
def test_other_owners_change_nothing(place, mine, theirs, nearer):
    """Whatever other owners add, however near it is and under whichever ids, no id, score, order or count of an owner's
    answers changes."""
    with tempfile.TemporaryDirectory(dir=place.folder) as folder:
        here = type(place)(Path(folder), place.environ)
        here.configure("static", static={"plugin": "static"}, vectors={"plugin": "sqlite", "path": here.store})
        with here.memory() as memory:
            memory.create_many(mine, ids=[f"m{n}" for n in range(len(mine))], owner="alice")
            memory.reindex()
            before = answers(memory)
            assert all(not degraded for *_, degraded, _ in before)
            memory.create_many(theirs, ids=[f"m{n}" for n in range(len(theirs))], owner="bob")
            near = [new_memory(question, session="s1") for question in QUESTIONS * 6][:nearer]
            memory.create_many(near, owner="carol")
            memory.reindex()
            assert answers(memory) == before
        with here.memory() as fresh:
            assert answers(fresh) == before


FEW = [f"The dog number {n} went to the veterinarian." for n in range(5)]
NEAR = [f"Who is the veterinarian of the puppy {n}?" for n in range(300)]
QUESTION = "Who is the veterinarian of the puppy?"


@pytest.mark.parametrize("what", ["owner", "session", "type", "expiry"])
@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
def test_few_among_many_nearer_ones_are_found(place, what, strategy):
    """Five memories are all found among 300 nearer ones that belong to another owner or session, are of another type or
    have expired."""
    place.configure("static", static={"plugin": "static"}, vectors={"plugin": "sqlite", "path": place.store})
    with place.memory() as memory:
        few = [new_memory(text, session="mine", type="semantic") for text in FEW]
        soon = datetime.now(UTC) + timedelta(hours=1)
        fields = {
            "owner": {"session": "mine", "type": "semantic"},
            "session": {"session": "other", "type": "semantic"},
            "type": {"session": "mine", "type": "episodic"},
            "expiry": {"session": "mine", "type": "semantic", "expires_at": soon},
        }[what]
        memory.create_many([new_memory(text, **fields) for text in NEAR], owner="bob" if what == "owner" else None)
        memory.create_many(few)
        memory.reindex()
        if what == "expiry":
            _let_expire(place.store)
        result = memory.search(
            QUESTION,
            strategy=strategy,
            limit=10,
            session="mine" if what == "session" else None,
            filter=MemoryFilter(types=("semantic",)) if what == "type" else None,
        )
    assert sorted(hit.memory.content for hit in result.hits) == FEW
    assert (leg(result, "vector").matched, result.trace.degraded) == (5, ())


def _let_expire(path):
    """Let the time of expiry of memories and vectors be over."""
    rows(path, "UPDATE memories SET expires_at = 1000 WHERE expires_at IS NOT NULL")
    rows(path, "UPDATE vectors SET expires_at = 1000 WHERE expires_at IS NOT NULL")


# ── odd texts ──

ODD = {
    "blank": "  \n\t ",
    "invisible": "\u200b\u200b",
    "long": "The walnut tree stands in the garden. " * 1316,
    "one-word": "x" * 50_000,
    "emoji": "🐕🎻🌳",
    "stop-words": "the of and to a in",
    "script": "東京タワー",
    "marks": "?!... ---",
}


@pytest.fixture
def memory(place):
    """A manager over the shipped model."""
    place.configure("static", static={"plugin": "static"}, vectors={"plugin": "sqlite", "path": place.store})
    with place.memory() as opened:
        yield opened


def test_an_empty_memory_is_refused(memory, place):
    """An empty text is refused, and nothing is stored."""
    with pytest.raises(InvalidMemoryError, match="not empty"):
        memory.create("")
    assert memory.list().total == 0


def test_odd_memories_cost_no_other_its_vector(memory, place):
    """Odd texts are stored, and every text with a visible character is in the space; one that has none keeps nobody
    else out."""
    for id, text in ODD.items():
        memory.create(text, id=id)
    memory.create("A dog and its veterinarian.", id="plain")
    memory.reindex()
    assert memory.list().total == len(ODD) + 1
    held = {id for _, id in active(place.store).memories}
    assert held >= {"long", "one-word", "emoji", "stop-words", "script", "marks", "plain"}
    assert memory.get("long").memory.content == ODD["long"].strip() or memory.get("long").memory.content == ODD["long"]
    _, chunks = active(place.store).memories["me", "long"]
    assert len(chunks) > 10


@pytest.mark.parametrize("strategy", ["hybrid", "semantic", "exact"])
@pytest.mark.parametrize("question", ["", *ODD.values()], ids=["empty", *ODD])
def test_odd_questions_are_answered(memory, question, strategy):
    """No question is an error, and what leg could not be asked is said."""
    memory.create_many([new_memory(text) for text in [*ODD.values(), "A dog and its veterinarian."]])
    memory.reindex()
    result = memory.search(question, strategy=strategy)
    if question.strip() and strategy != "exact" and leg(result, "vector").status != "ran":
        assert result.trace.degraded
    assert len({hit.memory.id for hit in result.hits}) == len(result.hits)


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
def test_emoji_find_emoji(memory, strategy):
    """A question of nothing but an emoji finds the memory that holds it, by its vector."""
    memory.create_many([new_memory(text) for text in ("A walnut tree.", "🐕🐕", "🎻")])
    memory.reindex()
    result = memory.search("🐕", strategy=strategy)
    assert (result.hits[0].memory.content, leg(result, "vector").status) == ("🐕🐕", "ran")


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
def test_a_name_alone_is_a_question(memory, strategy):
    """A question that is nothing but the name of who said things is answered with what that person said."""
    said = [new_memory(f"I like {subject}.", metadata={"speaker": "Ada"}, session="s") for subject in SUBJECTS[:5]]
    memory.create_many([*said, new_memory("The cello is old.", metadata={"speaker": "Ben"}, session="s")])
    memory.reindex()
    result = memory.search("Ada", strategy=strategy, limit=5)
    assert {hit.memory.metadata["speaker"] for hit in result.hits} == {"Ada"}, result.trace.degraded


@pytest.mark.parametrize("limit", [-1, 100_001, 2.5, True, "3"])
def test_impossible_limits_are_refused(memory, limit):
    """A limit that cannot be is refused with the range, before anything is searched."""
    with pytest.raises(InvalidMemoryError, match=r"limit.*from 0 to"):
        memory.search("walnut", limit=limit)


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
def test_limits_hold(memory, strategy):
    """A limit of 0 gives nothing, the largest one gives everything that the legs find, each once; one beyond it is
    refused and names it."""
    memory.create_many([new_memory(text_of(f"m{n}", 1)) for n in range(1200)])
    memory.reindex()
    assert memory.search("walnut", strategy=strategy, limit=0).hits == ()
    largest = _largest_limit(memory)
    result = memory.search("walnut", strategy=strategy, limit=largest)
    ids = [hit.memory.id for hit in result.hits]
    assert len(ids) == len(set(ids)) == min(largest, 1200)


def _largest_limit(memory):
    """100 000, or what the refusal of it names."""
    try:
        memory.search("walnut", limit=100_000)
    except InvalidMemoryError as error:
        return int(str(error).rpartition("from 0 to ")[2].split()[0].rstrip(".;,"))
    return 100_000


# ── fresh processes without a network ──

NO_NETWORK = """
import os, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        with open(os.environ["MEMSPINE_TEST_TRIED"], "a") as file:
            file.write(f"{event} {arguments!r}\\n")
        raise OSError("no network")

sys.addaudithook(refuse)
"""


@pytest.fixture
def offline(place, monkeypatch):
    """Commands of the user's own, without configuration and without a network; what tried to use it is written down."""
    (place.folder / "site" / "sitecustomize.py").write_text(NO_NETWORK)
    tried = place.folder / "tried"
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("MEMSPINE_")]:
        monkeypatch.delenv(name)
    place.environ["MEMSPINE_TEST_TRIED"] = str(tried)
    place.config.write_text('[backends.store]\nplugin = "sqlite"\npath = "memories.db"\n')
    yield place
    assert not tried.exists(), tried.read_text()


def test_a_quickstart_shows_a_hit_by_meaning(offline):
    """Without a network the quickstart shows an answer that has no content word in common with its question, and says
    so."""
    told = offline.command("quickstart")
    found = [
        (entry["question"], hit["content"])
        for entry in told["questions"]
        for hit in entry["results"]
        if [one["leg"] for one in hit["legs"]] == ["vector"]
        and not hit["matched"]
        and not set(query_terms(entry["question"]).terms) & set(query_terms(hit["content"]).terms)
    ]
    assert found
    assert told["off"] == []
    assert "found by meaning: no word in common" in offline.text("quickstart")


def test_commands_find_by_meaning_what_commands_stored(offline):
    """What one command stores the next one finds by meaning, with nothing in between, and a later one too."""
    offline.command("add", "Our puppy was vaccinated yesterday.")
    offline.command("add", "The invoice of the printer is paid.")
    for _ in range(2):
        found = offline.command("search", "Was the dog given a shot?")
        assert found["results"][0]["content"] == "Our puppy was vaccinated yesterday."
        assert found["results"][0]["legs"][0]["leg"] == "vector"
        assert found["trace"]["degraded"] == []
    offline.command("add", "Grandfather plays the cello.")
    found = offline.command("search", "Which musical instrument is in the family?", "--strategy", "semantic")
    assert found["results"][0]["content"] == "Grandfather plays the cello."
    assert len(active(offline.store).memories) == 3


# ── purging ──


@pytest.mark.parametrize("quantisation", ["none", "int8", "binary"])
@pytest.mark.parametrize("beside", [True, False], ids=["one file", "two files"])
def test_a_purge_leaves_no_byte_of_a_vector(place, quantisation, beside):
    """After a purge no file holds the text or a vector of what was purged, in any space, and the receipt names the
    vectors."""
    path = place.store if beside else place.folder / "vectors.db"
    vectors = {"plugin": "sqlite", "path": path, "quantisation": quantisation}
    letters = {"plugin": "letters"}
    place.configure("static", embedding={"fallback": "letters"}, letters=letters, vectors=vectors)
    with place.memory() as memory:
        ids = [f"m{n:03}" for n in range(60)]
        # As many of one letter as no other text has: no two texts have the same vector in any space.
        texts = [f"zebra{n} {text_of(ids[n], 1)} {'abcdefgh'[n % 8] * (n + 9)}" for n in range(60)]
        memory.create_many(map(new_memory, texts), ids=ids)
        memory.update("m007", content="zebra777 changed")
        memory.reindex()
        memory.search("walnut")
        gone = ["m003", "m007", "m059"]
        pieces = _stored_codes(path, gone)
        assert len(pieces) >= 4
        receipt = memory.purge(gone)
        assert receipt.memories == 3
        assert {one.status for one in receipt.places if "vectors" in one.place} == {"erased"}
        assert {one.status for one in receipt.places} <= {"erased", "kept"}
        words = [b"zebra3 ", b"zebra7 ", b"zebra777", b"zebra59"]
        for file in sorted(place.folder.glob("*.db*")):
            data = file.read_bytes()
            assert [piece for piece in [*pieces, *words] if piece in data] == [], file.name
        assert memory.reindex().complete
    assert [len(space.memories) for space in shelved(path)] == [57, 57]


_CODES = """SELECT code FROM vectors WHERE id IN (SELECT value FROM json_each(?1)) UNION
    SELECT o.vector FROM originals AS o JOIN vectors AS v ON v.row = o.row
    WHERE v.id IN (SELECT value FROM json_each(?1))"""


def _stored_codes(path, ids):
    """What the file holds as the vectors of these memories, in every space, where it is too long to be there by
    chance."""
    found = (bytes(code) for (code,) in rows(path, _CODES, json.dumps(ids)))
    return [code for code in found if sum(byte != 0 for byte in code) >= 16]


def test_a_purge_of_an_owner_reaches_every_space(place):
    """A purge of everything that an owner has leaves the others, and nothing of the owner in any space or queue."""
    place.configure("static", embedding={"fallback": "letters"}, letters={"plugin": "letters"})
    with place.memory() as memory:
        for owner in ("alice", "bob"):
            memory.create_many([new_memory(text_of(f"m{n}", 1)) for n in range(20)], owner=owner)
        memory.reindex()
        memory.create_many([new_memory(text_of(f"n{n}", 1)) for n in range(5)], owner="alice")
        receipt = memory.purge(None, owner="alice")
        assert receipt.memories == 25
        assert memory.reindex().complete
        assert memory.search("walnut", owner="alice").hits == ()
        assert len(memory.search("walnut", owner="bob", limit=50).hits) == 20
    for space in shelved(place.store):
        assert {owner for owner, _ in space.memories} == {"bob"}
        assert space.queued == 0


def test_wrong_arguments_reach_no_store(tmp_path):
    """A manager that is refused its configuration leaves no file behind."""
    settings = {
        "backends": {"store": {"plugin": "sqlite", "path": str(tmp_path / "m.db")}},
        "embedding": {"source": "nowhere"},
    }
    with pytest.raises(MemspineError, match="nowhere"), MemoryManager(settings):
        pass
    assert json.dumps(sorted(file.name for file in tmp_path.iterdir())) == "[]"
