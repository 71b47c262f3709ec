"""A measurement from end to end, on a small file."""

from pathlib import Path

import pytest

from memspine import MemoryManager
from memspine.blocking import MemoryManager as BlockingManager
from memspine.conformance.reference.embeddings import ReferenceEmbeddings
from memspine.errors import ConfigError
from memspine_bench import SETTINGS, MeasureError, RequestError, Setting, evaluate, read_data

DATA = read_data(Path(__file__).with_name("conversations.json"))
SOURCES = ["reference"]


@pytest.fixture
def embedded(monkeypatch):
    """The texts that were embedded, by role."""
    texts = {"document": [], "query": []}
    embed = ReferenceEmbeddings.embed

    async def counted(self, given, *, role):
        texts[role] += given
        return await embed(self, given, role=role)

    monkeypatch.setattr(ReferenceEmbeddings, "embed", counted)
    return texts


def percentages(report):
    return {row.label: {name: figure.percent for name, figure in row.scores.figures.items()} for row in report.rows}


def test_words_find_what_shares_words():
    """Five questions are asked, each finds a gold memory among so few, and everything around it is told."""
    report = evaluate(DATA, settings=["keyword"])
    (row,) = report.rows
    assert (row.label, row.scores.questions, row.scores.percent("any@10")) == ("keyword", 5, 100.0)
    assert {name: scores.questions for name, scores in row.categories.items()} == {"one": 3, "several": 2}
    assert row.constants["vectors.enabled"] is False
    assert row.p95_ms >= row.p50_ms > 0
    assert row.indexed_per_second > 0
    assert (report.data.memories, report.data.questions, report.data.without_gold) == (10, 5, 1)
    assert report.machine.versions["memspine"]


def test_all_settings_are_measured_and_compared():
    """Every setting has a row that says how it was found, and each fused one is compared with its legs."""
    report = evaluate(DATA, settings=["all"], sources=SOURCES)
    assert [row.setting for row in report.rows] == list(SETTINGS)
    assert {row.source for row in report.rows} == {"", "reference"}
    assert [row.constants["retrieval.fusion"] for row in report.rows][-2:] == ["rrf", "weighted"]
    assert report.row("vectors").constants["retrieval.strategy"] == "semantic"
    assert report.row("keyword-plain").constants["retrieval.context"] is False
    assert report.row("hybrid").identity.model == "hashed-words"
    assert [one.label for one in report.comparisons] == [
        "hybrid (reference)",
        "rrf (reference)",
        "weighted (reference)",
    ]
    assert not any(row.notes for row in report.rows)
    difference = report.comparisons[0].differences[0]
    assert difference.points == difference.fused - max(difference.keyword, difference.vectors)


def test_the_legs_of_hybrid_come_with_it():
    """Who asks for hybrid gets its legs as well, marked as not asked for."""
    report = evaluate(DATA, settings=["hybrid"], sources=SOURCES)
    assert {row.setting: row.asked_for for row in report.rows} == {"hybrid": True, "keyword": False, "vectors": False}
    assert len(report.comparisons) == 1


def test_the_same_again():
    """Two measurements give the same figures."""
    assert percentages(evaluate(DATA, sources=SOURCES)) == percentages(evaluate(DATA, sources=SOURCES))


def test_ids_follow_the_file_and_say_nothing(monkeypatch):
    """What is stored has ids in the order of the file; neither they nor the metadata hold an id of it."""
    stored = []
    create_many = MemoryManager.create_many

    async def seen(self, memories, *, ids, owner):
        stored.append((ids, [memory.metadata for memory in memories], owner))
        return await create_many(self, memories, ids=ids, owner=owner)

    monkeypatch.setattr(MemoryManager, "create_many", seen)
    evaluate(DATA, settings=["keyword"])
    assert [ids for ids, _, _ in stored] == [[f"m{n:08}" for n in range(1, count + 1)] for count in (6, 4)]
    assert stored[0][1][5] == {"mood": "glad", "speaker": "Ada", "source": "boat/6"}
    assert len({owner for _, _, owner in stored}) == 2


def test_tuning_embeds_once(embedded):
    """A grid embeds no memory and no question again: each row and each leg embeds what it needs once."""
    evaluate(DATA, settings=["vectors"], sources=SOURCES)
    once = {role: len(texts) for role, texts in embedded.items()}
    for texts in embedded.values():
        texts.clear()
    weights = [n / 20 for n in range(20)]
    report = evaluate(DATA, settings=["vectors"], sources=SOURCES, tune={"retrieval.vector_weight": weights})
    assert {role: len(texts) for role, texts in embedded.items()} == once
    (tuned,) = report.tuned
    assert [fold.conversation for fold in tuned.folds] == ["boat", "bread"]
    assert tuned.held_out.questions == tuned.best.questions == tuned.configured.questions == 5


def test_tuning_what_changes_the_index():
    """A key that decides how texts are embedded may be tuned as well: each value gets stores of its own."""
    report = evaluate(
        DATA,
        settings=["vectors"],
        sources=SOURCES,
        tune={"embedding.reference.dimension": [256, 1], "retrieval.vector_floor": [0.0]},
    )
    (tuned,) = report.tuned
    assert tuned.makes_a_difference
    assert tuned.best_values == {"embedding.reference.dimension": 256, "retrieval.vector_floor": 0.0}
    assert tuned.best == tuned.configured


def test_tuning_needs_two_conversations():
    """With one conversation there is none to choose values on."""
    with pytest.raises(RequestError, match="needs two"):
        evaluate(DATA.conversations[:1], tune={"retrieval.rrf_k": [1, 2]})


def test_several_sources():
    """Each setting that uses a source has a row for each, and words alone have one."""
    overrides = [{"embedding": {"coarse": {"plugin": "reference", "dimension": 2}}}]
    report = evaluate(DATA, settings=["keyword", "vectors"], sources=["reference", "coarse"], overrides=overrides)
    assert [row.label for row in report.rows] == ["keyword", "vectors (reference)", "vectors (coarse)"]
    assert report.row("vectors", "coarse").identity.dimension == 2


def test_without_a_source_words_remain():
    """What needs a source is left out, with the reason, where there is none; alone it cannot be measured."""
    report = evaluate(DATA, settings=["keyword", "vectors"], sources=["none"])
    assert [row.setting for row in report.rows] == ["keyword"]
    assert report.left_out == ('vectors: the embedding source is "none"',)
    with pytest.raises(RequestError, match="none"):
        evaluate(DATA, settings=["vectors"], sources=["none"])


def test_settings_of_ones_own():
    """A setting may be made up by the caller, and overrides reach every row."""
    mine = Setting(name="mine", help="", changes={"retrieval": {"keyword_floor": 0.5}}, uses_source=False)
    report = evaluate(DATA, settings=[mine], overrides=[{"vectors": {"enabled": False}, "retrieval": {"rrf_k": 7}}])
    constants = report.rows[0].constants
    assert (constants["retrieval.keyword_floor"], constants["retrieval.rrf_k"]) == (0.5, 7)


def test_problems_are_told_before_anything_is_measured():
    """Unknown settings, unknown sources and values out of range are refused."""
    with pytest.raises(RequestError, match="did you mean 'hybrid'"):
        evaluate(DATA, settings=["hybird"])
    with pytest.raises(ConfigError, match="no-such-source"):
        evaluate(DATA, sources=["no-such-source"])
    with pytest.raises(ConfigError, match="out of range"):
        evaluate(DATA, settings=["keyword"], tune={"retrieval.vector_weight": [0.5, 7.0]})


def test_the_users_memories_are_left_alone(tmp_path):
    """The store of a configuration is used, but never the file that it names, nor the fallback, owner or session."""
    mine = tmp_path / "mine.db"
    written = f"""
        [memory]
        owner = "me"
        session = "s"
        primary = "notes"
        fallbacks = ["old"]
        [retrieval]
        scope = "session"
        fusion = "rrf"
        [backends.notes]
        plugin = "sqlite"
        path = "{mine.as_posix()}"
        readers = 3
        [backends.old]
        plugin = "sqlite"
        path = "old.db"
        [embedding]
        source = "words"
        [embedding.words]
        plugin = "reference"
        dimension = 32
        """
    file = tmp_path / "memspine.toml"
    file.write_text(written, encoding="utf-8")
    with BlockingManager(file, background=False) as memory:
        memory.create("Where does the kayak leak? At home.", session="s")
    before = mine.read_bytes()
    report = evaluate(DATA, config=file)
    row = report.row("hybrid")
    assert (row.source, row.identity.dimension, row.constants["retrieval.fusion"]) == ("words", 32, "rrf")
    assert mine.read_bytes() == before
    assert not (tmp_path / "old.db").exists()
    assert report.notes == ("not taken over from the configuration, as they may name a place: backends.notes.path",)


def test_a_place_of_the_measurement_is_cleared_afterwards(tmp_path):
    """A place that the measurement itself names is used, beside what others have there, and left without its own."""
    place = tmp_path / "place.db"
    overrides = [{"backends": {"sqlite": {"path": str(place)}}}]
    with BlockingManager(overrides[0] | {"backends": {"s": {"plugin": "sqlite", "path": str(place)}}}) as memory:
        memory.create("A kayak that is not in the file.", owner="stranger")
    report = evaluate(DATA, settings=["keyword"], overrides=overrides)
    assert report.row("keyword").scores.percent("any@10") == 100.0
    with BlockingManager({"backends": {"s": {"plugin": "sqlite", "path": str(place)}}}) as memory:
        assert memory.count(everyone=True, management=True).total == 1


def test_a_store_that_keeps_nothing_is_refused():
    """A backend whose memories end with the manager cannot be measured, which is told."""
    with pytest.raises(MeasureError, match="0 of 6"):
        evaluate(DATA, settings=["keyword"], overrides=[{"backends": {"r": {"plugin": "reference"}}}])


def test_a_source_that_does_not_work_is_told_at_once(monkeypatch):
    """What is wrong with a source ends the measurement before anything is stored."""

    async def broken(self, texts, *, role):
        raise OSError("no model here")

    monkeypatch.setattr(ReferenceEmbeddings, "embed", broken)
    monkeypatch.setattr(MemoryManager, "create_many", None)
    with pytest.raises(MeasureError, match="no model here"):
        evaluate(DATA, sources=SOURCES)
